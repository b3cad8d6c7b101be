package index

import (
	"testing"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/radix"
)

// clearingSlot is a batch that clears the cache and stores n blocks then.
func clearingSlot(t testing.TB, seq uint64, n int) crdt.Slot {
	t.Helper()
	var b crdt.Builder
	b.Clear()
	handles, hashes := make([]uint64, n), make([]uint64, n)
	for i := range handles {
		handles[i], hashes[i] = seq<<20|uint64(i+1), uint64(i+1)
	}
	if n > 0 {
		b.Store(crdt.Op{Main: true, PerPage: 1, Root: uint64(testRoot)}, handles, hashes)
	}
	s, err := b.Slot(seq, int64(seq))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestClearsTakeNoHolders sends an engine's clears by the ten thousand, empty
// ones and with blocks between, and looks at what a match must look at.
func TestClearsTakeNoHolders(t *testing.T) {
	for name, blocks := range map[string]int{"empty": 0, "few blocks": 3, "more than a clear drops at once": clearNow + 1} {
		t.Run(name, func(t *testing.T) {
			x := newTestIndex()
			defer x.Close()
			clears := 70_000 // more than there are holders
			if blocks > clearNow {
				clears = 2 * maxDropping
			}
			most, seq := 0, uint64(0)
			for seq < uint64(clears) {
				d := crdt.Delta{Stream: testStream, Epoch: 5, Anchor: 1}
				for range min(500, 1+500/(blocks+1)) {
					seq++
					d.Slots = append(d.Slots, clearingSlot(t, seq, blocks))
				}
				if out := x.Apply(&d, 1000); out.Invalid > 0 || out.Floor != seq {
					t.Fatalf("%+v", out)
				}
				most = max(most, x.tree.Stats().Holders)
			}
			limit := 1
			if blocks > clearNow {
				limit = maxDropping + 3
			}
			if most > limit {
				t.Errorf("%d holders at most, want %d", most, limit)
			}
			for x.Maintain(1000, 1<<20) {
			}
			if st := x.tree.Stats(); st.Holders != 1 || st.Facts != blocks {
				t.Errorf("%d holders with %d facts are left", st.Holders, st.Facts)
			}
		})
	}
}

// TestTheTreeTakesEveryPage of a slot: what crdt lets in radix can hold.
func TestTheTreeTakesEveryPage(t *testing.T) {
	if crdt.MaxPerPage > radix.MaxPerPage {
		t.Fatalf("pages of %d blocks come in and %d fit", crdt.MaxPerPage, radix.MaxPerPage)
	}
}
