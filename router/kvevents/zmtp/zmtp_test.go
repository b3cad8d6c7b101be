package zmtp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/banyan-llm/banyan/simulation/freeport"
)

// testTimeout bounds every wait on a real socket.
const testTimeout = 30 * time.Second

// quick makes sockets that find each other again at once.
var quick = Options{MinBackoff: 5 * time.Millisecond, MaxBackoff: 20 * time.Millisecond}

// testContext ends with the test or after testTimeout.
func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	t.Cleanup(cancel)
	return ctx
}

// tcp is the endpoint of a bound socket.
func tcp(a net.Addr) string { return "tcp://" + a.String() }

// waitFor polls a condition of another goroutine.
func waitFor(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(testTimeout); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("timed out waiting for %s", what)
		}
	}
}

// mustRecv receives one message of a kind.
func mustRecv(t testing.TB, s *Sub, kind Kind) Message {
	t.Helper()
	m, err := s.Recv(testContext(t))
	if err != nil {
		t.Fatalf("Recv: %v (state %+v)", err, s.State())
	}
	if m.Kind != kind {
		t.Fatalf("got kind %d (%q), want %d", m.Kind, m.Frames, kind)
	}
	return m
}

// frames turns strings into frames.
func frames(s ...string) [][]byte {
	out := make([][]byte, len(s))
	for i := range s {
		out[i] = []byte(s[i])
	}
	return out
}

