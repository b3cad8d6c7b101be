package index

import (
	"testing"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/radix"
)

// boundedIndex may hold so many facts a stream and so many bytes.
func boundedIndex(t *testing.T, facts int, memory int64) *Index {
	t.Helper()
	x := New(Config{
		Hasher: radix.NewHasher([]byte("test secret 0123")), RingBytes: 1 << 20, Memory: memory,
		Facts: func(crdt.StreamID) int { return facts },
	})
	t.Cleanup(x.Close)
	return x
}

// grow stores n blocks more of a stream, as its batch seq.
func grow(t *testing.T, x *Index, id crdt.StreamID, epoch, seq uint64, n int, nowMs int64) crdt.Outcome {
	t.Helper()
	var b crdt.Builder
	handles, hashes := make([]uint64, n), make([]uint64, n)
	for i := range handles {
		handles[i], hashes[i] = seq<<32|uint64(i+1), crdt.KeyHash(seq, uint64(i+1))|1
	}
	b.Store(crdt.Op{Main: true, PerPage: 1, Root: uint64(testRoot)}, handles, hashes)
	s, err := b.Slot(seq, int64(seq))
	if err != nil {
		t.Fatal(err)
	}
	return x.Apply(&crdt.Delta{Stream: id, Epoch: epoch, Anchor: 1, Slots: []crdt.Slot{s}}, nowMs)
}

func count(x *Index, id crdt.StreamID) int {
	d, _ := x.Digest(id)
	return int(d.Base.Count)
}

// TestAStreamThatDoesNotFitIsLeftAlone: an engine announces more blocks than it
// can hold, and its stream is back after a clear, a restart, or a while.
func TestAStreamThatDoesNotFitIsLeftAlone(t *testing.T) {
	const most = fewFacts + 1000
	for name, back := range map[string]func(t *testing.T, x *Index){
		"a clear": func(t *testing.T, x *Index) {
			x.Apply(&crdt.Delta{Stream: testStream, Epoch: 5, Anchor: 1, Slots: []crdt.Slot{clearingSlot(t, 3, 3)}}, 2000)
			if d, _ := x.Digest(testStream); d.Context.Floor != 3 || len(d.Context.Voids) > 0 {
				t.Errorf("%+v", d)
			}
		},
		"a restart": func(t *testing.T, x *Index) { grow(t, x, testStream, 6, 1, 3, 2000) },
		"a while":   func(t *testing.T, x *Index) { grow(t, x, testStream, 5, 3, 3, 1000+fullMs) },
	} {
		t.Run(name, func(t *testing.T) {
			x := boundedIndex(t, most, 0)
			grow(t, x, "other", 5, 1, 10, 1000)
			if out := grow(t, x, testStream, 5, 1, most, 1000); out.Full || count(x, testStream) != most {
				t.Fatalf("%+v, %d facts, want %d", out, count(x, testStream), most)
			}
			if !x.Ref(testStream).EventFed(1000) {
				t.Fatal("not fed by events")
			}
			out := grow(t, x, testStream, 5, 2, 1, 1000)
			f, ok := x.Full(testStream)
			if !out.Full || out.NewSlots > 0 || !ok || f.Bound != BoundFacts || f.Facts != most+1 || count(x, testStream) > 0 {
				t.Fatalf("%+v, %+v, %v, %d facts", out, f, ok, count(x, testStream))
			}
			if x.Ref(testStream).EventFed(1000) {
				t.Error("predictions of it end as if events came")
			}
			if out := grow(t, x, testStream, 5, 3, 1, 1500); !out.Full || count(x, testStream) > 0 {
				t.Errorf("taken again at once: %+v", out)
			}
			if x.Fits(testStream, &crdt.Digest{Context: crdt.Context{Epoch: 5}, Base: crdt.Sum{Count: 3}}, 1500) {
				t.Error("pulled again at once")
			}
			back(t, x)
			if n := count(x, testStream) + len(x.Holes(testStream)); n < 1 {
				t.Errorf("it did not come back: %d", n)
			}
			if st := x.Stats(); st.Full != 0 || st.GivenUp[BoundFacts] != 1 || count(x, "other") != 10 {
				t.Errorf("%+v", st)
			}
		})
	}
}

