package load_test

import (
	"testing"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/router/load"
)

// pair is two tables that hear each other when told to.
type pair struct {
	tables [2]*load.Table
	ids    [2]crdt.PeerID
}

func newPair() *pair {
	p := &pair{ids: [2]crdt.PeerID{{1}, {2}}}
	for i := range p.tables {
		p.tables[i] = load.New(p.ids[i], func() int64 { return 1000 })
	}
	p.hear(0)
	p.hear(1)
	return p
}

// hear lets a table hear what the other one has to tell.
func (p *pair) hear(i int) {
	from := 1 - i
	p.tables[from].Entry("told first") // a peer's first word tells nothing of what was sent when
	p.tables[i].JoinLoads(p.ids[from], p.tables[from].OwnLoads(nil, true))
}

// TestNewsIsWhatOthersSentSince: what was heard before a request was booked, what
// goes elsewhere, first tokens, ends and own requests are no news.
func TestNewsIsWhatOthersSentSince(t *testing.T) {
	p := newPair()
	a, b := p.tables[0], p.tables[1]
	first := &load.Cost{Replica: "r", Prefill: .5, Tokens: 100}
	b.Dispatch(first, 1000)
	p.hear(0) // its first word
	early := &load.Cost{Replica: "r", Prefill: .25, Tokens: 50}
	b.Dispatch(early, 1000)
	p.hear(0)
	mine := &load.Cost{Replica: "r", Prefill: 1, Tokens: 10}
	a.Dispatch(mine, 1001)
	if a.News(mine) {
		t.Fatal("news of what was heard before")
	}
	a.Dispatch(&load.Cost{Replica: "r", Prefill: 1, Tokens: 10}, 1001)
	b.Dispatch(&load.Cost{Replica: "s", Prefill: 1, Tokens: 10}, 1001)
	b.FirstToken(early, 1002)
	p.hear(0)
	b.Done(early, 1, 0, 0)
	p.hear(0)
	if a.News(mine) {
		t.Fatal("news of an own request, one to another replica, a first token or an end")
	}
	late := &load.Cost{Replica: "r", Prefill: .75, Tokens: 7}
	b.Dispatch(late, 1002)
	if a.News(mine) {
		t.Fatal("news before it was heard")
	}
	p.hear(0)
	if !a.News(mine) {
		t.Fatal("no news of another peer's request")
	}
	b.FirstToken(late, 1003)
	p.hear(0)
	if !a.News(mine) {
		t.Fatal("its first token took it back")
	}
	sent := a.SentSince(nil, mine)
	if len(sent) != 2 || sent[0].Prefill != 1 || sent[0].Before || sent[1].Prefill != .75 || sent[1].Tokens != 7 {
		t.Fatalf("sent since: %+v", sent)
	}
}

// TestTwoPeersAgreeWhoIsFirst: of two requests that neither peer had heard of,
// both know the same one as the first, and at other replicas it may be the other.
func TestTwoPeersAgreeWhoIsFirst(t *testing.T) {
	firsts := map[bool]int{}
	for _, id := range []crdt.StreamID{"a", "b", "c", "d", "e", "f", "g", "h"} {
		p := newPair()
		old := &load.Cost{Replica: id, Prefill: 1}
		for i, tb := range p.tables {
			tb.Dispatch(old, 1000)
			p.hear(1 - i)
		}
		x, y := &load.Cost{Replica: id, Prefill: 1}, &load.Cost{Replica: id, Prefill: 1}
		p.tables[0].Dispatch(x, 1001)
		p.tables[1].Dispatch(y, 1001)
		p.hear(0)
		p.hear(1)
		mine, theirs := p.tables[0].SentSince(nil, x), p.tables[1].SentSince(nil, y)
		if len(mine) != 1 || len(theirs) != 1 || mine[0].Before == theirs[0].Before {
			t.Fatalf("%s: %+v and %+v", id, mine, theirs)
		}
		firsts[mine[0].Before]++
	}
	if len(firsts) != 2 {
		t.Errorf("one peer is always first: %v", firsts)
	}
}

