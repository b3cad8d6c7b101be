package gossip_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/gossip"
	"github.com/vmihailenco/msgpack/v5"
	"pgregory.net/rapid"
)

// Property 11, ConvergenceBound: with one fault in place and no other, all
// catch up within a bound.

func TestOneWayCutConverges(t *testing.T) {
	n, nodes := mesh(t, 3, Config{Seed: 2})
	n.Cut(nodes[0], nodes[1])
	e := n.Engine("http://r")
	for range 20 {
		e.Ingest(nodes[0], true, e.Emit(1)...)
		n.Run(50)
	}
	converge(t, n, 8_000)
}

func TestSlowLinkConvergesAndStaysBounded(t *testing.T) { // I5, I6
	limits := gossip.Limits{UnackedBytes: 8 << 10, BurstBytes: 4 << 10, SlotsBytes: 1 << 10}
	n, nodes := mesh(t, 3, Config{Seed: 2, Core: gossip.Config{Limits: limits}})
	a, b := nodes[0], nodes[1]
	n.Link(a, b).BytesPer = 4 // a fifth of what is to be sent
	e := n.Engine("http://r")
	for range 400 {
		e.Ingest(a, true, e.Emit(2)...)
		n.Run(5)
		for _, p := range a.Core.Peers() {
			if p.Unacked > 2*(8<<10) {
				t.Fatalf("%d bytes unacknowledged", p.Unacked)
			}
			if p.ID == b.ID && p.Owed > 1 {
				t.Fatalf("%d streams owed of one", p.Owed)
			}
		}
	}
	converge(t, n, 20_000)
}

func TestMissingOnlyAfterEveryPeerAnswered(t *testing.T) {
	for seed := range uint64(8) { // whom a asks first depends on it
		testMissing(t, seed)
	}
}

func testMissing(t *testing.T, seed uint64) {
	n, nodes := mesh(t, 4, Config{Seed: seed})
	a, c := nodes[0], nodes[2]
	e := n.Engine("http://r")
	slots := e.Emit(3)
	c.State.Apply(&crdt.Delta{Stream: e.Stream, Epoch: e.Epoch, Anchor: 1, Slots: slots[1:2]}, n.Now())
	e.Ingest(a, true, slots[0], slots[2])
	n.Run(2_000)
	if len(a.Missing) > 0 {
		t.Errorf("a asked for %v, c had it", a.Missing)
	}
	more := e.Emit(3)
	e.Ingest(a, true, more[0], more[2])
	n.Run(90)
	if len(a.Missing) > 0 {
		t.Error("a did not wait for slots on their way")
	}
	n.Run(400)
	if len(a.Missing) != 1 || len(a.Missing[0].Spans) != 1 || a.Missing[0].Spans[0] != (crdt.Span{From: 5, To: 5}) {
		t.Fatalf("missing %v, want slot 5 once", a.Missing)
	}
	e.Lose(a, crdt.Span{From: 5, To: 5})
	converge(t, n, 1_000)
	was := len(a.Missing)
	n.Run(10_000)
	if len(a.Missing) != was {
		t.Error("a declared loss is still asked for")
	}
}

func TestAloneIsReadyAfterTheGrace(t *testing.T) {
	n := New(Config{Seed: 2, Core: gossip.Config{JoinGrace: 500}})
	a := n.Add()
	n.Run(480)
	if a.Ready {
		t.Fatal("ready before the grace passed")
	}
	n.Run(50)
	if !a.Ready || a.Reason != "alone" {
		t.Fatalf("ready %v: %s", a.Ready, a.Reason)
	}
}

func TestJoinBoundPassesWithoutDonors(t *testing.T) {
	n := New(Config{Seed: 2, Core: gossip.Config{JoinBound: 3_000}})
	a := n.AddSilent()
	n.Post(a, gossip.MemberUp{Peer: crdt.PeerID{1}}) // nobody is there
	n.Run(2_900)
	if a.Ready {
		t.Fatal("ready without its donors")
	}
	n.Run(200)
	if !a.Ready || a.Reason != gossip.ReadyLate {
		t.Fatalf("ready %v: %s", a.Ready, a.Reason)
	}
}

