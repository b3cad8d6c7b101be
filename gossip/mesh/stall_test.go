package mesh

import (
	"maps"
	"testing"
	"time"

	"github.com/banyan-llm/banyan/gossip"
)

// A peer that stops reading costs the others what is configured and no more,
// however much they tell meanwhile; it shows in what the core tells of its
// peers. When it reads again it catches up, here by snapshot: the ring is past.
func TestAStalledPeerIsBoundedAndCatchesUp(t *testing.T) {
	t.Parallel()
	const ringBytes, unacked, frame = 64 << 10, 96 << 10, 8 << 10
	limits := gossip.Limits{UnackedBytes: unacked, BurstBytes: unacked / 2, SlotsBytes: frame}
	c := newCable()
	var nodes []*full
	for i, name := range []string{"a", "b", "stalled"} {
		cfg := config(name)
		cfg.Timing.Stall = time.Hour
		cfg.wire = c.wire(i == 2)
		cfg.wire.drops = func(string) bool { return false } // membership sees it alive
		if i > 0 {
			cfg.Join = []string{nodes[0].Addr()}
		}
		n := startLimited(t, ringBytes, limits, cfg)
		c.place(n.Addr(), i == 2)
		nodes = append(nodes, n)
	}
	a, b, stalled := nodes[0], nodes[1], nodes[2]
	whole(t, a.node, b.node, stalled.node)
	c.cut()
	most, last := 0, uint64(0)
	check := func() {
		var p gossip.PeerInfo
		if err := a.Do(t.Context(), func() {
			for _, x := range a.cfg.Core.(*gossip.Core).Peers() {
				if x.ID == stalled.id {
					p = x
				}
			}
		}); err != nil {
			t.Fatal(err)
		}
		most = max(most, p.Unacked)
		if p.Unacked > unacked+2*frame {
			t.Fatalf("%d bytes are unacknowledged, the limit is %d", p.Unacked, unacked)
		}
		if p.Owed > 1 {
			t.Fatalf("%d streams are owed, there is one", p.Owed)
		}
		queued := 0
		for _, l := range a.standing() {
			queued += l.out.queued()
		}
		if queued > 2*(unacked+2*frame) { // one peer reads, one does not
			t.Fatalf("%d bytes are queued", queued)
		}
	}
	// Some 2 MB, 32 times the ring and 20 times the window.
	for range 100 {
		a.ingest(t, last+1, 20)
		last += 20
		check()
		eventually(t, "b keeps up", func() bool { return floorOf(t, b) == last })
	}
	check()
	if most < unacked/2 {
		t.Errorf("at most %d bytes were unacknowledged: the peer was not stalled", most)
	}
	if floorOf(t, stalled) == last {
		t.Error("the stalled peer kept up")
	}
	c.heal()
	want := a.facts(t)
	eventually(t, "the stalled peer knows all", func() bool {
		return floorOf(t, stalled) == last && maps.Equal(stalled.facts(t), want) // a look at all facts takes its time
	})
	joined := 0
	if err := stalled.Do(t.Context(), func() { joined = stalled.joined }); err != nil || joined == 0 {
		t.Errorf("it joined %d snapshots, %v", joined, err)
	}
	a.ingest(t, last+1, 1)
	eventually(t, "it follows", func() bool { return floorOf(t, stalled) == last+1 })
}

// floorOf is how far a peer has folded the replica's stream.
func floorOf(t *testing.T, f *full) (floor uint64) {
	t.Helper()
	if err := f.Do(t.Context(), func() {
		if d, ok := f.state.Digest(replica); ok {
			floor = d.Context.Floor
		}
	}); err != nil {
		t.Fatal(err)
	}
	return floor
}
