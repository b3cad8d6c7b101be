package index

import (
	"maps"
	"slices"
	"sync"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/radix"
)

// Config is what an Index needs.
type Config struct {
	Hasher      *radix.Hasher
	RingBytes   int // recent slots kept for other peers, all streams together
	Predictions int // K: predicted blocks kept per (replica, namespace)
}

// forgottenMs is how long an unlisted stream is remembered.
const forgottenMs = 10 * 60 * 1000

// Index is the tree with its streams. Safe for concurrent use: one writer at
// a time under mu, readers without a lock.
type Index struct {
	hasher  *radix.Hasher
	tree    *radix.Tree // confirmed facts
	guesses *radix.Tree // predicted blocks
	readers sync.Pool

	mu       sync.Mutex // guards below; held for a bounded number of facts (I6)
	ring     *crdt.Ring
	streams  map[crdt.StreamID]*crdt.Stream
	dropping []radix.Holder // of tree, to be cleared in steps
	guess    *guesses

	refsMu sync.RWMutex // guards refs; inside mu or alone
	refs   map[crdt.StreamID]*Ref
}

// New makes an empty index.
func New(cfg Config) *Index {
	x := &Index{
		hasher: cfg.Hasher, tree: radix.NewTree(radix.TreeConfig{}), guesses: radix.NewTree(radix.TreeConfig{}),
		ring: crdt.NewRing(cfg.RingBytes), streams: map[crdt.StreamID]*crdt.Stream{}, refs: map[crdt.StreamID]*Ref{},
	}
	x.guess = newGuesses(x, cfg.Predictions)
	x.readers.New = func() any { return &readers{x.tree.NewReader(), x.guesses.NewReader()} }
	return x
}

// Close frees the trees. Nothing of the index is used afterwards.
func (x *Index) Close() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.tree.Close()
	x.guesses.Close()
}

// Ref returns the replica's fixed place, made on first use. O(1).
func (x *Index) Ref(id crdt.StreamID) *Ref {
	x.refsMu.RLock()
	r := x.refs[id]
	x.refsMu.RUnlock()
	if r != nil {
		return r
	}
	x.refsMu.Lock()
	defer x.refsMu.Unlock()
	if r = x.refs[id]; r == nil {
		r = &Ref{ID: id}
		x.refs[id] = r
	}
	return r
}

// streamLocked returns the stream, made on first use.
func (x *Index) streamLocked(id crdt.StreamID) *crdt.Stream {
	s := x.streams[id]
	if s == nil {
		ref := x.Ref(id)
		s = crdt.NewStream(crdt.StreamConfig{
			ID: id, Ring: x.ring,
			Open: func(uint64) crdt.Blocks { return newBlocks(x, ref) },
		})
		x.streams[id] = s
	}
	return s
}

// drop queues a holder's facts for clearing in steps (Maintain). Called with
// mu held.
func (x *Index) drop(h radix.Holder) { x.dropping = append(x.dropping, h) }

// Apply joins a delta, local or remote (I1).
func (x *Index) Apply(d *crdt.Delta, nowMs int64) crdt.Outcome {
	x.mu.Lock()
	defer x.mu.Unlock()
	out := x.streamLocked(d.Stream).Apply(d, nowMs)
	if out.NewSlots > 0 {
		x.Ref(d.Stream).lastSlot.Store(nowMs)
	}
	return out
}

// Streams appends the ids of all known streams, sorted.
func (x *Index) Streams(dst []crdt.StreamID) []crdt.StreamID {
	x.mu.Lock()
	defer x.mu.Unlock()
	from := len(dst)
	for id, s := range x.streams {
		if s.Epoch() != 0 {
			dst = append(dst, id)
		}
	}
	slices.Sort(dst[from:])
	return dst
}

// Digest returns a stream's context and the sum of its base.
func (x *Index) Digest(id crdt.StreamID) (crdt.Digest, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := x.streams[id]
	if s == nil || s.Epoch() == 0 {
		return crdt.Digest{}, false
	}
	return s.Digest(), true
}

// SumAt returns the base sum at a recent floor.
func (x *Index) SumAt(id crdt.StreamID, epoch, floor uint64) (crdt.Sum, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if s := x.streams[id]; s != nil {
		return s.SumAt(epoch, floor)
	}
	return crdt.Sum{}, false
}

// Since cuts what the owner of a context lacks; see crdt.Stream.
func (x *Index) Since(id crdt.StreamID, c *crdt.Context, maxBytes int) (crdt.Delta, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if s := x.streams[id]; s != nil {
		return s.Since(c, maxBytes)
	}
	return crdt.Delta{Stream: id}, true
}

// Slots returns those of the wanted slots that are still kept.
func (x *Index) Slots(id crdt.StreamID, epoch uint64, want []crdt.Span, maxBytes int) []crdt.Slot {
	x.mu.Lock()
	defer x.mu.Unlock()
	if s := x.streams[id]; s != nil {
		return s.Slots(epoch, want, maxBytes)
	}
	return nil
}

