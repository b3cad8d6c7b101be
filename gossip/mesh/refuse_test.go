package mesh

import (
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/banyan-llm/banyan/gossip"
)

// stillWell holds a mesh of two against what was done to it: both see each
// other and news travel.
func stillWell(t *testing.T, a, b *node, load int32) {
	t.Helper()
	whole(t, a, b)
	a.dispatch(load)
	b.knows(t, a, load)
}

// pair starts two peers that see each other.
func pair(t *testing.T, change func(*Config)) (a, b *node) {
	t.Helper()
	cfg := config("a")
	change(&cfg)
	a = start(t, cfg)
	cfg = config("b", a.Addr())
	change(&cfg)
	b = start(t, cfg)
	whole(t, a, b)
	return a, b
}

func keyed(*Config) {}

func insecure(c *Config) { c.Keyring, c.Insecure = nil, true }

// hostile opens a TCP connection and sends bytes.
func hostile(t *testing.T, to *node, data []byte) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", to.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := conn.Write(data); err != nil {
		t.Fatal(err)
	}
	return conn
}

// hungUp waits for the other side to end a connection.
func hungUp(t *testing.T, conn net.Conn) {
	t.Helper()
	_ = conn.SetReadDeadline(time.Now().Add(patience))
	if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal("the connection was not ended")
	}
}

func TestForeignersAreRefusedAndTheMeshStaysUp(t *testing.T) {
	t.Parallel()
	a, b := pair(t, keyed)
	for _, c := range []struct {
		name   string
		change func(*Config)
		why    cause
	}{
		{"another key", func(c *Config) { c.Keyring = []string{key("other")} }, causeKey},
		{"no key", insecure, causeKey},
		{"another cluster", func(c *Config) { c.Label = "foreign" }, causeLabel},
	} {
		cfg := config("stranger", a.Addr())
		c.change(&cfg)
		s := start(t, cfg)
		eventually(t, c.name+" is counted", func() bool { return a.refusedFor(t, c.why) >= 2 })
		if got := s.stateOf(a); got != "" {
			t.Errorf("%s: it sees a as %q", c.name, got)
		}
		if got := a.stateOf(s); got != "" {
			t.Errorf("%s: a sees it as %q", c.name, got)
		}
		s.close(t)
	}
	stillWell(t, a, b, 3)
	// once per cause, although there were many
	if n := a.log.count("[WARN]  a: peer refused: it has a different mesh.label: cause=label"); n != 1 {
		t.Errorf("the foreign cluster was logged %d times, want once", n)
	}
	if n := a.log.count("[ERROR] a: memberlist: failed to receive: no installed keys could decrypt"); n > 1 {
		t.Errorf("the foreign key was logged %d times, want once", n)
	}
}

func TestHellosAreRefused(t *testing.T) {
	t.Parallel()
	a, b := pair(t, keyed)
	for _, c := range []struct {
		name   string
		change func(*gossip.Config)
		why    cause
	}{
		{"another fingerprint", func(c *gossip.Config) { c.Fingerprint = 8 }, causeFingerprint},
		{"another version", func(c *gossip.Config) { c.MinVersion, c.MaxVersion = 77, 78 }, causeVersion},
		{"another label in the hello", func(c *gossip.Config) { c.Label = "foreign" }, causeLabel},
	} {
		cfg := config("stranger", a.Addr())
		gc := gossip.Config{
			Self: cfg.PeerID, Name: cfg.Name, Label: cfg.Label, Fingerprint: 7,
			State: newLoadState(cfg.PeerID), Rand: rand.New(rand.NewPCG(1, 2)),
		}
		c.change(&gc)
		core, err := gossip.New(gc)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Core = core
		s := start(t, cfg)
		eventually(t, c.name+" is counted by both", func() bool {
			return a.refusedFor(t, c.why) >= 1 && s.refusedFor(t, c.why) >= 1
		})
		if a.sees(s) || s.sees(a) {
			t.Errorf("%s: connected all the same", c.name)
		}
		s.close(t)
	}
	stillWell(t, a, b, 4)
}

