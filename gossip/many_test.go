package gossip_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/gossip"
)

// many starts k peers and waits until all see each other.
func many(t testing.TB, k int, cfg Config) *Net {
	t.Helper()
	n := New(cfg)
	for range k {
		n.Add()
	}
	if !n.RunUntil(20_000, func() bool { return met(n) }) {
		t.Fatalf("%d peers have not met", k)
	}
	return n
}

// met reports whether every live peer has both connections to every other.
func met(n *Net) bool {
	for _, x := range n.Live() {
		peers := x.Core.Peers()
		if len(peers) != len(n.Live())-1 {
			return false
		}
		for _, p := range peers {
			if p.Connected != [gossip.Classes]bool{true, true} {
				return false
			}
		}
	}
	return true
}

// spoken is what all peers sent so far.
func spoken(n *Net) (sum gossip.Traffic) {
	for _, x := range n.Nodes() {
		for _, k := range x.Core.Stats().Sent {
			sum.Frames += k.Frames
			sum.Bytes += k.Bytes
		}
	}
	return sum
}

// oldest is the largest view age, ms.
func oldest(n *Net) (ms int64) {
	for _, x := range n.Live() {
		for _, p := range x.Core.Peers() {
			ms = max(ms, p.ViewAge)
		}
	}
	return ms
}

// At rest a peer of a large mesh sends no more than one of 16, and nobody takes
// another for silent.
func TestLargeMeshAtRestSpeaksLikeASmallOne(t *testing.T) {
	const k = 48
	n := many(t, k, Config{Seed: 3})
	n.Run(5_000)
	before := spoken(n)
	for range 20 {
		n.Run(100)
		if age := oldest(n); age > 250 {
			t.Fatalf("at rest a view is %d ms old", age)
		}
	}
	after := spoken(n)
	if got := float64(after.Frames-before.Frames) / 2 / k; got > 90 {
		t.Errorf("%.0f frames a second and peer", got)
	}
	if got := float64(after.Bytes-before.Bytes+4*(after.Frames-before.Frames)) / 2 / k; got > 2_400 {
		t.Errorf("%.0f bytes a second and peer", got)
	}
}

// Silence beyond what a peer announced is its view age, in a large mesh too.
func TestSilenceInALargeMeshIsSeen(t *testing.T) {
	n := many(t, 40, Config{Seed: 4})
	n.Run(3_000)
	a, b := n.Nodes()[0], n.Nodes()[1]
	age := func() int64 {
		for _, p := range b.Core.Peers() {
			if p.ID == a.ID {
				return p.ViewAge
			}
		}
		return -1
	}
	id := crdt.NewStreamID("http://r", 0)
	n.Cut(a, b)
	n.Run(4_000)
	if got := age(); got < 3_000 || got > 4_100 {
		t.Errorf("after 4 s of silence the view is %d ms old", got)
	}
	a.State.SetLoad(id, crdt.Load{Waiting: 3})
	n.Post(a, gossip.LoadChanged{Urgent: true})
	if !n.RunUntil(8_000, func() bool { return b.State.Waiting(id) == 3 }) {
		t.Error("what a peer that is not heard does is not asked of the others")
	}
	n.Heal()
	n.Run(1_000)
	if got := age(); got > 250 {
		t.Errorf("view age %d ms after the link healed", got)
	}
}

// Dispatches of a large mesh are packed so that a peer sends as many frames as
// one of 16; the first one after a while goes at once.
func TestDispatchesOfALargeMeshArePacked(t *testing.T) {
	n := many(t, 40, Config{Seed: 5}) // 39 others: 3 ms
	n.Run(2_000)
	a, b := n.Nodes()[0], n.Nodes()[1]
	id := crdt.NewStreamID("http://r", 0)
	dispatch := func(i int32) {
		a.State.SetLoad(id, crdt.Load{Waiting: i})
		n.Post(a, gossip.LoadChanged{Urgent: true})
	}
	dispatch(1)
	n.Run(1)
	if got := b.State.Waiting(id); got != 1 {
		t.Errorf("1 ms after a dispatch the other peer sees %d waiting, want 1", got)
	}
	before := sent(n, "load").Frames
	for i := range int32(60) {
		n.Run(1)
		dispatch(i)
	}
	if got := (sent(n, "load").Frames - before) / 39; got < 15 || got > 21 {
		t.Errorf("%d load frames to each in 60 ms, want 20", got)
	}
	n.Run(5)
	if got := b.State.Waiting(id); got != 59 {
		t.Errorf("5 ms after the last dispatch the other peer sees %d waiting, want 59", got)
	}
}