// TestASnapshotThatDoesNotFitIsNotLoaded, nor asked for.
func TestASnapshotThatDoesNotFitIsNotLoaded(t *testing.T) {
	from, to := boundedIndex(t, 0, 0), boundedIndex(t, fewFacts+5, 0)
	grow(t, from, testStream, 5, 1, fewFacts+6, 1000)
	d, _ := from.Digest(testStream)
	snap := from.Cut(testStream)
	if to.Fits(testStream, &d, 1000) || to.Join(snap, 1000) == nil || count(to, testStream) > 0 {
		t.Errorf("%d facts are loaded", count(to, testStream))
	}
	snap.Base.Count = 1 // a lie
	if err := to.Join(snap, 1000); err == nil || to.tree.Stats().Facts > 0 {
		t.Errorf("%v, %d facts in the tree", err, to.tree.Stats().Facts)
	}
}

// TestMemoryIsBounded lets one engine of three announce without end: predictions
// go first, then that stream, and the others stay.
func TestMemoryIsBounded(t *testing.T) {
	const limit = 24 << 20
	x := boundedIndex(t, 0, limit)
	grow(t, x, "a", 5, 1, 20_000, 1000)
	grow(t, x, "b", 5, 1, 20_000, 1000)
	for x.Maintain(100_000, 4096) { // measured: a and b do not grow
	}
	for i := range uint64(20) {
		keys := make([]radix.Key, 100)
		for j := range keys {
			keys[j] = radix.Key(i*1000 + uint64(j) + 1)
		}
		x.Predict("a", &Chain{Root: radix.Key(i + 1), Keys: keys}, 100_000)
	}
	most, predicted := int64(0), true
	for seq := uint64(1); seq <= 400; seq++ {
		grow(t, x, "greedy", 5, seq, 2_000, 100_000)
		st := x.Stats()
		most = max(most, st.Used)
		if st.GivenUp[BoundMemory] > 0 && st.Predicted > 0 && predicted {
			t.Error("a stream went before predictions")
		}
		if predicted = predicted && st.Full == 0; st.Full > 0 {
			grow(t, x, "a", 5, 2, 1, 100_000) // while the greedy one is being cleared
		}
	}
	st := x.Stats()
	if _, ok := x.Full("greedy"); !ok || count(x, "a") != 20_001 || count(x, "b") != 20_000 || st.Predicted > 0 {
		t.Errorf("greedy given up %v, a has %d, b %d, %d predicted", ok, count(x, "a"), count(x, "b"), st.Predicted)
	}
	if most > limit+limit/8 {
		t.Errorf("%d bytes at most, limit %d", most, limit)
	}
	for x.Maintain(100_000, 4096) {
	}
	if u := x.Stats().Used; u > limit/2 {
		t.Errorf("%d bytes are used after the stream went", u)
	}
}

// TestTheStreamThatGrewGoes, not a larger one that has long been so.
func TestTheStreamThatGrewGoes(t *testing.T) {
	x := boundedIndex(t, 0, 20<<20)
	grow(t, x, "large", 5, 1, 250_000, 1000)
	for x.Maintain(100_000, 4096) {
	}
	for seq := uint64(1); seq <= 200 && x.Stats().Full == 0; seq++ {
		grow(t, x, "grows", 5, seq, 2_000, 100_000)
	}
	if _, ok := x.Full("grows"); !ok || count(x, "large") != 250_000 {
		t.Errorf("given up %v, the large one has %d facts; %+v", ok, count(x, "large"), x.Stats())
	}
}

// TestSlotsAboveHolesAreBoundedTogether keeps many streams waiting for their
// first slot.
func TestSlotsAboveHolesAreBoundedTogether(t *testing.T) {
	x := boundedIndex(t, 0, 0)
	var b crdt.Builder
	b.Store(crdt.Op{Group: 1}, make([]uint64, 1<<20), nil) // 8 MiB that say nothing of a prefix
	s, err := b.Slot(2, 1)
	if err != nil {
		b.Reset()
		b.Store(crdt.Op{Group: 1}, make([]uint64, 1<<20-64), nil)
		if s, err = b.Slot(2, 1); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 40 {
		id := crdt.NewStreamID("http://r", i)
		for seq := uint64(2); seq < 4; seq++ {
			s.Seq = seq
			x.Apply(&crdt.Delta{Stream: id, Epoch: 5, Anchor: 1, Slots: []crdt.Slot{s}}, 1000)
		}
		if st := x.Stats(); st.Above > maxAbove {
			t.Fatalf("%d streams hold %d bytes above holes", i+1, st.Above)
		}
	}
	for _, id := range x.Streams(nil) {
		x.Forget(id)
	}
	if st := x.Stats(); st.Above != 0 {
		t.Errorf("%d bytes are counted and not there", st.Above)
	}
}