func TestGarbageOnThePort(t *testing.T) {
	t.Parallel()
	a, b := pair(t, keyed)
	for _, g := range []string{
		"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", // a TLS hello without our preamble
		"\x00\x01\x02\x03",
		magic + "\x01\x07\x00", // no such class
		magic + "\x01\x00\x09", // no such security
		"\xb0xxxxxx",
	} {
		before := a.refusedFor(t, causeGarbage)
		hungUp(t, hostile(t, a, []byte(g)))
		eventually(t, "garbage is counted", func() bool { return a.refusedFor(t, causeGarbage) > before })
	}
	hungUp(t, hostile(t, a, []byte(magic+"\x63\x00\x00")))
	eventually(t, "another preamble is counted", func() bool { return a.refusedFor(t, causeVersion) == 1 })
	hungUp(t, hostile(t, a, []byte("\xf4\x05other")))
	eventually(t, "another label is counted", func() bool { return a.refusedFor(t, causeLabel) == 1 })
	hungUp(t, hostile(t, a, preamble{}.bytes()))
	eventually(t, "plaintext is counted", func() bool { return a.refusedFor(t, causeTLS) == 1 })

	udp, err := net.Dial("udp", a.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	for _, p := range []string{"x", "\xf4", "\xf4\xff", "\xf4\x03foo\x00", "\xf4\x04testgarbage", string(make([]byte, 60_000))} {
		if _, err := udp.Write([]byte(p)); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "foreign packets are counted", func() bool { return a.refusedFor(t, causeLabel) == 2 })
	eventually(t, "undecipherable packets are counted", func() bool { return a.refusedFor(t, causeKey) == 1 })
	stillWell(t, a, b, 5)
	if n := a.log.count("[WARN]  a: connection refused: not a Banyan peer: cause=garbage"); n != 1 {
		t.Errorf("garbage was logged %d times, want once", n)
	}
}

func TestCertificateOfAnotherKeyIsRefused(t *testing.T) {
	t.Parallel()
	a, b := pair(t, keyed)
	ring := func(word string) *tls.Config {
		keys, err := decodeKeys([]string{key(word)})
		if err != nil {
			t.Fatal(err)
		}
		cert, err := deriveCertificate(keys[0])
		if err != nil {
			t.Fatal(err)
		}
		return &tls.Config{MinVersion: tls.VersionTLS13, InsecureSkipVerify: true, Certificates: []tls.Certificate{cert}}
	}
	try := func(cfg *tls.Config) error {
		conn := hostile(t, a, preamble{tls: true}.bytes())
		c := tls.Client(conn, cfg)
		_ = c.SetDeadline(time.Now().Add(patience))
		if err := c.Handshake(); err != nil {
			return err
		}
		_, err := io.ReadFull(c, make([]byte, 4)) // a trusted peer is greeted
		return err
	}
	if err := try(ring("k1")); err != nil {
		t.Errorf("a certificate of the ring's key: %v", err)
	}
	if err := try(ring("other")); err == nil {
		t.Error("a certificate of another key was accepted")
	}
	if err := try(&tls.Config{MinVersion: tls.VersionTLS13, InsecureSkipVerify: true}); err == nil {
		t.Error("no certificate was accepted")
	}
	eventually(t, "both are counted", func() bool { return a.refusedFor(t, causeTLS) == 2 })
	stillWell(t, a, b, 6)
}

func TestSlowLorisKeepsNobodyOut(t *testing.T) {
	t.Parallel()
	cfg := config("a")
	cfg.Timing.Hello = 15 * time.Second // all have come before the first is ended for its silence
	a := start(t, cfg)
	var silent []net.Conn
	for i := range maxHandshakes + 40 {
		silent = append(silent, hostile(t, a, [][]byte{nil, {magic[0]}, {labelByte, 9}}[i%3]))
	}
	b := start(t, config("b", a.Addr())) // joins through the crowd
	whole(t, a, b)
	eventually(t, "the oldest yielded", func() bool { return a.refusedFor(t, causeCrowd) >= 40 })
	for _, c := range silent {
		hungUp(t, c)
	}
	eventually(t, "the silent ones are counted", func() bool { return a.refusedFor(t, causeTimeout) > 0 })
	stillWell(t, a, b, 7)
}

// TestStrangersShareTheirBytes: strangers announce states of 20 MB, which
// memberlist would collect before it looks for the key.
func TestStrangersShareTheirBytes(t *testing.T) {
	t.Parallel()
	a, b := pair(t, keyed)
	const encrypted = 10 // memberlist's encryptMsg
	head := append(a.transport.header[:len(a.transport.header):len(a.transport.header)], encrypted)
	head = binary.BigEndian.AppendUint32(head, 20<<20)
	send := func(bytes int) net.Conn {
		conn := hostile(t, a, head)
		go func() { _, _ = conn.Write(make([]byte, bytes)) }() // until it is ended
		return conn
	}
	for range 2 * maxHandshakeBytes >> 20 {
		send(1 << 20)
	}
	eventually(t, "those beyond the bound yielded", func() bool {
		if a.refusedFor(t, causeCrowd) >= 10 {
			return true
		}
		send(1 << 20) // memberlist ends those that wait for some seconds
		return false
	})
	c := start(t, config("c", b.Addr(), a.Addr())) // joins through the crowd
	whole(t, a, b, c)

	eventually(t, "a state beyond its own bound is counted", func() bool {
		hungUp(t, send(guestBytesMax+1))
		return a.refusedFor(t, causeOversize) >= 1
	})
	stillWell(t, a, b, 9)
}

// frameOf puts a length before bytes.
func frameOf(length uint32, data []byte) []byte {
	return append(binary.LittleEndian.AppendUint32(nil, length), data...)
}

func TestFramesBeyondTheirBoundsAreRefused(t *testing.T) {
	t.Parallel()
	a, b := pair(t, func(c *Config) {
		insecure(c)
		c.Timing.Stall = 2 * time.Second // well before the core ends who says no hello
	})
	open := func(rest []byte) net.Conn { return hostile(t, a, append(preamble{}.bytes(), rest...)) }

	hungUp(t, open(frameOf(maxHelloBytes+1, nil)))
	hungUp(t, open(frameOf(1<<31, nil)))
	eventually(t, "oversized frames are counted", func() bool { return a.refusedFor(t, causeOversize) == 2 })

	hungUp(t, open(frameOf(100, []byte("only a part"))))
	eventually(t, "a frame that does not end is counted", func() bool { return a.refusedFor(t, causeTimeout) >= 1 })

	hungUp(t, open(frameOf(7, []byte("garbage"))))
	hungUp(t, open(frameOf(0, nil)))
	eventually(t, "frames the core rejects are counted", func() bool { return a.refusedFor(t, causeFrame) == 2 })
	stillWell(t, a, b, 8)
}

func TestCertificatesFromFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := GenerateCertificates(dir); err != nil {
		t.Fatal(err)
	}
	files := func(dir string) TLSFiles {
		return TLSFiles{Cert: filepath.Join(dir, certFile), Key: filepath.Join(dir, keyFile), CA: filepath.Join(dir, caFile)}
	}
	a, b := pair(t, func(c *Config) { c.TLS = files(dir) })
	stillWell(t, a, b, 9)
	if v := a.value(t, "banyan_cert_expiry_timestamp_seconds"); v < float64(time.Now().Add(360*24*time.Hour).Unix()) ||
		v > float64(time.Now().Add(certificateLife).Unix()) {
		t.Errorf("certificate expires at %v", time.Unix(int64(v), 0))
	}

	// The gossip key alone does not make a peer.
	other := t.TempDir()
	if _, err := GenerateCertificates(other); err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]TLSFiles{"another authority": files(other), "the ring's certificate": {}} {
		before := a.refusedFor(t, causeTLS)
		cfg := config("stranger", a.Addr())
		cfg.TLS = f
		s := start(t, cfg)
		eventually(t, name+": refused", func() bool {
			return a.refusedFor(t, causeTLS) > before && s.refusedFor(t, causeTLS) > 0
		})
		if a.sees(s) || s.sees(a) {
			t.Errorf("%s: connected all the same", name)
		}
		s.close(t)
	}
	stillWell(t, a, b, 10)
}
