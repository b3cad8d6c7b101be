package zmtp

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// python is Debian's interpreter, which sees Debian's python3-zmq.
const python = "/usr/bin/python3"

// libzmq is a real libzmq socket in another process.
type libzmq struct {
	t        testing.TB
	cmd      *exec.Cmd
	in       io.WriteCloser
	out      *bufio.Scanner
	endpoint string
}

// startLibzmq runs testdata/peer.py, or skips the test where there is none.
func startLibzmq(t testing.TB, args ...string) *libzmq {
	t.Helper()
	if err := exec.Command(python, "-c", "import zmq").Run(); err != nil {
		t.Skipf("no libzmq to test against: %s -c 'import zmq': %v (apt-get install python3-zmq)", python, err)
	}
	l := &libzmq{t: t, cmd: exec.Command(python, append([]string{"testdata/peer.py"}, args...)...)}
	var err error
	if l.in, err = l.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := l.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	l.out = bufio.NewScanner(out)
	l.out.Buffer(nil, 1<<24)
	if err := l.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.kill)
	kill := time.AfterFunc(3*testTimeout, func() { _ = l.cmd.Process.Kill() })
	t.Cleanup(func() { kill.Stop() })
	l.endpoint = l.line("ready")
	return l
}

// kill ends the process the hard way.
func (l *libzmq) kill() {
	_ = l.cmd.Process.Kill()
	_ = l.cmd.Wait()
}

// line reads one line and returns a field as text.
func (l *libzmq) line(field string) string {
	l.t.Helper()
	if !l.out.Scan() {
		l.t.Fatalf("libzmq peer ended: %v", l.out.Err())
	}
	var m map[string]any
	if err := json.Unmarshal(l.out.Bytes(), &m); err != nil {
		l.t.Fatal(err)
	}
	return fmt.Sprint(m[field])
}

// send makes the peer send one message.
func (l *libzmq) send(frames ...string) {
	l.t.Helper()
	var h []string
	for _, f := range frames {
		h = append(h, hex.EncodeToString([]byte(f)))
	}
	b, _ := json.Marshal(map[string]any{"send": h})
	if _, err := l.in.Write(append(b, '\n')); err != nil {
		l.t.Fatal(err)
	}
}

// recv waits for a message of the peer's: its frames, "|" between.
func (l *libzmq) recv() string {
	l.t.Helper()
	fields := strings.Fields(strings.Trim(l.line("recv"), "[]"))
	var out []string
	for _, f := range fields {
		b, err := hex.DecodeString(f)
		if err != nil {
			l.t.Fatal(err)
		}
		out = append(out, string(b))
	}
	return strings.Join(out, "|")
}

// text joins frames like recv does; empty frames vanish in both.
func text(frames [][]byte) string {
	var out []string
	for _, f := range frames {
		if len(f) > 0 {
			out = append(out, string(f))
		}
	}
	return strings.Join(out, "|")
}

// beatEvery is the interval between PINGs, ours or (in ms, as its option wants
// it) libzmq's: long enough for a busy machine to answer within three.
const (
	beatEvery = 300 * time.Millisecond
	beat      = "300"
)

func TestInteropSubDialsLibzmqPub(t *testing.T) {
	l := startLibzmq(t, "XPUB", "bind", "tcp://127.0.0.1:*")
	opt := quick
	opt.Heartbeat = beatEvery
	s := DialSub(l.endpoint, "kv@", opt)
	defer s.Close()
	mustRecv(t, s, Up)
	if got := l.recv(); got != "\x01kv@" {
		t.Fatalf("libzmq saw subscription %q", got)
	}
	time.Sleep(5 * beatEvery) // libzmq answers our PINGs, or it would be down
	long := strings.Repeat("y", 100_000)
	l.send("other", "x")
	l.send("kv@a", "\x00\x00\x00\x00\x00\x00\x00\x07", long)
	if m := mustRecv(t, s, Data); text(m.Frames) != "kv@a|\x00\x00\x00\x00\x00\x00\x00\x07|"+long {
		t.Fatalf("got %.80q", m.Frames)
	}
	// A restart on the same port, after an outage.
	l.kill()
	mustRecv(t, s, Down)
	waitFor(t, "failed attempts", func() bool { return s.State().Failures > 2 })
	l = startLibzmq(t, "XPUB", "bind", l.endpoint)
	mustRecv(t, s, Up)
	l.recv()
	l.send("kv@b")
	mustRecv(t, s, Data)
}

