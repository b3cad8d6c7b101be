package mesh

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/banyan-llm/banyan/gossip"
)

// scriptCore answers events by a script and remembers them.
type scriptCore struct {
	on func(gossip.Event) []gossip.Effect

	mu     sync.Mutex // guards below
	events []gossip.Event
	next   int64
}

func (c *scriptCore) Step(now int64, ev gossip.Event) []gossip.Effect {
	c.mu.Lock()
	c.next = now + 1000
	if _, tick := ev.(gossip.Tick); !tick {
		c.events = append(c.events, ev)
	}
	c.mu.Unlock()
	if c.on == nil {
		return nil
	}
	return c.on(ev)
}

func (c *scriptCore) NextTick() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.next
}

func (c *scriptCore) Links([]gossip.Link) []gossip.Link { return nil }

// has reports how many events fulfil ok.
func (c *scriptCore) has(ok func(gossip.Event) bool) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, ev := range c.events {
		if ok(ev) {
			n++
		}
	}
	return n
}

func is[E gossip.Event](ev gossip.Event) bool {
	_, ok := ev.(E)
	return ok
}

// scripted starts an insecure peer with a scripted core.
func scripted(t *testing.T, core *scriptCore) *node {
	t.Helper()
	cfg := config("a")
	insecure(&cfg)
	cfg.Core = core
	cfg.Timing.Hello = 20 * time.Second // remotes that say nothing are not ended meanwhile
	return start(t, cfg)
}

// readFrame reads one frame as a remote would.
func readFrame(t *testing.T, r io.Reader) []byte {
	t.Helper()
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		t.Fatal(err)
	}
	data := make([]byte, binary.LittleEndian.Uint32(head[:]))
	if _, err := io.ReadFull(r, data); err != nil {
		t.Fatal(err)
	}
	return data
}

func TestFramesTravelInOrderBothWays(t *testing.T) {
	t.Parallel()
	const frames = 300
	core := &scriptCore{}
	core.on = func(ev gossip.Event) []gossip.Effect {
		if r, ok := ev.(gossip.Received); ok { // an echo
			return []gossip.Effect{gossip.Send{Conn: r.Conn, Kind: "load", Data: r.Data}}
		}
		return nil
	}
	n := scripted(t, core)
	conn := hostile(t, n, preamble{class: gossip.Bulk}.bytes())
	_ = conn.SetDeadline(time.Now().Add(patience))
	frame := func(i int) []byte { return bytes.Repeat([]byte{byte(i), byte(i >> 8)}, 1+i*i%5000) }
	go func() {
		for i := range frames {
			data := frame(i)
			if i == 0 {
				data = []byte("hello")
			}
			if _, err := conn.Write(frameOf(uint32(len(data)), data)); err != nil {
				return
			}
		}
	}()
	r := bufio.NewReader(conn)
	for i := range frames {
		want := frame(i)
		if i == 0 {
			want = []byte("hello")
		}
		if got := readFrame(t, r); !bytes.Equal(got, want) {
			t.Fatalf("frame %d came back as %d bytes, want %d", i, len(got), len(want))
		}
	}
	_ = conn.Close()
	eventually(t, "the end is told", func() bool { return core.has(is[gossip.Disconnected]) == 1 })
	core.mu.Lock()
	defer core.mu.Unlock()
	var kinds []string
	for _, ev := range core.events {
		switch ev := ev.(type) {
		case gossip.Connected:
			if ev.Class != gossip.Bulk || ev.Dialed {
				t.Errorf("%+v", ev)
			}
			kinds = append(kinds, "up")
		case gossip.Received:
			if k := len(kinds); k == 0 || kinds[k-1] != "frames" {
				kinds = append(kinds, "frames")
			}
		case gossip.Disconnected:
			kinds = append(kinds, "down")
		}
	}
	if !slices.Equal(kinds, []string{"up", "frames", "down"}) {
		t.Errorf("the core saw %v", kinds)
	}
}

