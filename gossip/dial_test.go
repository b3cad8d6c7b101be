package gossip

import (
	"math/rand/v2"
	"testing"

	"github.com/banyan-llm/banyan/crdt"
)

// A mesh that starts at once shakes hands a few at a time.
func TestFirstDialsArePaced(t *testing.T) {
	c, err := New(Config{Self: crdt.PeerID{1}, State: &watcher{}, Rand: rand.New(rand.NewPCG(1, 2))})
	if err != nil {
		t.Fatal(err)
	}
	asked := map[Dial]bool{}
	step := func(now int64, ev Event) (n int) {
		for _, e := range c.Step(now, ev) {
			if d, ok := e.(Dial); ok {
				asked[d] = true
				n++
			}
		}
		return n
	}
	for i := range 40 {
		step(1_000, MemberUp{Peer: crdt.PeerID{2, byte(i)}})
	}
	if n := step(1_010, Tick{}); len(asked) != least(41) {
		t.Fatalf("%d dials at once, %d of them in one step", len(asked), n)
	}
	// One comes to stand: it is another's turn.
	for d := range asked {
		c.Step(1_020, Connected{Conn: 1, Class: d.Class, Dialed: true, Expect: d.Peer})
		other := assemble(&base{cfg: Config{Self: d.Peer, MinVersion: 1, MaxVersion: Version}})
		if n := step(1_020, Received{Conn: 1, Data: encodeFrame(1, kindHello, 1, other.helloBody(&conn{id: 1, class: d.Class}))}); n != 1 {
			t.Fatalf("a connection stands and %d others are dialed, want 1", n)
		}
		break
	}
	// Nothing comes of the others: fewer at a time, but all are dialed.
	for now := int64(1_100); now < 130_000 && len(asked) < 80; now = max(now+1, c.NextTick()) {
		step(now, Tick{})
	}
	if len(asked) != 80 {
		t.Errorf("peers out of reach keep others from being dialed: %d of 80", len(asked))
	}
}

// Dials that are late halve what is under way beyond the least, once for those
// that were begun together; those that succeed bring it back. In a small mesh
// the least is all that is ever needed.
func TestLateDialsSlowTheNextOnesDown(t *testing.T) {
	var d dialPace
	if got := d.room(8); got < 2*7 {
		t.Errorf("one of 8 peers dials %d at a time, of 14", got)
	}
	if got := d.room(128); got != dialsLeast {
		t.Errorf("one of 128 peers begins with %d at a time", got)
	}
	for range 1_000 {
		d.stood(128)
	}
	if got := d.room(128); got != dialsMost {
		t.Fatalf("%d at a time after 1,000 successes", got)
	}
	for range dialsMost {
		d.late(10_000)
	}
	if got := d.room(128); got != dialsLeast+dialsMost/2 {
		t.Errorf("%d at a time after a round of late dials, want half of the most, and the least", got)
	}
	for i := range int64(10) {
		d.late(10_000 + (i+1)*dialSlowMs)
	}
	if got := d.room(128); got != dialsLeast {
		t.Errorf("%d at a time after ten rounds of late dials", got)
	}
}

// A try that follows a late one counts like the first: in a mesh too slow for
// its handshakes the tries that follow must not add to them.
func TestDialsThatFollowLateOnesArePacedToo(t *testing.T) {
	c, err := New(Config{Self: crdt.PeerID{1}, State: &watcher{}, Rand: rand.New(rand.NewPCG(1, 2))})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 40 {
		c.Step(1_000, MemberUp{Peer: crdt.PeerID{2, byte(i)}})
	}
	var at []int64 // of each dial
	for now := int64(1_010); now < 300_000; now = max(now+1, c.NextTick()) {
		for _, e := range c.Step(now, Tick{}) {
			if _, ok := e.(Dial); ok {
				at = append(at, now)
			}
		}
	}
	if len(at) < 80 {
		t.Fatalf("%d dials of 80 connections in 300 s", len(at))
	}
	for i := least(41); i < len(at); i++ {
		if took := at[i] - at[i-least(41)]; took < dialSlowMs {
			t.Fatalf("%d dials within %d ms, at %d", least(41)+1, took, at[i])
		}
	}
}

// Acks go by the fast connection: a bulk one that stands alone is kept until
// they can come.
func TestBulkConnectionWaitsForTheFastOne(t *testing.T) {
	c := among(t, &watcher{}, 1, Version)
	p := c.order[0]
	bulk := p.conns[Bulk].id
	c.Step(2_000, Disconnected{Conn: p.conns[Fast].id})
	hungUp := func(now int64, ev Event) bool {
		for _, e := range c.Step(now, ev) {
			if h, ok := e.(Hangup); ok && h.Conn == bulk {
				return true
			}
		}
		return false
	}
	for now := int64(2_100); now < 60_000; now += 500 {
		if hungUp(now, Tick{}) {
			t.Fatalf("hung up at %d ms, though no ack could come", now)
		}
	}
	other := assemble(&base{cfg: Config{Self: p.id, MinVersion: Version, MaxVersion: Version}})
	c.Step(60_000, Connected{Conn: 9, Class: Fast})
	c.Step(60_000, Received{Conn: 9, Data: encodeFrame(Version, kindHello, 1, other.helloBody(&conn{id: 9, class: Fast}))})
	n := uint64(2)
	for now := int64(60_100); now < 60_000+2*stuckMs; now += 500 {
		b := (&base{now: now}).newBody(16)
		hung := hungUp(now, Received{Conn: 9, Data: encodeFrame(Version, kindAck, n, append(b, 0, 0))})
		n++
		switch {
		case hung && now < 60_000+stuckMs:
			t.Fatalf("hung up %d ms after the fast connection stood", now-60_000)
		case hung:
			return
		}
	}
	t.Error("a bulk connection on which nothing is acknowledged stands for ever")
}
