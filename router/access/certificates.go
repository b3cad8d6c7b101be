package access

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
	Cert     string `yaml:"cert" doc:"file with the certificate chain (PEM); with it the listener speaks TLS only"`
	Key      string `yaml:"key" doc:"file with the private key of the certificate (PEM)"`
	ClientCA string `yaml:"client_ca" doc:"file with CA certificates (PEM); clients must present a certificate signed by one of them, except for health checks"`
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

// Certificate is what a listener shows and asks for, as it was read.
type Certificate struct {
	Leaf   *x509.Certificate
	Server *tls.Config
}

// ReadCertificate reads a listener's files; nil if it speaks no TLS. A
// certificate that is not valid now is refused, so that a reload never replaces
// a good one by it.
func ReadCertificate(c *TLSConfig, section string, now time.Time) (*Certificate, error) {
	if !c.On() {
		return nil, nil
	}
	chain, err := ReadFile(c.Cert, maxPEMBytes)
	if err != nil {
		return nil, fmt.Errorf("%s.cert: %w", section, err)
	}
	private, err := ReadFile(c.Key, maxPEMBytes)
	if err != nil {
		return nil, fmt.Errorf("%s.key: %w", section, err)
	}
	pair, err := tls.X509KeyPair(chain, private)
	if err != nil {
		at := "cert"
		if x509.NewCertPool().AppendCertsFromPEM(chain) { // the fault is not there
			at = "key"
		}
		return nil, fmt.Errorf("%s.%s: %w", section, at, err)
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		return nil, fmt.Errorf("%s.cert: %w", section, err)
	}
	if now.Before(leaf.NotBefore) || now.After(leaf.NotAfter) {
		return nil, fmt.Errorf("%s.cert: it is valid from %s to %s, not now", section,
			leaf.NotBefore.UTC().Format(time.RFC3339), leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	out := &Certificate{Leaf: leaf, Server: &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2", "http/1.1"},
	}}
	if c.ClientCA != "" {
		err = out.askClients(c.ClientCA, section)
	}
	return out, err
}

// Ends is when the certificate does, in seconds since 1970.
func (c *Certificate) Ends() float64 {
	return float64(c.Leaf.NotAfter.Unix())
}

// askClients asks for certificates. Whether one must be shown is decided per
// request (NeedCertificate), for health checks have none. Sessions are not
// resumed, so that a removed authority ends with its file.
func (c *Certificate) askClients(path, section string) error {
	pem, err := ReadFile(path, maxPEMBytes)
	if err != nil {
		return fmt.Errorf("%s.client_ca: %w", section, err)
	}
	c.Server.ClientCAs = x509.NewCertPool()
	if !c.Server.ClientCAs.AppendCertsFromPEM(pem) {
		return fmt.Errorf("%s.client_ca: no certificate in %s", section, path)
	}
	c.Server.ClientAuth = tls.VerifyClientCertIfGiven
	c.Server.SessionTicketsDisabled = true
	return nil
}

// errNoTLS ends a handshake that cannot be: a listener never stops speaking TLS
// while it runs.
var errNoTLS = errors.New("no certificate")

// TLS is a listener's configuration: each handshake takes the
// certificate of that moment.
func (d *Doors) TLS(of func(*Rules) *Certificate) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		if c := of(d.Rules()); c != nil {
			return c.Server, nil
		}
		return nil, errNoTLS
	}}
}

// HTTPCertificate is that of the clients' listener.
func HTTPCertificate(r *Rules) *Certificate { return r.HTTP }

// AdminCertificate is that of the operators' listener.
func AdminCertificate(r *Rules) *Certificate { return r.Admin }

// NeedCertificate refuses requests without a client's certificate, for
// listeners that have a client_ca.
func (d *Doors) NeedCertificate(listener string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
			d.Refused(listener, "certificate")
			Refuse(w, r, http.StatusUnauthorized, "no_client_certificate", "this listener asks for a client certificate")
			return
		}
		next.ServeHTTP(w, r)
	})
}