// I3: what came before the end of a connection is told before it, even when
// the loop is behind.
func TestTheEndIsToldAfterTheFrames(t *testing.T) {
	t.Parallel()
	const frames = 200
	gate := make(chan struct{})
	core := &scriptCore{}
	core.on = func(ev gossip.Event) []gossip.Effect {
		if is[gossip.Connected](ev) {
			<-gate
		}
		return nil
	}
	n := scripted(t, core)
	open := sync.OnceFunc(func() { close(gate) })
	t.Cleanup(open)
	data := preamble{class: gossip.Bulk}.bytes()
	for range frames {
		data = append(data, frameOf(5, []byte("frame"))...)
	}
	_ = hostile(t, n, data).Close()
	eventually(t, "all of it waits", func() bool { return n.inbox.waiting() > frames })
	open()
	eventually(t, "the end is told", func() bool { return core.has(is[gossip.Disconnected]) == 1 })
	core.mu.Lock()
	defer core.mu.Unlock()
	if last := core.events[len(core.events)-1]; len(core.events) != frames+2 || !is[gossip.Disconnected](last) {
		t.Errorf("%d events, the last %#v", len(core.events), last)
	}
}

// I1, I2: a remote that does not read costs its own connection, nothing else.
func TestSlowRemoteBlocksNobody(t *testing.T) {
	t.Parallel()
	core := &scriptCore{}
	core.on = func(ev gossip.Event) []gossip.Effect {
		up, ok := ev.(gossip.Connected)
		if !ok || up.Class != gossip.Bulk {
			return nil
		}
		var out []gossip.Effect
		for range 100 { // more than the bound of what may wait
			out = append(out, gossip.Send{Conn: up.Conn, Kind: "slots", Data: make([]byte, maxFrameBytes)})
		}
		return out
	}
	n := scripted(t, core)
	slow := hostile(t, n, preamble{class: gossip.Bulk}.bytes()) // never reads
	if err := n.Do(t.Context(), func() {}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the slow one is ended", func() bool {
		return n.value(t, "banyan_mesh_connections_ended_total", "overflow") == 1 && core.has(is[gossip.Disconnected]) == 1
	})
	hungUp(t, slow)
	if v := n.value(t, "banyan_mesh_bytes_total", "out", "slots"); v > outboxBytes+(8<<20) {
		t.Errorf("%v bytes were taken for a remote that does not read", v)
	}
}

// A remote that stops reading within the bound is ended by the write deadline.
func TestStalledWriteEndsTheConnection(t *testing.T) {
	t.Parallel()
	core := &scriptCore{}
	core.on = func(ev gossip.Event) []gossip.Effect {
		up, ok := ev.(gossip.Connected)
		if !ok {
			return nil
		}
		var out []gossip.Effect
		for range outboxBytes / maxFrameBytes {
			out = append(out, gossip.Send{Conn: up.Conn, Kind: "slots", Data: make([]byte, maxFrameBytes)})
		}
		return out
	}
	cfg := config("a")
	insecure(&cfg)
	cfg.Core = core
	cfg.Timing.Stall = 300 * time.Millisecond
	n := start(t, cfg)
	conn := hostile(t, n, append(preamble{class: gossip.Bulk}.bytes(), frameOf(5, []byte("hello"))...))
	_ = conn.(*net.TCPConn).SetReadBuffer(4096)
	eventually(t, "the stalled one is ended", func() bool { return core.has(is[gossip.Disconnected]) == 1 })
}

func TestWritableFollowsWhatWasRead(t *testing.T) {
	t.Parallel()
	core := &scriptCore{}
	bytesSent, limit := 0, 8<<20
	burst := func(id gossip.Conn) (out []gossip.Effect) {
		for range 1 << 20 / (64 << 10) {
			if bytesSent < limit {
				bytesSent += 64 << 10
				out = append(out, gossip.Send{Conn: id, Kind: "slots", Data: make([]byte, 64<<10)})
			}
		}
		return out
	}
	core.on = func(ev gossip.Event) []gossip.Effect {
		switch ev := ev.(type) {
		case gossip.Connected:
			return burst(ev.Conn)
		case gossip.Writable:
			return burst(ev.Conn)
		}
		return nil
	}
	n := scripted(t, core)
	conn := hostile(t, n, append(preamble{class: gossip.Bulk}.bytes(), frameOf(5, []byte("hello"))...))
	_ = conn.SetDeadline(time.Now().Add(patience))
	r := bufio.NewReader(conn)
	for got := 0; got < limit; {
		got += len(readFrame(t, r)) // comes to an end only if every burst is followed by Writable
	}
}

