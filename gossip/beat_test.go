package gossip

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/banyan-llm/banyan/crdt"
)

// ear notes of which peers anything was heard.
type ear struct {
	watcher
	heard map[crdt.PeerID]int
}

func (e *ear) JoinLoads(at crdt.PeerID, _ []crdt.LoadEntry) { e.heard[at]++ }

// among makes a core with k peers that are connected to it by both classes, and
// speak the version.
func among(t *testing.T, state State, k int, version uint8) *Core {
	t.Helper()
	c, err := New(Config{Self: crdt.PeerID{1}, State: state, Rand: rand.New(rand.NewPCG(1, 2))})
	if err != nil {
		t.Fatal(err)
	}
	for i := range k {
		id := crdt.PeerID{2, byte(i)}
		other := assemble(&base{cfg: Config{Self: id, MinVersion: 1, MaxVersion: version}})
		c.Step(1_000, MemberUp{Peer: id})
		for _, class := range []Class{Fast, Bulk} {
			cn := &conn{id: Conn(2*i) + Conn(class) + 1, class: class}
			c.Step(1_000, Connected{Conn: cn.id, Class: class})
			c.Step(1_000, Received{Conn: cn.id, Data: encodeFrame(1, kindHello, 1, other.helloBody(cn))})
		}
		if !c.peers[id].both() {
			t.Fatal("not connected")
		}
	}
	return c
}

// ackOf is the n-th frame of the i-th peer's fast connection: an ack of nothing
// that announces the next within pause ms.
func ackOf(i int, n uint64, now, pause int64) Received {
	c := assemble(&base{now: now})
	b := binary.AppendUvarint(append(c.newBody(16), 0), uint64(pause))
	return Received{Conn: Conn(2*i + 1), Data: encodeFrame(Version, kindAck, n, b)}
}

// What a silent peer's requests weigh fades by what the state hears of it: of
// one that announced its silence it hears until that is over, and no longer.
func TestAnnouncedSilenceIsNotHeldAgainstAPeer(t *testing.T) {
	e := &ear{heard: make(map[crdt.PeerID]int)}
	c := among(t, e, 40, Version)
	id := crdt.PeerID{2, 0}
	c.Step(1_010, ackOf(0, 2, 1_010, 1_800))
	if e.heard[id] != 1 {
		t.Fatalf("an ack was heard %d times", e.heard[id])
	}
	at := int64(1_010)
	for now := at; now < at+5_000; now += 10 {
		before := e.heard[id]
		c.Step(now, Tick{})
		if now > at+1_600 && e.heard[id] != before {
			t.Fatalf("vouched for after %d ms of silence, announced were 1,800", now-at)
		}
		want := max(0, now-at-1_600)
		if got := c.viewAge(c.peers[id]); got != want {
			t.Fatalf("after %d ms of silence the view is %d ms old, want %d", now-at, got, want)
		}
	}
	if e.heard[id] < 5 {
		t.Errorf("vouched for %d times", e.heard[id])
	}
	if e.heard[crdt.PeerID{2, 1}] != 0 {
		t.Error("vouched for a peer that announced nothing")
	}
}

// Nobody may announce so long a silence that its end is never noticed.
func TestAnnouncedSilenceIsBounded(t *testing.T) {
	c := among(t, &ear{heard: make(map[crdt.PeerID]int)}, 1, Version)
	c.Step(1_010, ackOf(0, 2, 1_010, 1<<50))
	c.Step(1_010+maxSilenceMs+800, Tick{})
	if got := c.viewAge(c.order[0]); got < 900 {
		t.Errorf("after %d ms of silence the view is %d ms old", maxSilenceMs+800, got)
	}
	if got := c.loads.pause(); got != heartbeatMs {
		t.Errorf("one of two peers is silent for %d ms", got)
	}
	for i := range 400 {
		c.Step(2_000, MemberUp{Peer: crdt.PeerID{3, byte(i / 256), byte(i)}})
	}
	if got := c.loads.pause(); got != maxSilenceMs {
		t.Errorf("one of 400 peers is silent for %d ms, at most %d are right", got, maxSilenceMs)
	}
}
