package zmtp

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"net"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// newDecoder reads items from memory.
func newDecoder(b []byte, maxBytes int) *decoder {
	return &decoder{r: bufio.NewReader(bytes.NewReader(b)), maxBytes: maxBytes}
}

func TestGoldenBytes(t *testing.T) {
	for name, tc := range map[string]struct {
		got  []byte
		want string
	}{
		"greeting":  {greeting(), "ff00000000000000007f03014e554c4c" + "00000000000000000000000000000000" + "00" + "00000000000000000000000000000000000000000000000000000000000000"},
		"ready":     {appendCommand(nil, "READY", readyBody("SUB", nil)), "0419" + "055245414459" + "0b536f636b65742d54797065" + "00000003535542"},
		"subscribe": {appendCommand(nil, "SUBSCRIBE", []byte("k")), "040b" + "09535542534352494245" + "6b"},
		"message":   {appendMessage(nil, frames("a", "")), "010161" + "0000"},
	} {
		if got := hex.EncodeToString(tc.got); got != tc.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, tc.want)
		}
	}
}

func TestWireRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		frame := rapid.SliceOfN(rapid.Byte(), 0, 700)
		messages := rapid.SliceOfN(rapid.SliceOfN(frame, 1, 8), 1, 5).Draw(t, "messages")
		var b []byte
		for _, m := range messages {
			b = appendMessage(b, m)
		}
		d := newDecoder(b, 8*700)
		for i, want := range messages {
			it, err := d.next()
			if err != nil {
				t.Fatalf("message %d: %v", i, err)
			}
			if len(it.frames) != len(want) {
				t.Fatalf("message %d: %d frames, want %d", i, len(it.frames), len(want))
			}
			for j := range want {
				if !bytes.Equal(it.frames[j], want[j]) {
					t.Fatalf("message %d frame %d differs", i, j)
				}
			}
		}
	})
}

func TestMetadataRoundTrip(t *testing.T) {
	kind, id, err := parseMetadata(readyBody("DEALER", []byte("me")))
	if err != nil || kind != "DEALER" || string(id) != "me" {
		t.Fatalf("got %q %q %v", kind, id, err)
	}
}

func FuzzDecoder(f *testing.F) {
	f.Add(appendMessage(nil, frames("topic", "\x00\x00\x00\x00\x00\x00\x00\x01", "payload")))
	f.Add(appendCommand(nil, "READY", readyBody("PUB", nil)))
	f.Add(appendCommand(nil, "PING", []byte{0, 9, 'x'}))
	f.Add([]byte{flagLong, 0, 4, 0, 0, 0, 0, 0, 0})
	f.Add([]byte{flagCommand, 2, 9, 'x'})
	f.Fuzz(func(t *testing.T, b []byte) {
		d := newDecoder(b, 1<<16)
		for {
			it, err := d.next()
			if cap(d.data) > 2*(1<<16)+readBufferBytes || len(d.parts) > maxParts {
				t.Fatalf("I1: %d bytes, %d parts held", cap(d.data), len(d.parts))
			}
			if err != nil {
				return
			}
			if it.command == "" && len(it.frames) == 0 {
				t.Fatal("neither command nor message")
			}
			_, _, _ = parseMetadata(it.body)
		}
	})
}

// given is a connection that has said all it will.
type given struct {
	net.Conn
	said *bytes.Reader
}

func (g given) Read(p []byte) (int, error)      { return g.said.Read(p) }
func (g given) Write(p []byte) (int, error)     { return len(p), nil }
func (g given) SetDeadline(time.Time) error     { return nil }
func (g given) SetReadDeadline(time.Time) error { return nil }

func FuzzHandshake(f *testing.F) {
	whole := append(greeting(), appendCommand(nil, "READY", readyBody("PUB", []byte("me")))...)
	f.Add(whole)
	f.Add(whole[:greetingBytes])
	f.Add(append(greeting(), appendCommand(nil, "ERROR", []byte("\x02no"))...))
	f.Add([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
	old := greeting()
	old[10] = 1
	f.Add(old[:11])
	f.Fuzz(func(t *testing.T, said []byte) {
		for socket := range partners {
			c, err := newConn(given{said: bytes.NewReader(said)}, socket, Options{MaxBytes: 1 << 16}.withDefaults())
			if err != nil {
				continue
			}
			if len(said) < greetingBytes || said[0] != 0xff || said[9]&1 != 1 || said[10] < 3 {
				t.Fatalf("%s took the greeting %x", socket, said[:min(len(said), greetingBytes)])
			}
			if len(c.identity) > 255 || cap(c.dec.data) > 2*(1<<16)+readBufferBytes {
				t.Fatalf("I1: an identity of %d bytes, %d held", len(c.identity), cap(c.dec.data))
			}
		}
	})
}
