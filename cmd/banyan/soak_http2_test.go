//go:build e2e && soak

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestHeadersThatDoNotEndOverHTTP2: a client begins a header block and never
// ends it. HTTP/2 has no deadline for headers; the ping that such a client
// cannot answer ends its connection.
func TestHeadersThatDoNotEndOverHTTP2(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	cert, err := x509.CreateCertificate(rand.Reader, &of, &of, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, block := range map[string]*pem.Block{"crt": {Type: "CERTIFICATE", Bytes: cert}, "key": {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := single(t, "--http.tls.cert", filepath.Join(dir, "crt"), "--http.tls.key", filepath.Join(dir, "key"),
		"--replicas", fmt.Sprintf("[{name: r0, url: %q, engine: vllm}]", fakeEngine(t, false, "m")))
	conn, err := tls.Dial("tcp", p.said["http"], &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if conn.ConnectionState().NegotiatedProtocol != "h2" {
		t.Fatal("no HTTP/2")
	}
	begun := time.Now()
	settings := "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	headers := "\x00\x00\x01\x01\x00\x00\x00\x00\x01\x83" // :method POST, and no END_HEADERS
	if _, err := io.WriteString(conn, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"+settings+headers); err != nil {
		t.Fatal(err)
	}
	_ = conn.SetReadDeadline(begun.Add(3 * time.Minute))
	_, err = io.Copy(io.Discard, conn)
	if e, ok := err.(net.Error); ok && e.Timeout() {
		t.Fatal("the connection stands after 3 minutes")
	}
	t.Logf("ended after %.0f s", time.Since(begun).Seconds())
}
