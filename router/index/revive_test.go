package index

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/banyan-llm/banyan/crdt"
)

// TestShadowRecovery is property 23 over the tree: after a false restart, or
// two names of one incarnation, the owner revives the shadow and what it says
// brings the other peers back too, without a snapshot and without a loss.
func TestShadowRecovery(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		world := drawWorld(t)
		n := rapid.IntRange(2, 14).Draw(t, "slots")
		var slots []crdt.Slot
		for seq := 1; seq <= n; seq++ {
			slots = append(slots, drawSlot(t, uint64(seq), world, false))
		}
		cut := rapid.IntRange(1, n-1).Draw(t, "cut")
		owner, other, truth := newTestIndex(), newTestIndex(), newTestIndex()
		for _, x := range []*Index{owner, other, truth} {
			defer x.Close()
			for i := range slots {
				d := crdt.Delta{Stream: testStream, Epoch: 1000, Anchor: 1, Slots: slots[i : i+1]}
				if i >= cut && x != truth {
					d.Epoch, d.Anchor = 1500, uint64(cut)+1
				}
				x.Apply(&d, 1000)
			}
		}
		prior, _ := owner.Prior(testStream)
		if prior.Epoch != 1500 || len(prior.Shadows) != 1 || prior.Shadows[0] != 1000 {
			t.Fatalf("before: %+v", prior)
		}
		anew := rapid.Bool().Draw(t, "anew")
		want := uint64(1500)
		if anew {
			want++
		}
		d, ok := owner.Revive(testStream, 1000, anew, 1000+crdt.ShadowMs-1)
		if !ok || d.Epoch != want || len(d.Slots) != 1 || d.Slots[0].Seq != uint64(cut) {
			t.Fatalf("revived %v: %+v", ok, d)
		}
		other.Apply(&d, 2000)
		if !anew || rapid.Bool().Draw(t, "repaired") {
			// What came under the false epoch is the owner's by now; a peer that
			// has it as a shadow learns it from the ring.
			mine, _ := other.Digest(testStream)
			if missing, ok := owner.Since(testStream, &mine.Context, 1<<20); !ok {
				t.Fatalf("only a snapshot helps a peer at %+v", mine.Context)
			} else {
				other.Apply(&missing, 2000)
			}
			sameFacts(t, "the other peer", other, truth, want)
		}
		sameFacts(t, "the owner", owner, truth, want)
		sameDepths(t, owner, truth, world)
	})
}

func sameFacts(t *rapid.T, who string, x, truth *Index, epoch uint64) {
	got, _ := x.Digest(testStream)
	want, _ := truth.Digest(testStream)
	if got.Context.Epoch != epoch || got.Context.Anchor != 1 || got.Context.Floor != want.Context.Floor || got.Base != want.Base {
		t.Fatalf("%s ended at %+v, want %+v", who, got, want)
	}
}

// A shadow is given up after 60 s; what never was one cannot come back.
func TestReviveNeedsAShadow(t *testing.T) {
	x := newTestIndex()
	defer x.Close()
	if _, ok := x.Revive(testStream, 1, true, 0); ok {
		t.Error("a stream nobody knows came back")
	}
	give(x, 0, chainSlot(t, 1, 0, 4))
	if _, ok := x.Revive(testStream, 77, false, 0); ok {
		t.Error("an epoch that never was came back")
	}
	second := chainSlot(t, 1, 0, 2)
	second.TS += 5
	prior, _ := x.Prior(testStream)
	x.Apply(&crdt.Delta{Stream: testStream, Epoch: prior.Epoch + 10, Anchor: 1, Slots: []crdt.Slot{second}}, 0)
	x.Maintain(crdt.ShadowMs, 1<<20)
	if _, ok := x.Revive(testStream, prior.Epoch, true, crdt.ShadowMs); ok {
		t.Error("a shadow outlived its minute")
	}
}