func TestHangupSaysWhatWasQueued(t *testing.T) {
	t.Parallel()
	core := &scriptCore{}
	core.on = func(ev gossip.Event) []gossip.Effect {
		up, ok := ev.(gossip.Connected)
		if !ok {
			return nil
		}
		return []gossip.Effect{
			gossip.Send{Conn: up.Conn, Kind: "hello", Data: []byte("last words")},
			gossip.Hangup{Conn: up.Conn, Reason: "test"},
			gossip.Send{Conn: up.Conn, Kind: "load", Data: []byte("too late")},
		}
	}
	n := scripted(t, core)
	conn := hostile(t, n, preamble{}.bytes())
	_ = conn.SetDeadline(time.Now().Add(patience))
	if got := readFrame(t, conn); string(got) != "last words" {
		t.Errorf("got %q", got)
	}
	if rest, err := io.ReadAll(conn); len(rest) > 0 || err != nil {
		t.Errorf("after the last words: %q, %v", rest, err)
	}
	eventually(t, "the end is told", func() bool { return core.has(is[gossip.Disconnected]) == 1 })
}

func TestLocalEffectsReachTheRouter(t *testing.T) {
	t.Parallel()
	core := &scriptCore{}
	core.on = func(ev gossip.Event) []gossip.Effect {
		if is[gossip.Predicted](ev) {
			return []gossip.Effect{
				gossip.Caught{Ready: true, Reason: "test"},
				gossip.CutSnapshot{Stream: "s"},
				gossip.Log{Level: "warn", Msg: "from the core"},
				gossip.Log{Level: "warn", Msg: "from the core"},
			}
		}
		return nil
	}
	got := make(chan gossip.Effect, 8)
	cfg := config("a")
	insecure(&cfg)
	cfg.Core, cfg.Local = core, func(e gossip.Effect) { got <- e }
	n := start(t, cfg)
	n.Post(gossip.Predicted{})
	if e, ok := (<-got).(gossip.Caught); !ok || !e.Ready {
		t.Errorf("first is %#v", e)
	}
	if e, ok := (<-got).(gossip.CutSnapshot); !ok || e.Stream != "s" {
		t.Errorf("second is %#v", e)
	}
	n.Post(gossip.SnapshotCut{Stream: "s"})
	n.Post(gossip.Tick{}) // not for others to say
	eventually(t, "the answer", func() bool { return core.has(is[gossip.SnapshotCut]) == 1 })
	if v := n.value(t, "banyan_mesh_dropped_total", "event"); v != 1 {
		t.Errorf("%v events were dropped, want 1", v)
	}
	if c := n.log.count("[WARN]  a: from the core"); c != 1 {
		t.Errorf("the core's warning is in the log %d times, want once", c)
	}
}

// hasty is a core that always wants to be stepped at once.
type hasty struct{ scriptCore }

func (*hasty) NextTick() int64 { return 0 }

func TestAHastyCoreTicksOnceAMillisecond(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var ticks []int64
	core := &hasty{}
	now := time.Unix(1, 0) // a clock that stands
	cfg := config("a")
	insecure(&cfg)
	cfg.Now = func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	core.on = func(ev gossip.Event) []gossip.Effect {
		if is[gossip.Tick](ev) {
			mu.Lock()
			ticks = append(ticks, now.UnixMilli())
			mu.Unlock()
		}
		return nil
	}
	cfg.Core = core
	n := start(t, cfg)
	count := func() int { mu.Lock(); defer mu.Unlock(); return len(ticks) }
	for want := 1; want < 4; want++ {
		eventually(t, "a tick", func() bool { return count() == want })
		for range 20 {
			if err := n.Do(t.Context(), func() {}); err != nil {
				t.Fatal(err)
			}
		}
		if got := count(); got != want {
			t.Fatalf("%d ticks while the clock stood, want %d", got, want)
		}
		mu.Lock()
		now = now.Add(time.Millisecond)
		mu.Unlock()
	}
}

func TestDoRunsBetweenSteps(t *testing.T) {
	t.Parallel()
	n := scripted(t, &scriptCore{})
	ran := false
	if err := n.Do(t.Context(), func() { ran = true }); err != nil || !ran {
		t.Errorf("ran %v, %v", ran, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	block := make(chan struct{})
	go func() { _ = n.Do(context.Background(), func() { <-block }) }()
	if err := n.Do(ctx, func() {}); err != nil && ctx.Err() == nil {
		t.Error(err)
	}
	close(block)
}
