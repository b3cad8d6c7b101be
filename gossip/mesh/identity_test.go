package mesh

import (
	"bytes"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"
)

// Golden: the derivation is part of the protocol.
func TestDerivedKeyIsStable(t *testing.T) {
	k, err := deriveKey([]byte("0123456789abcdef0123456789abcdef"))
	if err != nil {
		t.Fatal(err)
	}
	const want = "7b930e5b058ca9987d6f209100f08e7745ef5e2850f3c1eb6c4e1e1c1616550b"
	if got := hex.EncodeToString(k.Public().(ed25519.PublicKey)); got != want {
		t.Errorf("public key %s, want %s", got, want)
	}
}

func TestRingTrustsEveryKeyInIt(t *testing.T) {
	k1, k2, k3 := bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 16), bytes.Repeat([]byte{3}, 24)
	ring, err := memberlist.NewKeyring([][]byte{k1, k2}, k1)
	if err != nil {
		t.Fatal(err)
	}
	id := &ringIdentity{ring: ring}
	state := func(key []byte) tls.ConnectionState {
		cert, err := deriveCertificate(key)
		if err != nil {
			t.Fatal(err)
		}
		leaf, err := x509.ParseCertificate(cert.Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		return tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}}
	}
	if !id.trusts(state(k1)) || !id.trusts(state(k2)) || id.trusts(state(k3)) || id.trusts(tls.ConnectionState{}) {
		t.Error("trusts the wrong keys")
	}
	if err := ring.RemoveKey(k2); err != nil {
		t.Fatal(err)
	}
	if id.trusts(state(k2)) {
		t.Error("trusts a removed key")
	}
}

// I6: each side looks at the other, whatever the other does.
func TestEachSideChecksTheOther(t *testing.T) {
	ring := func(fill byte) *ringIdentity {
		r, err := memberlist.NewKeyring(nil, bytes.Repeat([]byte{fill}, 32))
		if err != nil {
			t.Fatal(err)
		}
		return &ringIdentity{ring: r}
	}
	files := func() *fileIdentity {
		dir := t.TempDir()
		if _, err := GenerateCertificates(dir); err != nil {
			t.Fatal(err)
		}
		f, err := newFileIdentity(TLSFiles{
			Cert: filepath.Join(dir, certFile), Key: filepath.Join(dir, keyFile), CA: filepath.Join(dir, caFile),
		}, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	careless := func(cfg *tls.Config) *tls.Config {
		cfg = cfg.Clone()
		cfg.VerifyConnection = nil
		return cfg
	}
	for name, of := range map[string][2]identity{"ring": {ring(1), ring(2)}, "files": {files(), files()}} {
		client, server := of[0].configs()
		otherClient, otherServer := of[1].configs()
		if c, s := shakeHands(client, server); c != nil || s != nil {
			t.Errorf("%s: one mesh: %v, %v", name, c, s)
		}
		if c, _ := shakeHands(client, careless(otherServer)); c == nil {
			t.Errorf("%s: a client accepts a foreign server", name)
		}
		if _, s := shakeHands(careless(otherClient), server); s == nil {
			t.Errorf("%s: a server accepts a foreign client", name)
		}
	}
}

// shakeHands returns what either side says of a handshake.
func shakeHands(client, server *tls.Config) (ofClient, ofServer error) {
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	c, s := tls.Client(a, client), tls.Server(b, server)
	done := make(chan error, 1)
	go func() {
		err := s.Handshake()
		_ = s.Close() // a client that is done waits for nothing more
		done <- err
	}()
	ofClient = c.Handshake()
	if ofClient == nil {
		_, _ = io.Copy(io.Discard, c)
	}
	_ = a.Close()
	return ofClient, <-done
}

func TestFilesAreReadAgain(t *testing.T) {
	dir := t.TempDir()
	if _, err := GenerateCertificates(dir); err != nil {
		t.Fatal(err)
	}
	paths := TLSFiles{Cert: filepath.Join(dir, certFile), Key: filepath.Join(dir, keyFile), CA: filepath.Join(dir, caFile)}
	f, err := newFileIdentity(paths, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	old := f.expires()
	ca := Pair{}
	if ca.Cert, err = os.ReadFile(paths.CA); err != nil {
		t.Fatal(err)
	}
	if ca.Key, err = os.ReadFile(filepath.Join(dir, caKeyFile)); err != nil {
		t.Fatal(err)
	}
	next, err := GenerateCert(ca, "peer", time.Now().Add(48*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	write := func(path string, data []byte) {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		when := time.Now().Add(time.Hour)
		if err := os.Chtimes(path, when, when); err != nil {
			t.Fatal(err)
		}
	}
	write(paths.Cert, next.Cert) // a certificate without its key yet
	if _, err := f.refresh(); err == nil {
		t.Error("half a pair was accepted")
	}
	if !f.expires().Equal(old) {
		t.Error("the old certificate did not stay")
	}
	write(paths.Key, next.Key)
	if _, err := f.refresh(); err != nil {
		t.Fatal(err)
	}
	if !f.expires().After(old) {
		t.Errorf("expires %v, before %v", f.expires(), old)
	}
	write(paths.CA, []byte("nothing"))
	if _, err := f.refresh(); err == nil {
		t.Error("an empty authority was accepted")
	}
}

func TestGenerateCertificatesNeverOverwrites(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	first, err := GenerateCertificates(dir)
	if err != nil || len(first) != 4 {
		t.Fatalf("%v, %v", first, err)
	}
	for _, path := range first {
		st, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(path, "key") && st.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", path, st.Mode())
		}
	}
	if _, err := GenerateCertificates(dir); !errors.Is(err, os.ErrExist) {
		t.Errorf("second time: %v", err)
	}
	if err := errors.Join(os.Remove(filepath.Join(dir, certFile)), os.Remove(filepath.Join(dir, keyFile))); err != nil {
		t.Fatal(err)
	}
	again, err := GenerateCertificates(dir)
	if err != nil || len(again) != 2 {
		t.Errorf("with an authority there: %v, %v", again, err)
	}
}

func TestGeneratedKeyIsGood(t *testing.T) {
	a, err := GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	b, err := GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	if keys, err := decodeKeys([]string{a, b + "\n"}); err != nil || len(keys[0]) != 32 || a == b {
		t.Errorf("%v, %v", keys, err)
	}
}