// mustPub binds a Pub that the test closes.
func mustPub(t testing.TB, addr string, opt Options) *Pub {
	t.Helper()
	p, err := ListenPub(addr, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

func TestPubSubDelivers(t *testing.T) {
	p := mustPub(t, "tcp://127.0.0.1:*", quick)
	s := DialSub(tcp(p.Addr()), "kv@", quick)
	defer s.Close()
	up := mustRecv(t, s, Up)
	waitFor(t, "subscription", func() bool { return p.Subscribers() == 1 })
	long := strings.Repeat("x", 300_000)
	p.Send(frames("other", "no")...)
	p.Send(frames("kv@a", "1", long)...)
	p.Send(frames("kv@b")...)
	m := mustRecv(t, s, Data)
	if m.Conn != up.Conn || len(m.Frames) != 3 || string(m.Frames[0]) != "kv@a" || string(m.Frames[2]) != long {
		t.Fatalf("got conn %d, %d frames", m.Conn, len(m.Frames))
	}
	if m = mustRecv(t, s, Data); len(m.Frames) != 1 || string(m.Frames[0]) != "kv@b" {
		t.Fatalf("got %q: the other topic must not arrive", m.Frames)
	}
	if st := s.State(); !st.Up || st.Connects != 1 || st.Messages != 2 {
		t.Fatalf("state %+v", st)
	}
}

func TestSubBindsAndTellsPublishersApart(t *testing.T) {
	s, err := ListenSub("127.0.0.1:0", "", quick)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	conns := map[string]uint64{}
	for _, name := range []string{"a", "b"} {
		p, err := DialPub(tcp(s.Addr()), quick)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		up := mustRecv(t, s, Up)
		waitFor(t, "subscription", func() bool { return p.Subscribers() == 1 })
		p.Send([]byte(name))
		m := mustRecv(t, s, Data)
		if string(m.Frames[0]) != name || m.Conn != up.Conn || m.Remote == "" {
			t.Fatalf("got %q on connection %d (%s), want %s on %d", m.Frames, m.Conn, m.Remote, name, up.Conn)
		}
		conns[name] = m.Conn
	}
	if conns["a"] == conns["b"] {
		t.Fatal("two publishers share a connection number")
	}
}

func TestSubReconnectsAndSaysSo(t *testing.T) {
	addr, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	p := mustPub(t, addr, quick)
	s := DialSub("tcp://"+addr, "", quick)
	defer s.Close()
	first := mustRecv(t, s, Up)
	p.Close()
	if down := mustRecv(t, s, Down); down.Conn != first.Conn {
		t.Fatalf("Down of connection %d, want %d", down.Conn, first.Conn)
	}
	waitFor(t, "down state", func() bool { st := s.State(); return !st.Up && st.LastError != "" })
	waitFor(t, "failed attempts", func() bool { return s.State().Failures >= 3 })
	p = mustPub(t, addr, quick)
	again := mustRecv(t, s, Up)
	if again.Conn == first.Conn {
		t.Fatal("a connection number was reused")
	}
	waitFor(t, "subscription", func() bool { return p.Subscribers() == 1 })
	p.Send([]byte("back"))
	mustRecv(t, s, Data)
	if st := s.State(); st.Reconnects() != 1 {
		t.Fatalf("reconnects %d, want 1", st.Reconnects())
	}
}

func TestPubNeverBlocksAndCounts(t *testing.T) {
	const limit = 16
	p := mustPub(t, "127.0.0.1:0", Options{Queue: limit})
	nc, err := net.Dial("tcp", p.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	opt := Options{}.withDefaults()
	c, err := newConn(nc, "SUB", opt)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.send(appendFrame(nil, 0, []byte{1})); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "subscription", func() bool { return p.Subscribers() == 1 })
	const n = 400
	body := make([]byte, 64<<10) // far more than the kernel buffers between two ends
	for range n {
		p.Send(body)
	}
	st := p.Stats()
	if st.Dropped == 0 || st.Sent+st.Dropped != n {
		t.Fatalf("I2: sent %d, dropped %d of %d", st.Sent, st.Dropped, n)
	}
	for got := uint64(0); got < st.Sent; got++ {
		if _, err := c.receive(); err != nil {
			t.Fatalf("message %d of %d: %v", got, st.Sent, err)
		}
	}
}

func TestDealerRouterReplay(t *testing.T) {
	r, err := ListenRouter("127.0.0.1:0", quick, func(r *Request) {
		for i := range 3 {
			if err := r.Reply(nil, r.Identity, fmt.Appendf(nil, "%s-%d", r.Frames[1], i)); err != nil {
				t.Errorf("Reply: %v", err)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	ctx := testContext(t)
	d, err := DialDealer(ctx, tcp(r.Addr()), Options{Identity: []byte("me")})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for _, ask := range []string{"x", "y"} {
		if err := d.Send(nil, []byte(ask)); err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			got, _, err := d.Recv(ctx)
			if err != nil {
				t.Fatal(err)
			}
			want := frames("", "me", fmt.Sprintf("%s-%d", ask, i))
			if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
				t.Fatalf("got %q, want %q", got, want)
			}
		}
	}
	short, cancel := context.WithCancel(ctx)
	cancel()
	if _, _, err := d.Recv(short); !errors.Is(err, context.Canceled) {
		t.Fatalf("Recv under a cancelled context: %v", err)
	}
}

func TestHeartbeatEndsSilentConnection(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() { // a publisher that shakes hands and then hangs
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			if _, err := newConn(nc, "PUB", Options{}.withDefaults()); err != nil {
				nc.Close()
			}
		}
	}()
	opt := quick
	opt.Heartbeat = 10 * time.Millisecond
	s := DialSub(tcp(ln.Addr()), "", opt)
	defer s.Close()
	mustRecv(t, s, Up)
	mustRecv(t, s, Down)
}

func TestHeartbeatKeepsLiveConnection(t *testing.T) {
	p := mustPub(t, "127.0.0.1:0", quick)
	opt := quick
	opt.Heartbeat = 300 * time.Millisecond // a busy machine answers within three
	s := DialSub(tcp(p.Addr()), "", opt)
	defer s.Close()
	mustRecv(t, s, Up)
	waitFor(t, "subscription", func() bool { return p.Subscribers() == 1 })
	ctx, cancel := context.WithTimeout(context.Background(), 6*opt.Heartbeat)
	defer cancel()
	if m, err := s.Recv(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %+v, %v: PONGs must keep the connection quiet and up", m, err)
	}
}

func TestHostilePeers(t *testing.T) {
	ready := appendCommand(nil, "READY", readyBody("PUB", nil))
	long := func(flags byte, size ...byte) []byte { return append([]byte{flags}, size...) }
	for name, tc := range map[string]struct {
		bytes []byte
		want  string
	}{
		"frame of 2^50 bytes":       {long(flagLong, 0, 4, 0, 0, 0, 0, 0, 0), "longer than the limit"},
		"frame of 2^64-1 bytes":     {long(flagLong, 255, 255, 255, 255, 255, 255, 255, 255), "longer than the limit"},
		"sum of frames":             {append(appendFrame(nil, flagMore, make([]byte, 600)), appendFrame(nil, 0, make([]byte, 600))...), "longer than the limit"},
		"nine frames":               {appendMessage(nil, make([][]byte, 9)), "more frames"},
		"reserved flags":            {long(0x80, 0), "reserved bits"},
		"command of 2^40 bytes":     {long(flagCommand|flagLong, 0, 0, 1, 0, 0, 0, 0, 0), "malformed command"},
		"command with MORE":         {long(flagCommand|flagMore, 1, 0), "malformed command"},
		"empty command":             {long(flagCommand, 0), "malformed command"},
		"command name past its end": {long(flagCommand, 2, 9, 'x'), "malformed command"},
		"short ping":                {appendCommand(nil, "PING", []byte{1}), "malformed command"},
		"error command":             {appendCommand(nil, "ERROR", []byte("\x03bad")), "ended it with an error"},
	} {
		t.Run(name, func(t *testing.T) {
			client, server := net.Pipe()
			defer client.Close()
			defer server.Close()
			go io.Copy(io.Discard, server)
			go server.Write(append(append(greeting(), ready...), tc.bytes...))
			opt := Options{MaxBytes: 1000}.withDefaults()
			c, err := newConn(client, "SUB", opt)
			if err != nil {
				t.Fatal(err)
			}
			if _, err = c.receive(); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func TestHostileHandshakes(t *testing.T) {
	old := greeting()
	old[10] = 1
	curve := greeting()
	copy(curve[12:], "CURVE")
	with := func(b []byte) []byte { return append(greeting(), b...) }
	for name, tc := range map[string]struct {
		bytes []byte
		want  string
	}{
		"http":             {[]byte("HTTP/1.1 400 Bad Request\r\n\r\n"), "not ZMTP"},
		"zmtp 2":           {old[:11], "too old"},
		"curve":            {curve, "only NULL is spoken"},
		"cut greeting":     {greeting()[:30], "EOF"},
		"no ready":         {with(appendCommand(nil, "HELLO", nil)), "instead of READY"},
		"message":          {with(appendFrame(nil, 0, []byte("x"))), "instead of READY"},
		"wrong partner":    {with(appendCommand(nil, "READY", readyBody("ROUTER", nil))), "does not talk to ROUTER"},
		"its own words":    {with(appendCommand(nil, "READY", readyBody("MARKPROMPT", nil))), "does not talk to a socket of another kind"},
		"metadata too big": {with(appendCommand(nil, "READY", []byte("\x01x\xff\xff\xff\xff"))), "malformed metadata"},
		"refused":          {with(appendCommand(nil, "ERROR", []byte("\x02no"))), "the engine refuses it"},
	} {
		t.Run(name, func(t *testing.T) {
			client, server := net.Pipe()
			defer client.Close()
			defer server.Close()
			go io.Copy(io.Discard, server)
			go func() {
				_, _ = server.Write(tc.bytes)
				if len(tc.bytes) < greetingBytes {
					server.Close()
				}
			}()
			if _, err := newConn(client, "SUB", Options{}.withDefaults()); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func TestHandshakeHasDeadline(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0") // accepts in the kernel, never answers
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	opt := quick
	opt.HandshakeTimeout = 20 * time.Millisecond
	s := DialSub(tcp(ln.Addr()), "", opt)
	defer s.Close()
	waitFor(t, "two failures", func() bool { return s.State().Failures >= 2 })
}

func TestLongClaimAllocatesLittle(t *testing.T) {
	d := newDecoder([]byte{flagLong, 0, 0, 0, 0, 1, 0, 0, 0, 'x'}, 16<<20)
	if _, err := d.next(); err == nil {
		t.Fatal("a cut frame must be an error")
	}
	if cap(d.data) > 2*readBufferBytes {
		t.Fatalf("I1: %d bytes allocated for 1 received", cap(d.data))
	}
}

func TestMaxConns(t *testing.T) {
	p := mustPub(t, "127.0.0.1:0", Options{MaxConns: 1})
	a := DialSub(tcp(p.Addr()), "", quick)
	defer a.Close()
	mustRecv(t, a, Up)
	b := DialSub(tcp(p.Addr()), "", quick)
	defer b.Close()
	waitFor(t, "refusal", func() bool { return p.State().Refused > 0 && b.State().Failures > 0 })
}

func TestEndpoints(t *testing.T) {
	for in, want := range map[string]string{
		"tcp://*:5557":        "tcp :5557",
		"tcp://10.0.0.1:5557": "tcp 10.0.0.1:5557",
		"tcp://[::1]:5557":    "tcp [::1]:5557",
		"tcp://[::]:*":        "tcp [::]:0",
		"localhost:1":         "tcp localhost:1",
		"ipc:///tmp/x":        "unix /tmp/x",
	} {
		e, err := parseEndpoint(in)
		if got := e.network + " " + e.address; err != nil || got != want {
			t.Errorf("%s: got %q, %v, want %q", in, got, err, want)
		}
	}
	for _, bad := range []string{"", "tcp://", "tcp://x", "tcp://x:y", "tcp://x:70000", "inproc://x", "tcp://a;b:1", "ipc://*", "tcp://::1:5"} {
		if err := ParseEndpoint(bad, false); err == nil {
			t.Errorf("%q: accepted", bad)
		}
	}
	for _, wild := range []string{"tcp://*:5557", "tcp://x:*"} {
		if err := ParseEndpoint(wild, true); err == nil {
			t.Errorf("%q: accepted for dialing", wild)
		}
	}
	s := DialSub("tcp://nonsense", "", quick)
	defer s.Close()
	if _, err := s.Recv(testContext(t)); !errors.Is(err, ErrClosed) || s.State().LastError == "" {
		t.Errorf("Recv of a malformed endpoint: %v, state %+v", err, s.State())
	}
}

func TestIPC(t *testing.T) {
	path := "ipc://" + t.TempDir() + "/s"
	p := mustPub(t, path, quick)
	s := DialSub(path, "", quick)
	defer s.Close()
	mustRecv(t, s, Up)
	waitFor(t, "subscription", func() bool { return p.Subscribers() == 1 })
	p.Send([]byte("x"))
	mustRecv(t, s, Data)
}

func TestCommandBetweenFrames(t *testing.T) {
	b := appendFrame(nil, flagMore, []byte("a"))
	b = appendCommand(b, "PING", []byte{0, 1})
	b = appendFrame(b, 0, []byte("b"))
	d := newDecoder(b, 100)
	if it, err := d.next(); err != nil || it.command != "PING" {
		t.Fatalf("got %+v, %v", it, err)
	}
	it, err := d.next()
	if err != nil || !bytes.Equal(bytes.Join(it.frames, []byte("|")), []byte("a|b")) {
		t.Fatalf("got %q, %v", it.frames, err)
	}
}