func TestInteropSubBindsForLibzmqPub(t *testing.T) {
	s, err := ListenSub("tcp://127.0.0.1:*", "", quick)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	conns := map[uint64]bool{}
	for _, every := range []string{"", beat} { // the second one sends PINGs
		args := []string{"XPUB", "connect", tcp(s.Addr())}
		if every != "" {
			args = append(args, every)
		}
		l := startLibzmq(t, args...)
		mustRecv(t, s, Up)
		if got := l.recv(); got != "\x01" {
			t.Fatalf("libzmq saw subscription %q", got)
		}
		l.send("topic", "one")
		m := mustRecv(t, s, Data)
		if text(m.Frames) != "topic|one" || conns[m.Conn] {
			t.Fatalf("got %q on connection %d", m.Frames, m.Conn)
		}
		conns[m.Conn] = true
		if every != "" { // three missed heartbeats would have ended it
			time.Sleep(5 * beatEvery)
			l.send("still", "there")
			mustRecv(t, s, Data)
		}
	}
}

func TestInteropPubServesLibzmqSub(t *testing.T) {
	p := mustPub(t, "127.0.0.1:0", quick)
	l := startLibzmq(t, "SUB", "connect", tcp(p.Addr()), beat)
	waitFor(t, "subscription", func() bool { return p.Subscribers() == 1 })
	time.Sleep(5 * beatEvery) // its PINGs are answered, or it would leave
	if st := p.State(); st.Conns != 1 || st.Connects != 1 {
		t.Fatalf("state %+v", st)
	}
	p.Send(frames("kv@x", "seq", "payload")...)
	if got := l.recv(); got != "kv@x|seq|payload" {
		t.Fatalf("libzmq got %q", got)
	}
}

func TestInteropPubDialsLibzmqSub(t *testing.T) {
	l := startLibzmq(t, "SUB", "bind", "tcp://127.0.0.1:*")
	p, err := DialPub(l.endpoint, quick)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	waitFor(t, "subscription", func() bool { return p.Subscribers() == 1 })
	p.Send(frames("a", "b")...)
	if got := l.recv(); got != "a|b" {
		t.Fatalf("libzmq got %q", got)
	}
}

func TestInteropDealerAsksLibzmqRouter(t *testing.T) {
	l := startLibzmq(t, "ROUTER", "bind", "tcp://127.0.0.1:*")
	ctx := testContext(t)
	d, err := DialDealer(ctx, l.endpoint, Options{Identity: []byte("me")})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := d.Send(nil, []byte("from 3")); err != nil {
		t.Fatal(err)
	}
	if got := l.recv(); got != "me|from 3" { // the empty delimiter prints as nothing
		t.Fatalf("libzmq got %q", got)
	}
	for _, seq := range []string{"3", "4"} {
		l.send("me", "", "topic", seq, "payload")
	}
	for _, seq := range []string{"3", "4"} {
		got, _, err := d.Recv(ctx)
		if err != nil || len(got) != 4 || text(got) != "topic|"+seq+"|payload" {
			t.Fatalf("got %q, %v", got, err)
		}
	}
}

func TestInteropRouterAnswersLibzmqDealer(t *testing.T) {
	for _, kind := range []string{"DEALER", "REQ"} {
		t.Run(kind, func(t *testing.T) {
			r, err := ListenRouter("127.0.0.1:0", quick, func(r *Request) {
				_ = r.Reply(nil, append([]byte("re:"), r.Frames[len(r.Frames)-1]...))
			})
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			l := startLibzmq(t, kind, "connect", tcp(r.Addr()))
			if kind == "DEALER" {
				l.send("", "x")
			} else {
				l.send("x")
			}
			if got := l.recv(); got != "re:x" {
				t.Fatalf("libzmq got %q", got)
			}
		})
	}
}
