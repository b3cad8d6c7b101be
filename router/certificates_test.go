package router

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/banyan-llm/banyan/router/access"
	"github.com/banyan-llm/banyan/router/metrics"
)

// authority signs certificates for tests.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	path string // of its PEM
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	a := &authority{t: t, key: key, path: filepath.Join(t.TempDir(), "ca.pem")}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.write(a.path, "CERTIFICATE", der)
	return a
}

func (a *authority) write(path, kind string, der []byte) {
	a.t.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		a.t.Fatal(err)
	}
}

// issue writes a certificate for 127.0.0.1, which ends then, and its key.
func (a *authority) issue(cert, key string, serial int64, ends time.Time) {
	a.t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: ends,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, private.Public(), a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		a.t.Fatal(err)
	}
	a.write(cert, "CERTIFICATE", der)
	a.write(key, "PRIVATE KEY", pkcs8)
}

// client trusts the authority and makes a connection for every request.
func (a *authority) client(change func(*tls.Config)) *http.Client {
	cfg := &tls.Config{RootCAs: x509.NewCertPool()}
	cfg.RootCAs.AddCert(a.cert)
	if change != nil {
		change(cfg)
	}
	return &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{TLSClientConfig: cfg, DisableKeepAlives: true, ForceAttemptHTTP2: true}}
}

// runningPeer is a peer that serves until the test ends.
func runningPeer(t *testing.T, source Source, change func(*Config)) *Peer {
	t.Helper()
	cfg := DefaultConfig()
	cfg.HTTP.Listen, cfg.Admin.Listen, cfg.Mesh.Bind = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	cfg.Mesh.Insecure = true
	cfg.Drain.Delay, cfg.Drain.Timeout = 0, time.Second
	change(&cfg)
	p, err := New(cfg, Options{Version: "test", Source: source})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return p
}

func wait(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("not within 30 s: %s", what)
}

// serial is the number of the certificate that a listener shows.
func serial(t *testing.T, client *http.Client, url string) int64 {
	t.Helper()
	res, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	return res.TLS.PeerCertificates[0].SerialNumber.Int64()
}

// exposed is one series of /metrics.
func exposed(t *testing.T, p *Peer, series string) float64 {
	t.Helper()
	w := httptest.NewRecorder()
	p.front.adminHandler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://127.0.0.1/metrics", nil))
	for line := range strings.Lines(w.Body.String()) {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), series+" "); ok {
			v, err := strconv.ParseFloat(text, 64)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
	}
	t.Fatalf("no series %s", series)
	return 0
}

func TestCertificatesRotateUnderTraffic(t *testing.T) {
	ca, dir := newAuthority(t), t.TempDir()
	cert, key := filepath.Join(dir, "cert"), filepath.Join(dir, "key")
	hour := time.Now().Add(time.Hour)
	ca.issue(cert, key, 10, hour)
	both := access.TLSConfig{Cert: cert, Key: key}
	p := runningPeer(t, Source{}, func(c *Config) { c.HTTP.TLS, c.Admin.TLS = both, both })
	public, admin := "https://"+p.front.public.Addr().String()+"/healthz", "https://"+p.front.admin.Addr().String()+"/v1/status"

	var wg sync.WaitGroup
	stop := make(chan struct{})
	for _, protocol := range []string{"h2", "http/1.1"} {
		client := ca.client(nil)
		if protocol == "http/1.1" {
			client.Transport.(*http.Transport).ForceAttemptHTTP2 = false
		}
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					if n == 0 {
						t.Error("no traffic")
					}
					return
				default:
				}
				res, err := client.Get(public)
				if err != nil {
					t.Errorf("%s request %d: %v", protocol, n, err)
					return
				}
				_, _ = io.Copy(io.Discard, res.Body)
				res.Body.Close()
				if res.StatusCode != http.StatusOK || res.Proto != map[string]string{"h2": "HTTP/2.0", "http/1.1": "HTTP/1.1"}[protocol] {
					t.Errorf("%s: %s, status %d", protocol, res.Proto, res.StatusCode)
				}
			}
		})
	}
	client := ca.client(nil)
	for next := int64(11); next < 14; next++ {
		ca.issue(cert, key, next, hour)
		if next == 11 {
			p.Reload() // else the files are looked at each second
		}
		wait(t, "the new certificate is shown", func() bool { return serial(t, client, public) == next && serial(t, client, admin) == next })
	}

	if got := exposed(t, p, `banyan_listener_cert_expiry_timestamp_seconds{listener="http"}`); got != float64(hour.Unix()) {
		t.Errorf("the metric says the certificate ends at %v, it does at %d", got, hour.Unix())
	}
	fails := func() uint64 { return metrics.Count(p.metrics.ReloadFailures) }
	before := fails()
	for name, breakIt := range map[string]func(){
		"a key of another certificate": func() { ca.issue(filepath.Join(dir, "other"), key, 90, hour) },
		"an expired one":               func() { ca.issue(cert, key, 91, time.Now().Add(-time.Minute)) },
		"no PEM":                       func() { _ = os.WriteFile(cert, []byte("nonsense"), 0o600) },
		"no file":                      func() { _ = os.Remove(key) },
	} {
		breakIt()
		p.Reload()
		wait(t, name+" is counted", func() bool { return fails() > before })
		before = fails()
		if n := serial(t, client, public); n != 13 {
			t.Errorf("after %s the listener shows %d", name, n)
		}
		if fault := p.Status().Config.Fault; !strings.Contains(fault, "http.tls") || !strings.Contains(fault, "admin.tls") {
			t.Errorf("after %s the status says %q", name, fault)
		}
	}
	ca.issue(cert, key, 14, hour)
	wait(t, "a good pair is taken up after bad ones", func() bool { return serial(t, client, public) == 14 && p.Status().Config.Fault == "" })
	close(stop)
	wg.Wait()
}

