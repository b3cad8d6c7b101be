package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
)

const defaultPeer = "127.0.0.1:8081"

// clientVariables are the environment of status, drain and undrain; serve, which
// refuses variables it does not know, leaves them alone.
var clientVariables = []string{"BANYAN_ADMIN_PEER", "BANYAN_ADMIN_KEY", "BANYAN_ADMIN_KEY_FILE", "BANYAN_ADMIN_CA", "BANYAN_ADMIN_CERT", "BANYAN_ADMIN_CERT_KEY"}

// adminClient asks one peer's admin listener.
type adminClient struct {
	peer, key, keyFile, ca, cert, certKey string

	http *http.Client // made on first use
}

// flags adds what says whom to ask, and how to be let in. Each is also an
// environment variable; a key on the command line can be read by others on the
// machine, hence the file.
func (c *adminClient) flags(fs *flag.FlagSet) {
	text := func(into *string, name, env, def, help string) {
		if v := os.Getenv(env); v != "" {
			def = v
		}
		fs.StringVar(into, name, def, help+" ($"+env+")")
	}
	text(&c.peer, "peer", "BANYAN_ADMIN_PEER", defaultPeer, "admin.listen address of any peer, host:port; https://host:port where it speaks TLS")
	fs.StringVar(&c.key, "admin-key", "", "admin key ($BANYAN_ADMIN_KEY)") // read in open: --help must not show it
	text(&c.keyFile, "admin-key-file", "BANYAN_ADMIN_KEY_FILE", "", "file with an admin key")
	text(&c.ca, "ca", "BANYAN_ADMIN_CA", "", "file with the CA certificates that signed the peer's certificate (PEM); default: the system's CAs")
	text(&c.cert, "cert", "BANYAN_ADMIN_CERT", "", "file with a client certificate (PEM)")
	text(&c.certKey, "cert-key", "BANYAN_ADMIN_CERT_KEY", "", "file with the private key of --cert (PEM)")
}

// asked repeats --peer for a command that is told to the user; empty if it was
// not given.
func (c *adminClient) asked(fs *flag.FlagSet) (text string) {
	fs.Visit(func(f *flag.Flag) {
		if f.Name == "peer" {
			text = "--peer " + c.peer + " "
		}
	})
	return text
}

// adminURL makes a base address of what people type: a host alone has the port
// of admin.listen by default, a URL that of its scheme.
func adminURL(peer string) string {
	peer = strings.TrimRight(peer, "/")
	if strings.Contains(peer, "://") {
		return peer
	}
	host := strings.TrimSuffix(strings.TrimPrefix(peer, "["), "]")
	if ip := net.ParseIP(host); ip != nil || host != "" && !strings.Contains(host, ":") {
		_, port, _ := net.SplitHostPort(defaultPeer)
		peer = net.JoinHostPort(host, port)
	}
	return "http://" + peer
}

// open reads the files that the flags name.
func (c *adminClient) open() error {
	if c.http != nil {
		return nil
	}
	if c.key == "" && c.keyFile == "" {
		c.key = os.Getenv("BANYAN_ADMIN_KEY")
	}
	if c.key == "" && c.keyFile != "" {
		data, err := os.ReadFile(c.keyFile)
		if err != nil {
			return usageError{fmt.Errorf("--admin-key-file: %w", err)}
		}
		c.key = strings.TrimSpace(string(data))
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.ca != "" {
		pem, err := os.ReadFile(c.ca)
		if err != nil {
			return usageError{fmt.Errorf("--ca: %w", err)}
		}
		if cfg.RootCAs = x509.NewCertPool(); !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return usageError{fmt.Errorf("--ca: no certificate in %s", c.ca)}
		}
	}
	if c.cert != "" || c.certKey != "" {
		pair, err := tls.LoadX509KeyPair(c.cert, c.certKey)
		if err != nil {
			return usageError{fmt.Errorf("--cert, --cert-key: %w", err)}
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	c.http = &http.Client{Transport: &http.Transport{TLSClientConfig: cfg, Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true}}
	return nil
}

// maxAdminBytes bounds an answer.
const maxAdminBytes = 64 << 20

// call asks the admin listener; errors say what to do next.
func (c *adminClient) call(ctx context.Context, method, path string) ([]byte, error) {
	if err := c.open(); err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, method, adminURL(c.peer)+path, nil)
	if err != nil {
		return nil, usageError{err}
	}
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%w (%s)", err, cure(req.URL, err))
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(res.Body, maxAdminBytes))
	if err != nil {
		return nil, err
	}
	switch text, kind, code := complaint(raw); {
	case code == "no_client_certificate":
		return nil, fmt.Errorf("%s: %s asks for a client certificate: --cert and --cert-key", res.Status, c.peer)
	case res.StatusCode >= 300 && kind != "" && kind != adminFault:
		return nil, fmt.Errorf("%s: %s (%s is not an admin listener: is it the OpenAI port? --peer names admin.listen, port 8081 by default)", res.Status, text, c.peer)
	case res.StatusCode == http.StatusUnauthorized && c.key == "":
		return nil, fmt.Errorf("%s: %s asks for a key: --admin-key-file, or BANYAN_ADMIN_KEY in the environment", res.Status, c.peer)
	case res.StatusCode == http.StatusUnauthorized:
		return nil, fmt.Errorf("%s: %s does not know this admin key (its lines are in admin.keys_file)", res.Status, c.peer)
	case res.StatusCode == http.StatusBadRequest && strings.Contains(text, "HTTPS server"):
		return nil, fmt.Errorf("%s: the peer speaks TLS: --peer https://%s", res.Status, c.peer)
	case kind == adminFault && res.StatusCode == http.StatusNotFound:
		return nil, errors.New(text)
	case kind == adminFault:
		return nil, fmt.Errorf("%s: %s", res.Status, text)
	case res.StatusCode >= 300:
		return nil, fmt.Errorf("%s: %s (is %s the admin listener of a peer? --peer names admin.listen, port 8081 by default)", res.Status, text, c.peer)
	}
	return raw, nil
}

// adminFault is the type of the errors of admin listeners.
const adminFault = "admin_error"

// complaint is what an answer says is wrong, in one line, and of what type and
// code that is, if the answer has the form of the OpenAI API.
func complaint(raw []byte) (text, kind, code string) {
	var doc struct {
		Error struct {
			Message, Type string
			Code          any
		}
	}
	text = string(raw)
	if json.Unmarshal(raw, &doc) == nil && doc.Error.Message != "" {
		text, kind = doc.Error.Message, doc.Error.Type
		code, _ = doc.Error.Code.(string)
	}
	text = strings.Join(strings.Fields(text), " ")
	return text[:min(len(text), 300)], kind, code
}

// cure says what to do about a call to an address that got no answer.
func cure(at *url.URL, err error) string {
	var unknown x509.UnknownAuthorityError
	switch {
	case errors.As(err, &unknown):
		return "--ca names the authority that signed the peer's certificate"
	case strings.Contains(err.Error(), "HTTP response to HTTPS client"):
		return "the peer speaks no TLS: leave https:// out"
	}
	if at.Port() == "" {
		return "is a peer running there? --peer names no port: admin.listen has 8081 by default"
	}
	return "is a peer running there? --peer names its admin.listen address"
}
