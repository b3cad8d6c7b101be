package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
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

// adminURL makes a base address of what people type.
func adminURL(peer string) string {
	if !strings.Contains(peer, "://") {
		peer = "http://" + peer
	}
	return strings.TrimRight(peer, "/")
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
		return nil, fmt.Errorf("%w (%s)", err, cure(err))
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(res.Body, maxAdminBytes))
	if err != nil {
		return nil, err
	}
	switch text := complaint(raw); {
	case res.StatusCode == http.StatusUnauthorized && c.key == "":
		return nil, fmt.Errorf("%s: %s asks for a key: --admin-key-file, or BANYAN_ADMIN_KEY in the environment", res.Status, c.peer)
	case res.StatusCode == http.StatusUnauthorized:
		return nil, fmt.Errorf("%s: %s does not know this admin key (its lines are in admin.keys_file)", res.Status, c.peer)
	case res.StatusCode == http.StatusBadRequest && strings.Contains(text, "HTTPS server"):
		return nil, fmt.Errorf("%s: the peer speaks TLS: --peer https://%s", res.Status, c.peer)
	case res.StatusCode == http.StatusNotFound && bytes.Contains(raw, []byte(`"admin_error"`)):
		return nil, errors.New(text)
	case res.StatusCode == http.StatusNotFound && method == http.MethodGet:
		return nil, fmt.Errorf("%s: %s (is %s the OpenAI port? --peer names admin.listen, port 8081 by default)", res.Status, text, c.peer)
	case res.StatusCode >= 300:
		return nil, fmt.Errorf("%s: %s", res.Status, text)
	}
	return raw, nil
}

// complaint is what an answer says is wrong, in one line.
func complaint(raw []byte) string {
	var doc struct{ Error struct{ Message string } }
	text := string(raw)
	if json.Unmarshal(raw, &doc) == nil && doc.Error.Message != "" {
		text = doc.Error.Message
	}
	text = strings.Join(strings.Fields(text), " ")
	return text[:min(len(text), 300)]
}

// cure says what to do about a call that got no answer.
func cure(err error) string {
	var unknown x509.UnknownAuthorityError
	switch {
	case errors.As(err, &unknown):
		return "--ca names the authority that signed the peer's certificate"
	case strings.Contains(err.Error(), "HTTP response to HTTPS client"):
		return "the peer speaks no TLS: leave https:// out"
	}
	return "is a peer running there? --peer names its admin.listen address"
}