// TestARequestThatMovesLeavesNothingBehind: its load is at its new replica alone,
// at this peer and at others, who do not take it for sent to the old one.
func TestARequestThatMovesLeavesNothingBehind(t *testing.T) {
	p := newPair()
	a, b := p.tables[0], p.tables[1]
	b.Dispatch(&load.Cost{Replica: "q", Prefill: 1}, 1000)
	p.hear(0)
	mine := &load.Cost{Replica: "r", Prefill: 1}
	a.Dispatch(mine, 1000)
	c := &load.Cost{Replica: "r", Prefill: .5, Tokens: 60}
	b.Dispatch(c, 1001)
	p.hear(0)
	if !a.News(mine) {
		t.Fatal("no news")
	}
	if !b.Move(c, load.Cost{Replica: "s", Prefill: .75, Tokens: 80}, nil, 1003) {
		t.Fatal("not moved")
	}
	p.hear(0)
	if a.News(mine) {
		t.Error("what moved away is still news")
	}
	for i, tb := range p.tables {
		r, _, _ := tb.Totals("r")
		s, _, _ := tb.Totals("s")
		if r.Waiting != int32(1-i) || s.Waiting != 1 || s.Prefill != .75 || s.Tokens != 80 {
			t.Errorf("table %d: r %+v, s %+v", i, r, s)
		}
	}
	b.FirstToken(c, 1010)
	b.Done(c, 1, 0, 0)
	if s, _, _ := b.Totals("s"); s.Waiting != 0 || s.Streams != 0 || s.Prefill != 0 {
		t.Errorf("after its end: %+v", s)
	}
}

// TestAMovedRequestWasSentOnce: of a request that this peer moved, what was sent
// since holds it at its new replica alone.
func TestAMovedRequestWasSentOnce(t *testing.T) {
	a := newPair().tables[0]
	atR, atS := &load.Cost{Replica: "r", Prefill: 1}, &load.Cost{Replica: "s", Prefill: 1}
	a.Dispatch(atR, 1000)
	a.Dispatch(atS, 1000)
	c := &load.Cost{Replica: "r", Prefill: .5, Tokens: 60}
	a.Dispatch(c, 1001)
	if !a.Move(c, load.Cost{Replica: "s", Prefill: .75, Tokens: 80}, nil, 1003) {
		t.Fatal("not moved")
	}
	if left := a.SentSince(nil, atR); len(left) != 0 {
		t.Errorf("sent to the replica that it left: %+v", left)
	}
	if came := a.SentSince(nil, atS); len(came) != 1 || came[0] != (load.Sent{Prefill: .75, Tokens: 80}) {
		t.Errorf("sent to its new one: %+v", came)
	}
}

// TestNobodyMovesToAFullReplica: nor does what has its first token, or is over.
func TestNobodyMovesToAFullReplica(t *testing.T) {
	tb := load.New(crdt.PeerID{1}, func() int64 { return 1000 })
	limit := &load.Limit{ReplicaLimit: 1, Peers: 1}
	tb.Dispatch(&load.Cost{Replica: "full", Prefill: 1}, 1000)
	c := &load.Cost{Replica: "r", Prefill: 1}
	tb.Dispatch(c, 1000)
	if tb.Move(c, load.Cost{Replica: "full", Prefill: 1}, limit, 1001) {
		t.Error("moved to a full replica")
	}
	tb.FirstToken(c, 1002)
	if tb.Move(c, load.Cost{Replica: "s", Prefill: 1}, nil, 1003) {
		t.Error("moved after its first token")
	}
	if r, _, _ := tb.Totals("r"); r.Streams != 1 || r.Waiting != 0 {
		t.Errorf("%+v", r)
	}
}

// TestOnlyTheLastDispatchesAreRemembered: memory does not grow, and what was
// pushed out is no news.
func TestOnlyTheLastDispatchesAreRemembered(t *testing.T) {
	p := newPair()
	a, b := p.tables[0], p.tables[1]
	b.Dispatch(&load.Cost{Replica: "q", Prefill: 1}, 1000)
	p.hear(0)
	mine := &load.Cost{Replica: "r", Prefill: 1}
	a.Dispatch(mine, 1000)
	b.Dispatch(&load.Cost{Replica: "r", Prefill: 1}, 1000)
	p.hear(0)
	for range 300 {
		b.Dispatch(&load.Cost{Replica: "q", Prefill: 1}, 1000)
		p.hear(0)
	}
	if a.News(mine) {
		t.Error("a dispatch of 300 ago is remembered")
	}
	if n := len(a.SentSince(nil, mine)); n != 0 {
		t.Errorf("%d remembered", n)
	}
}

// TestAReplicaListedAgainIsHeard: one peer forgets a replica that another one
// lists all the time, and lists it again: what it sends there from then on
// counts at the other one.
func TestAReplicaListedAgainIsHeard(t *testing.T) {
	p := newPair()
	a, b := p.tables[0], p.tables[1]
	for range 100 {
		c := &load.Cost{Replica: "r", Prefill: 1}
		a.Dispatch(c, 1000)
		p.hear(1)
		a.Done(c, 1, 0, 0)
		p.hear(1)
	}
	a.ForgetReplica("r")
	for range 50 {
		a.Dispatch(&load.Cost{Replica: "r", Prefill: 1}, 1000)
		p.hear(1)
	}
	if sees, _, _ := b.Totals("r"); sees.Waiting != 50 {
		t.Errorf("50 wait at the replica, the other peer believes %d", sees.Waiting)
	}
}
