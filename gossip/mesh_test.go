package gossip_test

import (
	"fmt"
	"hash/fnv"
	"reflect"
	"testing"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/gossip"
	"pgregory.net/rapid"
)

// mesh starts k peers and waits until all are ready.
func mesh(t testing.TB, k int, cfg Config) (*Net, []*Node) {
	t.Helper()
	n := New(cfg)
	for range k {
		n.Add()
	}
	if !n.RunUntil(10_000, func() bool { return allReady(n) }) {
		t.Fatalf("not ready: %s", reasons(n))
	}
	return n, n.Nodes()
}

func allReady(n *Net) bool {
	for _, x := range n.Live() {
		if !x.Ready {
			return false
		}
	}
	return true
}

func reasons(n *Net) (s string) {
	for _, x := range n.Live() {
		s += fmt.Sprintf("%s %v %q; ", x.Name, x.Ready, x.Reason)
	}
	return s
}

// difference names the first thing in which two live peers differ; "" if all
// contexts, sums and facts are equal.
func difference(n *Net) string {
	live := n.Live()
	a := live[0]
	for _, b := range live[1:] {
		ids := a.State.Streams(nil)
		if other := b.State.Streams(nil); !reflect.DeepEqual(ids, other) {
			return fmt.Sprintf("%s has streams %v, %s %v", a.Name, ids, b.Name, other)
		}
		for _, id := range ids {
			da, _ := a.State.Digest(id)
			db, _ := b.State.Digest(id)
			da.Context.LastTS, db.Context.LastTS = 0, 0
			if fa, fb := fmt.Sprintf("%v", da), fmt.Sprintf("%v", db); fa != fb {
				return fmt.Sprintf("%s: %s has %s, %s %s", id, a.Name, fa, b.Name, fb)
			}
			if fa, fb := a.State.Facts(id), b.State.Facts(id); !reflect.DeepEqual(fa, fb) {
				return fmt.Sprintf("%s: %s has facts %v, %s %v", id, a.Name, fa, b.Name, fb)
			}
		}
	}
	return ""
}

func converge(t rapid.TB, n *Net, ms int64) {
	t.Helper()
	if !n.RunUntil(ms, func() bool { return difference(n) == "" }) {
		t.Fatalf("not converged after %d ms: %s", ms, difference(n))
	}
	for _, x := range n.Live() {
		if d := x.Core.Stats().Divergent; d != 0 {
			t.Fatalf("%s holds %d streams for divergent", x.Name, d)
		}
	}
}

func TestPushReachesAllWithinOneHop(t *testing.T) {
	n, nodes := mesh(t, 4, Config{Seed: 1, DelayMs: 3})
	e := n.Engine("http://r")
	e.Ingest(nodes[2], true, e.Emit(5)...)
	n.Run(3)
	if d := difference(n); d != "" {
		t.Error(d)
	}
	for _, x := range nodes {
		if x != nodes[2] && (len(x.Observed) != 1 || x.Observed[0] > 5) {
			t.Errorf("%s observed %v ms", x.Name, x.Observed)
		}
	}
}

func TestSecondOwnerSendsOnlyWhatTheFirstDidNot(t *testing.T) {
	n, nodes := mesh(t, 3, Config{Seed: 1})
	a, b, c := nodes[0], nodes[1], nodes[2]
	e := n.Engine("http://r")
	e.Calm = true
	slots := e.Emit(4)
	e.Ingest(b, false, slots...) // the second is faster
	n.Run(10)
	e.Ingest(a, true, slots[:3]...) // the first misses the last
	n.Run(30)
	if got := b.Core.Stats().Pushed; got != 0 {
		t.Errorf("the second owner sent %d runs before 50 ms passed", got)
	}
	n.Run(20)
	if d := difference(n); d != "" {
		t.Errorf("after 60 ms: %s", d)
	}
	if got := c.Core.Stats(); got.Applied != 4 || got.Known != 0 {
		t.Errorf("c got %d new slots and %d twice, want 4 and none", got.Applied, got.Known)
	}
}