// A peer that was killed is a member until its failure is detected: who joins
// meanwhile takes what it knew from the others and does not wait for it.
func TestColdJoinDoesNotWaitForTheDead(t *testing.T) {
	n, nodes := mesh(t, 3, Config{Seed: 2, DetectMs: 20_000})
	e := n.Engine("http://r")
	e.Ingest(nodes[2], true, e.Emit(3)...)
	n.Run(200)
	n.Kill(nodes[2])
	d := n.Add()
	n.Post(d, gossip.MemberUp{Peer: nodes[2].ID, Name: nodes[2].Name, Ready: true})
	n.Run(1_000)
	if d.Ready {
		t.Fatal("ready before the dead member had time to connect")
	}
	if !n.RunUntil(1_000, func() bool { return d.Ready }) {
		t.Fatalf("not ready: %s", d.Reason)
	}
	if diff := difference(n); d.Reason != "caught up" || diff != "" {
		t.Errorf("ready (%s), but %s", d.Reason, diff)
	}
}

func TestColdJoinWaitsForSomebody(t *testing.T) {
	n := New(Config{Seed: 2})
	a := n.AddSilent()
	n.Post(a, gossip.MemberUp{Peer: crdt.PeerID{1}}) // nobody is there
	n.Run(10_000)
	if a.Ready {
		t.Fatalf("ready, having heard of nobody: %s", a.Reason)
	}
}

func TestColdJoinSpreadsOverDonors(t *testing.T) {
	n, nodes := mesh(t, 3, Config{Seed: 2})
	for i := range 200 {
		e := n.Engine(fmt.Sprintf("http://r%d", i))
		e.Ingest(nodes[0], true, e.Emit(3)...)
	}
	n.Run(200)
	d := n.Add()
	at := n.Now()
	if !n.RunUntil(5_000, func() bool { return d.Ready }) {
		t.Fatalf("not ready: %s", d.Reason)
	}
	if took := n.Now() - at; took > 500 {
		t.Errorf("ready after %d ms", took)
	}
	if diff := difference(n); diff != "" {
		t.Errorf("ready, but %s", diff)
	}
	for _, x := range nodes {
		if got := x.Core.Stats().Answered; got < 40 {
			t.Errorf("%s answered %d of 200 wants", x.Name, got)
		}
	}
}

// A later version's frames (more elements, longer payloads, unknown kinds) do
// no harm, and peers of two versions agree on the lower.
func TestVersionSkew(t *testing.T) { // property 17
	rapid.Check(t, func(t *rapid.T) {
		// Of three peers one is of a later version.
		later := rapid.IntRange(0, 2).Draw(t, "later")
		cfg := Config{Seed: rapid.Uint64().Draw(t, "seed")}
		cfg.Tweak = func(i int, c *gossip.Config) {
			if c.MinVersion, c.MaxVersion = gossip.MinVersion, gossip.Version; i == later {
				c.MaxVersion++
			}
		}
		cfg.Mangle = func(from, _ *Node, data []byte) []byte {
			if from.Index != later {
				return data
			}
			var f []any
			if err := msgpack.Unmarshal(data, &f); err != nil {
				t.Fatal(err)
			}
			f[3] = append(f[3].([]byte), "columns of a later version"...)
			if (f[1] == int8(2) || f[1] == int8(4)) && n2(f[2])%3 == 0 { // every third heartbeat is of a new kind
				f[1] = int8(99)
			}
			var b bytes.Buffer
			enc := msgpack.NewEncoder(&b)
			enc.UseCompactInts(true)
			if err := enc.Encode(append(f, map[string]any{"later": []int{1, 2}})); err != nil {
				t.Fatal(err)
			}
			return b.Bytes()
		}
		n := New(cfg)
		for range 3 {
			n.Add()
		}
		n.Run(3_000)
		e := n.Engine("http://r")
		for i := range 6 {
			e.Ingest(n.Nodes()[i%3], true, e.Emit(1)...)
		}
		converge(t, n, 5_000)
		for _, x := range n.Nodes() {
			s := x.Core.Stats()
			if len(s.Rejected) > 0 || (x.Index != later) != (s.Skipped > 0) {
				t.Fatalf("%s rejected %v, skipped %d", x.Name, s.Rejected, s.Skipped)
			}
			for _, p := range x.Core.Peers() {
				if p.Version != gossip.Version {
					t.Fatalf("%s speaks version %d with %s", x.Name, p.Version, p.Name)
				}
			}
		}
	})
}

func n2(v any) uint64 {
	switch v := v.(type) {
	case int8:
		return uint64(v)
	case uint8:
		return uint64(v)
	case uint16:
		return uint64(v)
	}
	return 0
}

