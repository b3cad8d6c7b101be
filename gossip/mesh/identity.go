package mesh

import (
	"bytes"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

// The derivation of a peer certificate from a ring key: part of the protocol.
const (
	deriveSalt = "banyan mesh"
	deriveInfo = "banyan peer stream ed25519 v1"
)

var errStranger = errors.New("certificate is of no key in the ring")

// identity proves and checks who may speak on peer streams: nobody is asked
// (none), a key of the ring, or a certificate of the mesh's authority.
type identity interface {
	// configs are for one handshake each, as the client and the server; nil
	// means plaintext.
	configs() (client, server *tls.Config)
	// trusts reports whether a finished handshake still stands.
	trusts(state tls.ConnectionState) bool
	// refresh follows changes of the ring or the files, and reports whether what
	// is trusted may have changed since the last time.
	refresh() (changed bool, err error)
	// expires is when the own certificate ends.
	expires() time.Time
}

// forever is the end of a certificate that does not expire (RFC 5280 4.1.2.5).
var forever = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)

// none is the identity of an insecure mesh.
type none struct{}

func (none) configs() (client, server *tls.Config) { return nil, nil }
func (none) trusts(tls.ConnectionState) bool       { return true }
func (none) refresh() (bool, error)                { return false, nil }
func (none) expires() time.Time                    { return forever }

// ringIdentity derives one certificate from each key of the ring; whoever
// holds the key of one of them is a peer (I6).
type ringIdentity struct {
	ring *memberlist.Keyring
	last [sha256.Size]byte // of the ring when refresh was last called; its caller's

	mu   sync.Mutex // guards below
	key  []byte     // the primary one that cert was derived from
	cert tls.Certificate
}

func (r *ringIdentity) expires() time.Time { return forever }

func (r *ringIdentity) refresh() (changed bool, err error) {
	h := sha256.New()
	for _, k := range r.ring.GetKeys() {
		h.Write(append([]byte{byte(len(k))}, k...))
	}
	now := [sha256.Size]byte(h.Sum(nil))
	changed, r.last = now != r.last, now
	return changed, nil
}

// configs derives the certificate anew when the primary key changed.
func (r *ringIdentity) configs() (client, server *tls.Config) {
	cert := r.certificate(r.ring.GetPrimaryKey())
	verify := func(s tls.ConnectionState) error {
		if !r.trusts(s) {
			return errStranger
		}
		return nil
	}
	return tlsConfigs(cert, verify, verify)
}

// certificate is the certificate of a ring key.
func (r *ringIdentity) certificate(key []byte) tls.Certificate {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !bytes.Equal(r.key, key) {
		cert, err := deriveCertificate(key)
		if err != nil {
			// An invariant of our own: the ring holds valid keys only.
			panic(fmt.Sprintf("invariant: derive certificate: %v", err))
		}
		r.key, r.cert = bytes.Clone(key), cert
	}
	return r.cert
}

// trusts compares with the public key of every key in the ring, in constant
// time.
func (r *ringIdentity) trusts(s tls.ConnectionState) bool {
	if len(s.PeerCertificates) == 0 {
		return false
	}
	their, ok := s.PeerCertificates[0].PublicKey.(ed25519.PublicKey)
	if !ok {
		return false
	}
	found := 0
	for _, key := range r.ring.GetKeys() {
		own, err := deriveKey(key)
		if err != nil {
			continue
		}
		found |= subtle.ConstantTimeCompare(own.Public().(ed25519.PublicKey), their)
	}
	return found == 1
}

// deriveKey makes the ed25519 key of a ring key.
func deriveKey(ringKey []byte) (ed25519.PrivateKey, error) {
	seed, err := hkdf.Key(sha256.New, ringKey, []byte(deriveSalt), deriveInfo, ed25519.SeedSize)
	if err != nil {
		return nil, fmt.Errorf("derive key: %w", err)
	}
	return ed25519.NewKeyFromSeed(seed), nil
}

// deriveCertificate makes the self-signed certificate of a ring key. Only its
// public key is ever looked at.
func deriveCertificate(ringKey []byte) (tls.Certificate, error) {
	key, err := deriveKey(ringKey)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "banyan peer"},
		NotBefore:    time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC),
		NotAfter:     forever,
	}
	der, err := x509.CreateCertificate(nil, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("derive certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

// tlsConfigs are the two sides of a mutual handshake. Names are not checked:
// peers are dialed by address, and any holder of a right certificate is a
// peer. Sessions are not resumed, so that a removed key ends with its ring.
func tlsConfigs(cert tls.Certificate, checkServer, checkClient func(tls.ConnectionState) error) (client, server *tls.Config) {
	client = &tls.Config{
		MinVersion:             tls.VersionTLS13,
		Certificates:           []tls.Certificate{cert},
		InsecureSkipVerify:     true, // VerifyConnection decides
		VerifyConnection:       checkServer,
		SessionTicketsDisabled: true,
	}
	server = &tls.Config{
		MinVersion:             tls.VersionTLS13,
		Certificates:           []tls.Certificate{cert},
		ClientAuth:             tls.RequireAnyClientCert,
		VerifyConnection:       checkClient,
		SessionTicketsDisabled: true,
	}
	return client, server
}