func TestQuiescentMeshSendsNoSlots(t *testing.T) { // I4, property NoEcho
	rapid.Check(t, func(t *rapid.T) {
		k := rapid.IntRange(2, 5).Draw(t, "peers")
		n := New(Config{Seed: rapid.Uint64().Draw(t, "seed"), JitterMs: 3})
		for range k {
			n.Add()
		}
		n.Run(5_000)
		e := n.Engine("http://r")
		slots, bytes := 0, 0
		for range rapid.IntRange(1, 20).Draw(t, "batches") {
			batch := e.Emit(rapid.IntRange(1, 4).Draw(t, "size"))
			for _, s := range batch {
				bytes += len(s.Body)
			}
			slots += len(batch)
			first := rapid.IntRange(0, k-1).Draw(t, "first")
			e.Ingest(n.Nodes()[first], true, batch...)
			e.Ingest(n.Nodes()[(first+1)%k], false, batch...)
			n.Run(rapid.Int64Range(0, 100).Draw(t, "pause"))
		}
		n.Nodes()[0].State.SetIntent(e.Stream, crdt.Intent{Time: n.Now(), Drain: true, Weight: 1})
		n.Post(n.Nodes()[0], gossip.IntentChanged{})
		converge(t, n, 3_000)
		n.Run(2_000)
		before := sent(n, "slots")
		if max := uint64(k*(bytes+slots*160) + 2_000); before.Bytes > max {
			t.Fatalf("%d bytes of slots for %d bytes in %d slots at %d peers, want at most %d", before.Bytes, bytes, slots, k, max)
		}
		quiet := map[string]gossip.Traffic{}
		for _, kind := range []string{"slots", "want", "snapshot", "predict", "intent"} {
			quiet[kind] = sent(n, kind)
		}
		n.Run(10_000)
		for kind, was := range quiet {
			if now := sent(n, kind); now != was {
				t.Fatalf("a quiescent mesh sent %d %s frames", now.Frames-was.Frames, kind)
			}
		}
	})
}

// sent adds up what all peers sent of one kind.
func sent(n *Net, kind string) (sum gossip.Traffic) {
	for _, x := range n.Nodes() {
		for _, p := range x.Core.Peers() {
			t := p.Out.ByName()[kind]
			sum.Frames += t.Frames
			sum.Bytes += t.Bytes
		}
	}
	return sum
}

func TestDeterminism(t *testing.T) { // I1
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		run := func() uint64 {
			h := fnv.New64a()
			n := New(Config{Seed: seed, JitterMs: 4, Trace: func(at int64, x *Node, what string) {
				fmt.Fprintln(h, at, x.Name, what)
			}})
			chaos(n, seed, 4, 5_000)
			n.Run(5_000)
			return h.Sum64()
		}
		if a, b := run(), run(); a != b {
			t.Fatalf("two runs of seed %d differ", seed)
		}
	})
}

// The link between a and b is broken, both are alive to all others: slots and
// loads of a reach b through the digest round.
func TestNonTransitiveLink(t *testing.T) {
	n, nodes := mesh(t, 3, Config{Seed: 5})
	a, b := nodes[0], nodes[1]
	n.Cut(a, b)
	n.Cut(b, a)
	e := n.Engine("http://r")
	a.State.SetLoad(e.Stream, crdt.Load{Waiting: 3})
	n.Post(a, gossip.LoadChanged{Urgent: true})
	e.Ingest(a, true, e.Emit(3)...)
	converge(t, n, 8_000)
	if !n.RunUntil(8_000, func() bool { return b.State.Waiting(e.Stream) == 3 }) {
		t.Errorf("b sees %d waiting requests, want 3", b.State.Waiting(e.Stream))
	}
	b.State.SetIntent(e.Stream, crdt.Intent{Time: n.Now(), Drain: true})
	n.Post(b, gossip.IntentChanged{})
	n.Run(100)
	if !a.State.Intents()[e.Stream].Drain {
		t.Error("an operator's word did not cross the broken link by way of c")
	}
}