// A peer that sends garbage loses its connections; nobody else notices.
func TestHostilePeerIsHungUpOn(t *testing.T) { // I9
	rapid.Check(t, func(t *rapid.T) {
		bad := rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "garbage")
		on := false
		n := New(Config{Seed: 4, Mangle: func(from, _ *Node, data []byte) []byte {
			if !on || from.Index != 0 || len(data) < 20 {
				return data
			}
			data = append([]byte(nil), data...)
			if len(bad) > 0 && bad[0]%2 == 0 {
				return bad
			}
			for i, b := range bad { // flips inside the payload
				data[12+i%(len(data)-12)] ^= b
			}
			return data
		}})
		for range 3 {
			n.Add()
		}
		n.Run(3_000)
		e := n.Engine("http://r")
		e.Ingest(n.Nodes()[1], true, e.Emit(2)...)
		on = true
		n.Run(3_000)
		on = false
		converge(t, n, 30_000)
		if !connected(n.Nodes()[1], n.Nodes()[2]) {
			t.Fatal("the others lost each other")
		}
	})
}

func TestStagedBytesAreBounded(t *testing.T) { // I5
	limits := gossip.Limits{StagedBytes: 300}
	n, nodes := mesh(t, 2, Config{Seed: 2, State: smallRing, Core: gossip.Config{Limits: limits, JoinBound: 5_000}})
	e := n.Engine("http://r")
	e.Calm = true
	for range 60 {
		e.Ingest(nodes[0], true, e.Emit(1)...)
		n.Run(5)
	}
	c := n.Add()
	n.RunUntil(10_000, func() bool {
		if got := c.Core.Stats().StagedBytes; got > 300 {
			t.Fatalf("%d bytes staged", got)
		}
		return false
	})
	if s := c.Core.Stats(); s.Dropped["stage"] == 0 || c.Snaps != 0 {
		t.Errorf("dropped %v, joined %d snapshots: the test is about one too large", s.Dropped, c.Snaps)
	}
	if s := c.Core.Stats(); s.Wants > 20 {
		t.Errorf("%d wants in 10 s", s.Wants)
	}
}

// Who is heard is not dead, whatever membership says: its load stays and so do
// its connections. Once it is silent too it is dropped, before silence alone
// would end its connections.
func TestAPeerThatIsHeardIsNotDead(t *testing.T) {
	n, nodes := mesh(t, 3, Config{Seed: 2})
	a, b := nodes[0], nodes[1]
	n.Run(3_000)
	id := crdt.NewStreamID("http://r", 0)
	b.State.SetLoad(id, crdt.Load{Waiting: 5})
	n.Post(b, gossip.LoadChanged{Urgent: true})
	n.Run(50)
	hangups := len(a.Hangups) + len(b.Hangups)
	n.Post(a, gossip.MemberDown{Peer: b.ID})
	n.RunUntil(20_000, func() bool {
		if got := a.State.Waiting(id); got != 5 {
			t.Fatalf("%d waiting while b is heard, want 5", got)
		}
		return false
	})
	if got := len(a.Hangups) + len(b.Hangups); got != hangups {
		t.Fatalf("hung up: %v %v", a.Hangups, b.Hangups)
	}
	n.Cut(b, a)
	if !n.RunUntil(3_700, func() bool { return a.State.Waiting(id) == 0 }) {
		t.Error("b's load is still there after 3.7 s of silence")
	}
	n.Heal()
	n.Run(10_000)
	if got := a.State.Waiting(id); got != 0 {
		t.Errorf("%d waiting at a peer that is down", got)
	}
	n.Post(a, gossip.MemberUp{Peer: b.ID})
	n.Run(8_000)
	if got := a.State.Waiting(id); got != 5 {
		t.Errorf("%d waiting after membership saw b again, want 5", got)
	}
}

// Whom membership never named and who says nothing more is forgotten whole: its
// bulk connection may never end, for what is sent there is not looked at while the
// fast one, which the acknowledgements use, does not stand.
func TestAStrangerThatIsSilentIsForgotten(t *testing.T) {
	n := New(Config{Seed: 2})
	a, b := n.AddSilent(), n.AddSilent()
	n.Post(b, gossip.MemberUp{Peer: a.ID, Name: a.Name}) // a never hears of b
	if !n.RunUntil(10_000, func() bool {
		return len(a.Core.Peers()) == 1 && a.Core.Peers()[0].Connected == [gossip.Classes]bool{true, true}
	}) {
		t.Fatalf("b did not connect: %+v", a.Core.Peers())
	}
	n.Cut(a, b)
	n.Cut(b, a)
	if !n.RunUntil(20_000, func() bool { return len(a.Core.Peers()) == 0 }) {
		t.Errorf("after 20 s of silence: %+v", a.Core.Peers())
	}
}

