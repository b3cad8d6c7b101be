package router

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// maxPEMBytes bounds one file of certificates.
const maxPEMBytes = 1 << 20

// TLSConfig names the PEM files of a listener. The files are read again when
// they change; connections that stand keep what they began with.
type TLSConfig struct {
	Cert     string `yaml:"cert" doc:"PEM certificate chain; with it the listener speaks TLS only"`
	Key      string `yaml:"key" doc:"PEM key of the certificate"`
	ClientCA string `yaml:"client_ca" doc:"PEM authorities; clients must have a certificate of one (health checks need none)"`
}

// On reports whether the listener speaks TLS.
func (c *TLSConfig) On() bool { return c.Cert != "" }

// Validate reports every fault by key.
func (c *TLSConfig) Validate(section string) error {
	switch {
	case (c.Cert == "") != (c.Key == ""):
		return fmt.Errorf("%s: cert and key go together", section)
	case c.ClientCA != "" && c.Cert == "":
		return fmt.Errorf("%s.client_ca: needs cert and key", section)
	}
	return nil
}

// certificate is what a listener shows and asks for, as it was read.
type certificate struct {
	leaf   *x509.Certificate
	server *tls.Config
}

// readCertificate reads a listener's files; nil if it speaks no TLS. A
// certificate that is not valid now is refused, so that a reload never replaces
// a good one by it.
func readCertificate(c *TLSConfig, section string, now time.Time) (*certificate, error) {
	if !c.On() {
		return nil, nil
	}
	chain, err := readBoundedFile(c.Cert, maxPEMBytes)
	if err != nil {
		return nil, fmt.Errorf("%s.cert: %w", section, err)
	}
	private, err := readBoundedFile(c.Key, maxPEMBytes)
	if err != nil {
		return nil, fmt.Errorf("%s.key: %w", section, err)
	}
	pair, err := tls.X509KeyPair(chain, private)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", section, err)
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		return nil, fmt.Errorf("%s.cert: %w", section, err)
	}
	if now.Before(leaf.NotBefore) || now.After(leaf.NotAfter) {
		return nil, fmt.Errorf("%s.cert: it is valid from %s to %s, not now", section,
			leaf.NotBefore.UTC().Format(time.RFC3339), leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	out := &certificate{leaf: leaf, server: &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2", "http/1.1"},
	}}
	if c.ClientCA != "" {
		err = out.askClients(c.ClientCA, section)
	}
	return out, err
}

// ends is when the certificate does, in seconds since 1970.
func (c *certificate) ends() float64 {
	return float64(c.leaf.NotAfter.Unix())
}

// askClients asks for certificates. Whether one must be shown is decided per
// request (needCertificate), for health checks have none. Sessions are not
// resumed, so that a removed authority ends with its file.
func (c *certificate) askClients(path, section string) error {
	pem, err := readBoundedFile(path, maxPEMBytes)
	if err != nil {
		return fmt.Errorf("%s.client_ca: %w", section, err)
	}
	c.server.ClientCAs = x509.NewCertPool()
	if !c.server.ClientCAs.AppendCertsFromPEM(pem) {
		return fmt.Errorf("%s.client_ca: no certificate in %s", section, path)
	}
	c.server.ClientAuth = tls.VerifyClientCertIfGiven
	c.server.SessionTicketsDisabled = true
	return nil
}

// errNoTLS ends a handshake that cannot be: a listener never stops speaking TLS
// while it runs.
var errNoTLS = errors.New("no certificate")

// serverTLS is a listener's configuration: each handshake takes the
// certificate of that moment.
func (d *doors) serverTLS(of func(*rules) *certificate) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		if c := of(d.rules.Load()); c != nil {
			return c.server, nil
		}
		return nil, errNoTLS
	}}
}

func httpCertificate(r *rules) *certificate  { return r.http }
func adminCertificate(r *rules) *certificate { return r.admin }

// needCertificate refuses requests without a client's certificate, for
// listeners that have a client_ca.
func (d *doors) needCertificate(listener string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
			d.metrics.refused.WithLabelValues(listener, "certificate").Inc()
			refuse(w, r, http.StatusUnauthorized, "no_client_certificate", "this listener asks for a client certificate")
			return
		}
		next.ServeHTTP(w, r)
	})
}