// Forget drops a stream whole, state and context.
func (x *Index) Forget(id crdt.StreamID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if s := x.streams[id]; s != nil {
		s.Forget()
	}
}

// Declare marks slots lost: an owner's word after nobody had them. It returns
// what the other peers must be told; the delta is empty if nothing changed.
func (x *Index) Declare(id crdt.StreamID, epoch uint64, lost []crdt.Span, nowMs int64) (crdt.Delta, crdt.Outcome) {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := x.streams[id]
	if s == nil || s.Epoch() != epoch {
		return crdt.Delta{}, crdt.Outcome{}
	}
	c := s.Context()
	out := s.Declare(lost, nowMs)
	return crdt.Delta{Stream: id, Epoch: epoch, Anchor: c.Anchor, Lost: lost}, out
}

// Prior is what the mesh knows of a stream, for whoever starts to listen.
type Prior struct {
	Epoch  uint64
	Anchor uint64
	Floor  uint64
	Last   uint64 // highest known slot
	LastTS int64  // its engine time, microseconds
}

// Prior returns what is known; ok is false if nothing is.
func (x *Index) Prior(id crdt.StreamID) (p Prior, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := x.streams[id]
	if s == nil || s.Epoch() == 0 {
		return Prior{}, false
	}
	c := s.Context()
	last, ts := s.Last()
	return Prior{Epoch: c.Epoch, Anchor: c.Anchor, Floor: c.Floor, Last: max(last, c.Floor), LastTS: ts}, true
}

// Holes lists the missing ranges of a stream.
func (x *Index) Holes(id crdt.StreamID) []crdt.Span {
	x.mu.Lock()
	defer x.mu.Unlock()
	if s := x.streams[id]; s != nil && s.Epoch() != 0 {
		return s.Holes(crdt.MaxHoles)
	}
	return nil
}

// Maintain does a bounded piece of the work that was put off: at most
// maxFacts facts of dropped incarnations, expired predictions and shadows.
// more reports that there is more to do at once.
func (x *Index) Maintain(nowMs int64, maxFacts int) (more bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if n := len(x.dropping); n > 0 {
		h := x.dropping[n-1]
		if x.tree.Clear(h, maxFacts) {
			x.tree.FreeHolder(h)
			x.dropping = x.dropping[:n-1]
		}
		return len(x.dropping) > 0
	}
	for _, s := range x.streams {
		s.Tick(nowMs)
	}
	x.guess.expire(nowMs)
	return false
}

// Stats is the size of the index.
type Stats struct {
	Facts       int // confirmed, all incarnations
	Keys        int
	Bytes       int64 // both trees
	Predicted   int
	Streams     int
	Quarantined int
	Suspect     int // facts older than a lost batch
}

// Stats adds up the index. O(streams).
func (x *Index) Stats() Stats {
	x.mu.Lock()
	defer x.mu.Unlock()
	t, g := x.tree.Stats(), x.guesses.Stats()
	s := Stats{Keys: t.Keys, Bytes: t.Bytes + g.Bytes, Predicted: g.Facts, Streams: len(x.streams)}
	for _, st := range x.streams {
		if b := st.Blocks(); b != nil {
			s.Facts += int(b.Sum().Count)
		}
		if st.Quarantined() {
			s.Quarantined++
		}
	}
	return s
}

// Top lists the n most shared prefixes with the replicas that hold them.
func (x *Index) Top(n int) []TopPrefix {
	x.mu.Lock()
	defer x.mu.Unlock()
	names := map[radix.Holder]crdt.StreamID{}
	x.refsMu.RLock()
	for id, r := range x.refs {
		if h := r.confirmed.Load(); h != 0 {
			names[radix.Holder(h-1)] = id
		}
	}
	x.refsMu.RUnlock()
	var out []TopPrefix
	for _, p := range x.tree.Top(n) {
		t := TopPrefix{Key: p.Key, Parent: p.Parent, Depth: p.Depth, Blocks: p.Blocks}
		for _, h := range p.Holders {
			if id, ok := names[h]; ok {
				t.Holders = append(t.Holders, id)
			}
		}
		if len(t.Holders) > 0 {
			slices.Sort(t.Holders)
			out = append(out, t)
		}
	}
	return out
}

// TopPrefix is one much-shared piece of the tree.
type TopPrefix struct {
	Key, Parent   radix.Key
	Depth, Blocks int
	Holders       []crdt.StreamID
}

// All lists every known stream's digest, sorted by id.
func (x *Index) All() map[crdt.StreamID]crdt.Digest {
	x.mu.Lock()
	defer x.mu.Unlock()
	out := make(map[crdt.StreamID]crdt.Digest, len(x.streams))
	for id, s := range maps.All(x.streams) {
		if s.Epoch() != 0 {
			out[id] = s.Digest()
		}
	}
	return out
}

// Quarantined reports whether a stream changes its epoch too often to be
// believed.
func (x *Index) Quarantined(id crdt.StreamID) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := x.streams[id]
	return s != nil && s.Quarantined()
}