// A member that leaves is dropped at once, heard or not.
func TestAPeerThatLeavesIsNotWaitedFor(t *testing.T) {
	n, nodes := mesh(t, 2, Config{Seed: 2})
	a, b := nodes[0], nodes[1]
	id := crdt.NewStreamID("http://r", 0)
	b.State.SetLoad(id, crdt.Load{Waiting: 5})
	n.Post(b, gossip.LoadChanged{Urgent: true})
	n.Run(50)
	n.Post(a, gossip.MemberDown{Peer: b.ID, Left: true})
	if got := a.State.Waiting(id); got != 0 {
		t.Errorf("%d waiting at a peer that left", got)
	}
}

// What membership declared down, and what is silent, stays down until membership
// says otherwise.
func TestDownMemberIsNotTalkedTo(t *testing.T) { // I8
	n, nodes := mesh(t, 3, Config{Seed: 2}) // c goes on relaying b's load
	a, b := nodes[0], nodes[1]
	id := crdt.NewStreamID("http://r", 0)
	b.State.SetLoad(id, crdt.Load{Waiting: 5})
	n.Post(b, gossip.LoadChanged{Urgent: true})
	n.Run(50)
	if got := a.State.Waiting(id); got != 5 {
		t.Fatalf("%d waiting, want 5", got)
	}
	n.Cut(a, b)
	n.Cut(b, a)
	n.Run(3_300)
	n.Post(a, gossip.MemberDown{Peer: b.ID})
	n.Heal()
	n.RunUntil(10_000, func() bool {
		if got := a.State.Waiting(id); got != 0 {
			t.Fatalf("%d waiting at a peer that is down", got)
		}
		return false
	})
	n.Post(a, gossip.MemberUp{Peer: b.ID})
	n.Run(8_000)
	if got := a.State.Waiting(id); got != 5 {
		t.Errorf("%d waiting after the false suspicion, want 5", got)
	}
}

func TestWholeLoadTableAfterReconnect(t *testing.T) {
	n, nodes := mesh(t, 2, Config{Seed: 2})
	n.Run(11_000)
	id := crdt.NewStreamID("http://r", 0)
	n.Break(nodes[0], nodes[1])
	nodes[0].State.SetLoad(id, crdt.Load{Waiting: 5})
	n.Post(nodes[0], gossip.LoadChanged{Urgent: true})
	n.Post(nodes[1], gossip.LoadChanged{Urgent: true})
	n.Run(20)
	if got := nodes[1].State.Waiting(id); got != 5 {
		t.Errorf("%d waiting 20 ms after the connection broke, want 5", got)
	}
}

// A peer that is told of slots and cannot get them is not ready after 5 s.
func TestPeerBehindIsNotReady(t *testing.T) {
	n, nodes := mesh(t, 3, Config{Seed: 2})
	a, b := nodes[0], nodes[1]
	for _, x := range []*Node{a, nodes[2]} {
		n.Link(x, b).BytesPer = 1 // a connection that moves, slowly
	}
	e := n.Engine("http://r")
	if !n.RunUntil(60_000, func() bool {
		e.Ingest(a, true, e.Emit(1)...)
		return !b.Ready
	}) {
		t.Fatal("b is far behind, and says it is ready")
	}
	n.Heal()
	converge(t, n, 60_000)
	if !n.RunUntil(60_000, func() bool { return b.Ready }) {
		t.Fatalf("b caught up and says: %s", b.Reason)
	}
}

func TestThirdSnapshotInAMinuteIsNotReady(t *testing.T) {
	n, nodes := mesh(t, 2, Config{Seed: 2, State: smallRing})
	a, b := nodes[0], nodes[1]
	e := n.Engine("http://r")
	e.Calm = true
	for range 4 {
		n.Cut(a, b)
		n.Cut(b, a)
		n.Break(a, b)
		for range 60 {
			e.Ingest(a, true, e.Emit(1)...)
		}
		n.Run(200)
		n.Heal()
		n.RunUntil(10_000, func() bool { return difference(n) == "" })
		n.Run(100)
		if want := b.Snaps < 3; b.Ready != want {
			t.Fatalf("after %d snapshots ready is %v: %s", b.Snaps, b.Ready, b.Reason)
		}
	}
	if b.Snaps < 3 {
		t.Fatalf("%d snapshots: the test is about three", b.Snaps)
	}
	n.Run(61_000)
	if !b.Ready {
		t.Errorf("a minute later: %s", b.Reason)
	}
}