func TestOldTLSAndPlainHTTPAreRefused(t *testing.T) {
	ca, dir := newAuthority(t), t.TempDir()
	cert, key := filepath.Join(dir, "cert"), filepath.Join(dir, "key")
	ca.issue(cert, key, 1, time.Now().Add(time.Hour))
	p := runningPeer(t, Source{}, func(c *Config) { c.HTTP.TLS = access.TLSConfig{Cert: cert, Key: key} })
	address := p.front.public.Addr().String()
	for version, ok := range map[uint16]bool{tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true} {
		client := ca.client(func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS10, version })
		res, err := client.Get("https://" + address + "/healthz")
		if (err == nil) != ok {
			t.Errorf("%s: %v", tls.VersionName(version), err)
		}
		if err == nil {
			res.Body.Close()
		}
	}
	res, err := http.Get("http://" + address + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusBadRequest {
		t.Errorf("plain HTTP: status %d", res.StatusCode)
	}
}

func TestClientCertificates(t *testing.T) {
	ca, stranger, dir := newAuthority(t), newAuthority(t), t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	hour := time.Now().Add(time.Hour)
	ca.issue(file("cert"), file("key"), 1, hour)
	ca.issue(file("client"), file("client-key"), 2, hour)
	stranger.issue(file("strange"), file("strange-key"), 3, hour)
	pair := func(cert, key string) func(*tls.Config) {
		loaded, err := tls.LoadX509KeyPair(file(cert), file(key))
		if err != nil {
			t.Fatal(err)
		}
		return func(c *tls.Config) {
			c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &loaded, nil }
		}
	}
	with := access.TLSConfig{Cert: file("cert"), Key: file("key"), ClientCA: ca.path}
	p := runningPeer(t, Source{}, func(c *Config) { c.HTTP.TLS, c.Admin.TLS = with, with })
	public, admin := "https://"+p.front.public.Addr().String(), "https://"+p.front.admin.Addr().String()
	known, nobody, strange := ca.client(pair("client", "client-key")), ca.client(nil), ca.client(pair("strange", "strange-key"))
	for _, tc := range []struct {
		client *http.Client
		url    string
		want   int // 0: no handshake
	}{
		{known, public + "/v1/models", 200},
		{known, admin + "/v1/status", 200},
		{nobody, public + "/v1/models", 401},
		{nobody, admin + "/v1/status", 401},
		{nobody, admin + "/metrics", 401},
		{nobody, public + "/healthz", 200},
		{nobody, admin + "/healthz", 200},
		{strange, public + "/healthz", 0},
		{strange, admin + "/v1/status", 0},
	} {
		res, err := tc.client.Get(tc.url)
		status := 0
		if err == nil {
			status = res.StatusCode
			res.Body.Close()
		}
		if status != tc.want {
			t.Errorf("%s: status %d (%v), want %d", tc.url, status, err, tc.want)
		}
	}
	data, err := os.ReadFile(stranger.path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(ca.path, data, 0o600); err != nil { // the authority is replaced
		t.Fatal(err)
	}
	p.Reload()
	wait(t, "the new authority counts", func() bool {
		res, err := strange.Get(public + "/v1/models")
		if err == nil {
			res.Body.Close()
		}
		return err == nil
	})
	if res, err := known.Get(public + "/v1/models"); err == nil {
		res.Body.Close()
		t.Error("a certificate of the old authority still counts")
	}
}
