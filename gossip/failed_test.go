package gossip_test

import (
	"testing"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/gossip"
)

// A member that failed may live behind a cut and hold what nobody else has: it is
// waited for, for 30 s, before slots are called missing. One that said goodbye is
// not, and one that fails meanwhile makes the wait no longer.
func TestAFailedMemberMayHoldWhatIsMissing(t *testing.T) {
	const failedMs = 30_000
	for _, c := range []struct {
		name           string
		left           bool  // c said goodbye
		againMs        int64 // b fails too, that long after c; 0: it does not
		backMs         int64 // c is back, that long after it failed; 0: it is not
		earliest, late int64 // when slots are called missing; 0: never
	}{
		{name: "it is back in time", backMs: 25_000},
		{name: "it does not come back", earliest: failedMs, late: failedMs + 2_000},
		{name: "another one fails while it is waited for", againMs: 20_000, earliest: failedMs, late: failedMs + 2_000},
		{name: "it left", left: true, earliest: 1, late: 2_000},
	} {
		t.Run(c.name, func(t *testing.T) {
			n, nodes := mesh(t, 3, Config{Seed: 3})
			x, y, z := nodes[0], nodes[1], nodes[2]
			e := n.Engine("http://r")
			slots := e.Emit(3)
			n.Cut(x, z)
			n.Cut(z, x)
			n.Cut(y, z)
			n.Cut(z, y)
			n.Run(3_300) // it is not heard any more
			down := n.Now()
			n.Post(x, gossip.MemberDown{Peer: z.ID, Left: c.left})
			n.Post(y, gossip.MemberDown{Peer: z.ID, Left: c.left})
			z.State.Apply(&crdt.Delta{Stream: e.Stream, Epoch: e.Epoch, Anchor: 1, Slots: slots[1:2]}, n.Now())
			e.Ingest(x, true, slots[0], slots[2])
			if c.backMs > 0 {
				n.Run(c.backMs)
				n.Heal()
				for _, p := range []*Node{x, y} {
					n.Post(p, gossip.MemberUp{Peer: z.ID, Name: z.Name})
					n.Post(z, gossip.MemberUp{Peer: p.ID, Name: p.Name})
				}
				converge(t, n, 20_000)
			} else if c.againMs > 0 {
				n.Run(c.againMs)
				n.Kill(y) // membership tells 2 s later
			}
			missing := func() bool { return len(x.Missing) > 0 }
			if c.late == 0 {
				if n.Run(60_000); missing() {
					t.Fatalf("%v is called missing, and z had it", x.Missing)
				}
				return
			}
			n.RunUntil(down+c.earliest-1-n.Now(), missing)
			if missing() {
				t.Fatalf("called missing after %d ms", n.Now()-down)
			}
			if !n.RunUntil(down+c.late-n.Now(), missing) {
				t.Errorf("not called missing within %d ms", c.late)
			}
		})
	}
}