// BenchmarkManyPeers is meshes of many in the pure core: meet-ms until all see
// each other; at rest frames and bytes (with their lengths) a second and peer;
// with 20 dispatches a second at every peer, each with its first token and its
// end, frames a second and peer and the p99 age of what is unseen.
func BenchmarkManyPeers(b *testing.B) {
	for _, k := range []int{8, 16, 32, 64, 128} {
		b.Run(fmt.Sprintf("peers=%d", k), func(b *testing.B) {
			for b.Loop() {
				manyPeers(b, k)
			}
		})
	}
}

func manyPeers(b *testing.B, k int) {
	n := New(Config{Seed: 7, JitterMs: 2})
	for range k {
		n.Add()
	}
	began := n.Now()
	if !n.RunUntil(60_000, func() bool { return met(n) }) {
		b.Fatal("not met")
	}
	b.ReportMetric(float64(n.Now()-began), "meet-ms")
	n.Run(10_000)
	rate := func(what string, ms int64, do func()) {
		before := spoken(n)
		do()
		after := spoken(n)
		frames, bytes := after.Frames-before.Frames, after.Bytes-before.Bytes
		perPeer := 1000 / float64(ms) / float64(k)
		b.ReportMetric(float64(frames)*perPeer, what+"-frames/s")
		b.ReportMetric(float64(bytes+4*frames)*perPeer, what+"-B/s")
	}
	rate("rest", 10_000, func() { n.Run(10_000) })
	var ages []int64
	id := crdt.NewStreamID("http://r", 0)
	told := make(map[crdt.PeerID][]int32) // when each peer's register changed
	rate("busy", 1_000, func() {
		for ms := range int32(1_000) {
			for i, x := range n.Nodes() {
				at := (int(ms) + 7*i) % 50
				if at == 0 || at == 17 || at == 33 {
					x.State.SetLoad(id, crdt.Load{Waiting: ms})
					told[x.ID] = append(told[x.ID], ms)
					n.Post(x, gossip.LoadChanged{Urgent: at == 0})
				}
			}
			n.Run(1)
			if ms%7 == 0 && ms > 100 {
				ages = append(ages, unseen(n.Nodes()[int(ms)%k], told, ms)...)
			}
		}
	})
	slices.Sort(ages)
	b.ReportMetric(float64(ages[len(ages)*99/100]), "age-p99-ms")
}

// unseen is for each other peer the age of its oldest change that x has not
// seen, ms.
func unseen(x *Node, told map[crdt.PeerID][]int32, now int32) (ages []int64) {
	for _, l := range x.State.AllLoads(nil) {
		if l.Peer == x.ID || len(l.Loads) == 0 {
			continue
		}
		at, seen := told[l.Peer], l.Loads[0].Load.Waiting
		i, _ := slices.BinarySearch(at, seen+1)
		age := int64(0)
		if i < len(at) {
			age = int64(now - at[i])
		}
		ages = append(ages, age)
	}
	return ages
}

// Everybody's vitals change every second and reach everybody, at a cost that
// does not grow with the peers.
func TestVitalsGoRound(t *testing.T) {
	for _, k := range []int{3, 32} {
		n := many(t, k, Config{Seed: 5})
		tell := func() {
			for _, x := range n.Live() {
				v := crdt.Vitals{Version: uint64(n.Now()), Name: x.Name, HTTP: "127.0.0.1:8080", Build: "v0"}
				x.State.JoinVitals(map[crdt.PeerID]crdt.Vitals{x.ID: v})
			}
		}
		digests := func() (bytes uint64) {
			for _, x := range n.Live() {
				bytes += x.Core.Stats().Sent["digest"].Bytes
			}
			return bytes
		}
		const seconds = 60
		var before uint64
		for s := range 2 * seconds {
			if s == seconds {
				before = digests()
			}
			tell()
			n.Run(1_000)
		}
		var ages []int64
		for _, x := range n.Live() {
			for _, y := range n.Live() {
				ages = append(ages, n.Now()-int64(x.State.Vitals()[y.ID].Version))
			}
		}
		slices.Sort(ages)
		if age := ages[len(ages)*9/10]; age > 2_000+int64(k)*1_000 {
			t.Errorf("%d peers: of one in ten what is known is over %d ms old", k, age)
		}
		if got := (digests() - before) / seconds / uint64(k); got > 700 {
			t.Errorf("%d peers: %d bytes of digests a second and peer", k, got)
		}
	}
}
