package mesh

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"time"
)

// Lifetimes of generated certificates.
const (
	authorityLife   = 10 * 365 * 24 * time.Hour
	certificateLife = 365 * 24 * time.Hour
)

// Pair is a certificate and its private key, PEM.
type Pair struct {
	Cert, Key []byte
}

// GenerateKey makes a gossip key: 32 random bytes, base64.
func GenerateKey() (string, error) {
	key := make([]byte, 32)
	if _, err := rand.Read(key); err != nil {
		return "", fmt.Errorf("generate key: %w", err)
	}
	return base64.StdEncoding.EncodeToString(key), nil
}

// GenerateCA makes a mesh authority that is valid for ten years from now.
func GenerateCA(now time.Time) (Pair, error) {
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "banyan mesh authority"},
		NotBefore:             now.Add(-time.Hour),
		NotAfter:              now.Add(authorityLife),
		IsCA:                  true,
		MaxPathLenZero:        true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	return sign(template, nil, nil)
}

// GenerateCert makes a peer's certificate, valid for a year from now. One
// certificate may serve all peers, or each has its own.
func GenerateCert(ca Pair, name string, now time.Time) (Pair, error) {
	parent, key, err := parsePair(ca)
	if err != nil {
		return Pair{}, err
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: name},
		DNSNames:              []string{name},
		NotBefore:             now.Add(-time.Hour),
		NotAfter:              now.Add(certificateLife),
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	return sign(template, parent, key)
}

// sign makes a key and a certificate for it; without a parent it signs itself.
func sign(template, parent *x509.Certificate, by *ecdsa.PrivateKey) (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("generate certificate: %w", err)
	}
	if parent == nil {
		parent, by = template, key
	}
	template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return Pair{}, fmt.Errorf("generate certificate: %w", err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, by)
	if err != nil {
		return Pair{}, fmt.Errorf("generate certificate: %w", err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Pair{}, fmt.Errorf("generate certificate: %w", err)
	}
	return Pair{
		Cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		Key:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}),
	}, nil
}

func parsePair(p Pair) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	c, _ := pem.Decode(p.Cert)
	k, _ := pem.Decode(p.Key)
	if c == nil || k == nil {
		return nil, nil, errors.New("parse authority: not PEM")
	}
	cert, err := x509.ParseCertificate(c.Bytes)
	if err != nil {
		return nil, nil, fmt.Errorf("parse authority: %w", err)
	}
	key, err := x509.ParsePKCS8PrivateKey(k.Bytes)
	if err != nil {
		return nil, nil, fmt.Errorf("parse authority: %w", err)
	}
	ec, ok := key.(*ecdsa.PrivateKey)
	if !ok {
		return nil, nil, errors.New("parse authority: not an ECDSA key")
	}
	return cert, ec, nil
}

// The files GenerateCertificates writes.
const (
	caFile    = "ca.pem"
	caKeyFile = "ca-key.pem"
	certFile  = "peer.pem"
	keyFile   = "peer-key.pem"
)

// GenerateCertificates writes a mesh authority (ca.pem, ca-key.pem; reused if
// both are there) and one peer certificate (peer.pem, peer-key.pem) into a
// folder, and returns the paths written. Existing files are never overwritten.
func GenerateCertificates(dir string) (written []string, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("generate certificates: %w", err)
	}
	now := time.Now()
	ca, fresh, err := authorityIn(dir, now)
	if err != nil {
		return nil, err
	}
	peer, err := GenerateCert(ca, "banyan-peer", now)
	if err != nil {
		return nil, err
	}
	files := []struct {
		name string
		data []byte
		mode fs.FileMode
	}{{certFile, peer.Cert, 0o644}, {keyFile, peer.Key, 0o600}}
	if fresh {
		files = append(files, files...)
		files[0].name, files[0].data = caFile, ca.Cert
		files[1].name, files[1].data = caKeyFile, ca.Key
	}
	for _, f := range files {
		path := filepath.Join(dir, f.name)
		if err := writeNew(path, f.data, f.mode); err != nil {
			return written, err
		}
		written = append(written, path)
	}
	return written, nil
}

// authorityIn reads a folder's authority, or makes a fresh one.
func authorityIn(dir string, now time.Time) (ca Pair, fresh bool, err error) {
	ca.Cert, err = os.ReadFile(filepath.Join(dir, caFile))
	if errors.Is(err, fs.ErrNotExist) {
		ca, err = GenerateCA(now)
		return ca, true, err
	}
	if err == nil {
		ca.Key, err = os.ReadFile(filepath.Join(dir, caKeyFile))
	}
	if err != nil {
		return ca, false, fmt.Errorf("read authority: %w", err)
	}
	return ca, false, nil
}

// writeNew writes a file that does not exist yet.
func writeNew(path string, data []byte, mode fs.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("write certificate: %w: move it away to make another certificate of the same CA, or name a new folder", err)
	}
	if err != nil {
		return fmt.Errorf("write certificate: %w", err)
	}
	_, err = f.Write(data)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write certificate: %w", err)
	}
	return nil
}