func TestLoadsConvergeAndLeaveExactly(t *testing.T) { // I8, properties Cleanup and 26
	rapid.Check(t, func(t *rapid.T) {
		k := rapid.IntRange(2, 5).Draw(t, "peers")
		n := New(Config{Seed: rapid.Uint64().Draw(t, "seed"), JitterMs: 3})
		for range k {
			n.Add()
		}
		n.Run(3_000)
		id := crdt.NewStreamID("http://r", 0)
		for range rapid.IntRange(1, 30).Draw(t, "changes") {
			x := rapid.SampledFrom(n.Live()).Draw(t, "who")
			x.State.SetLoad(id, crdt.Load{Waiting: rapid.Int32Range(0, 9).Draw(t, "waiting")})
			n.Post(x, gossip.LoadChanged{Urgent: rapid.Bool().Draw(t, "urgent")})
			switch rapid.IntRange(0, 12).Draw(t, "fault") {
			case 0:
				n.Break(x, rapid.SampledFrom(n.Live()).Draw(t, "other"))
			case 1:
				if len(n.Live()) > 2 {
					n.Kill(x)
				}
			case 2: // false suspicion: everybody forgets x, then hears of it again
				for _, y := range n.Live() {
					if y != x {
						n.Post(y, gossip.MemberDown{Peer: x.ID})
					}
				}
				for _, y := range n.Live() {
					if y != x {
						n.Post(y, gossip.MemberUp{Peer: x.ID, Name: x.Name})
					}
				}
			}
			n.Run(rapid.Int64Range(0, 300).Draw(t, "pause"))
		}
		want := func() (sum int32) {
			for _, x := range n.Live() {
				sum += x.State.OwnLoad(id).Waiting
			}
			return sum
		}
		wrong := func() string {
			for _, x := range n.Live() {
				if got := x.State.Waiting(id); got != want() {
					return fmt.Sprintf("%s sees %d waiting, want %d", x.Name, got, want())
				}
			}
			return ""
		}
		n.RunUntil(20_000, func() bool { return wrong() == "" })
		n.Run(10_000) // late frames and relayed tables change nothing any more
		if w := wrong(); w != "" {
			t.Fatal(w)
		}
	})
}

func TestUrgentLoadIsThereOneMillisecondLater(t *testing.T) {
	n, nodes := mesh(t, 2, Config{Seed: 1, DelayMs: 2})
	id := crdt.NewStreamID("http://r", 0)
	for i := range int32(50) {
		nodes[0].State.SetLoad(id, crdt.Load{Waiting: i})
		n.Post(nodes[0], gossip.LoadChanged{Urgent: true})
	}
	n.Run(3)
	if got := nodes[1].State.Waiting(id); got != 49 {
		t.Errorf("3 ms after the dispatch the other peer sees %d waiting, want 49", got)
	}
	if got := sent(n, "load").Frames; got > 60 {
		t.Errorf("50 dispatches in one ms took %d load frames, want them coalesced", got)
	}
}

func TestViewAgeFollowsSilenceAndIgnoresClocks(t *testing.T) {
	n, nodes := mesh(t, 2, Config{Seed: 1})
	a, b := nodes[0], nodes[1]
	n.Run(1_000)
	if age := b.Core.Peers()[0].ViewAge; age > 250 {
		t.Errorf("view age %d ms with heartbeats every 200", age)
	}
	n.Cut(a, b)
	n.Run(3_000)
	if age := b.Core.Peers()[0].ViewAge; age < 2_900 || age > 3_300 {
		t.Errorf("view age %d ms after 3 s of silence", age)
	}
	n.Heal()
	n.Run(1_000)
	if age := b.Core.Peers()[0].ViewAge; age > 250 {
		t.Errorf("view age %d ms after the link healed", age)
	}
}

func TestPredictionsConverge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := rapid.IntRange(2, 4).Draw(t, "peers")
		n := New(Config{Seed: rapid.Uint64().Draw(t, "seed"), JitterMs: 3})
		for range k {
			n.Add()
		}
		n.Run(3_000)
		space := crdt.PredictionSpace{Replica: crdt.NewStreamID("http://r", 0), Root: 7}
		for range rapid.IntRange(1, 20).Draw(t, "predictions") {
			x := rapid.SampledFrom(n.Nodes()).Draw(t, "who")
			if rapid.IntRange(0, 3).Draw(t, "fault") == 0 {
				n.Break(x, rapid.SampledFrom(n.Nodes()).Draw(t, "other"))
			}
			x.State.Predict(crdt.Prediction{Space: space, Time: n.Now(), TTL: 300_000, Keys: rapid.SliceOfN(rapid.Uint64Range(1, 30), 1, 5).Draw(t, "keys")})
			n.Post(x, gossip.Predicted{})
			n.Run(rapid.Int64Range(0, 2_000).Draw(t, "pause"))
		}
		n.Run(40_000) // the bucket closes, and some digest rounds
		for _, x := range n.Nodes()[1:] {
			a, b := n.Nodes()[0].State.PredictionSums(n.Now()), x.State.PredictionSums(n.Now())
			if !reflect.DeepEqual(a, b) {
				t.Fatalf("a has %v, %s %v", a, x.Name, b)
			}
		}
	})
}
