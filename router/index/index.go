package index

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/radix"
)

// Config is what an Index needs.
type Config struct {
	Hasher      *radix.Hasher
	Grid        int // tokens of a grid block; default 16
	RingBytes   int // recent slots kept for other peers, all streams together
	AboveBytes  int // slots above holes, of all streams together; default 256 MiB
	Predictions int // K: predicted blocks kept per (replica, namespace)
	// Facts is how many facts a stream may have; beyond, it is given up. nil: any
	// number. It is called with the index locked and must not call back.
	Facts  func(crdt.StreamID) int
	Memory int64 // bytes that the trees may take; 0 any number
	// Used is told where each prompt was sent that this peer sends or hears of,
	// and when, ms of the times told here; nil: nobody asks. It may be called with
	// the index locked and must not call back.
	Used func(at crdt.StreamID, blocks []uint64, atMs int64)
}

// Index is the tree with its streams. Safe for concurrent use: one writer at
// a time under mu, readers without a lock.
type Index struct {
	hasher  *radix.Hasher
	grid    int
	tree    *radix.Tree // confirmed facts
	guesses *radix.Tree // predicted blocks
	readers sync.Pool
	crowded atomic.Bool // over maxDropping holders wait to be cleared

	someFull atomic.Bool // some stream did not fit

	mu       sync.Mutex // guards below; held for a bounded number of facts (I6)
	ring     *crdt.Ring
	streams  map[crdt.StreamID]*crdt.Stream
	dropping []radix.Holder // of tree, to be cleared in steps
	guess    *guesses
	now      int64 // latest time told, ms
	ahead    int64 // ms: the wall clock's lead over the times told
	mute     bool  // nothing is predicted here
	hold     int   // facts folded in one hold
	held     int   // facts handled since mu was taken
	worst    int   // most facts handled in one hold (I6)
	bound    bounds
	tellUse  func(crdt.StreamID, []uint64, int64) // never nil

	refsMu sync.RWMutex // guards refs; inside mu or alone
	refs   map[crdt.StreamID]*Ref
}

// New makes an empty index.
func New(cfg Config) *Index {
	if cfg.Grid < 1 {
		cfg.Grid = 16
	}
	x := &Index{
		hasher: cfg.Hasher, grid: cfg.Grid, tree: radix.NewTree(), guesses: radix.NewTree(),
		ring: crdt.NewRing(cfg.RingBytes), streams: map[crdt.StreamID]*crdt.Stream{}, refs: map[crdt.StreamID]*Ref{}, hold: foldFacts,
	}
	x.tellUse = cfg.Used
	if x.tellUse == nil {
		x.tellUse = func(crdt.StreamID, []uint64, int64) {}
	}
	if cfg.AboveBytes <= 0 {
		cfg.AboveBytes = maxAbove
	}
	x.bound = bounds{mostAbove: cfg.AboveBytes, facts: cfg.Facts, memory: cfg.Memory, full: map[crdt.StreamID]Full{}, givenUp: map[Bound]uint64{}}
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
			ID: id, Ring: x.ring, Hold: x.hold,
			Open: func(uint64) crdt.Blocks { return newBlocks(x, ref) },
		})
		x.streams[id] = s
	}
	return s
}

// drop queues a holder's facts for clearing in steps (Maintain). Called with
// mu held.
func (x *Index) drop(h radix.Holder) {
	x.dropping = append(x.dropping, h)
	x.crowded.Store(len(x.dropping) > maxDropping)
}

// maxDropping is how many holders may wait to be cleared. Each is a number that
// matches look at, and there are only so many: whoever brings more clears first.
const maxDropping = 64

// room clears dropped holders in steps until few wait.
func (x *Index) room() {
	for x.crowded.Load() {
		x.locked(func() { x.clearSome(holdFacts) })
	}
}

// clearSome clears about max facts of a dropped holder.
func (x *Index) clearSome(max int) {
	n := len(x.dropping)
	if n == 0 {
		return
	}
	h := x.dropping[n-1]
	x.held += min(max, x.tree.Count(h))
	if x.tree.Clear(h, max) {
		x.tree.FreeHolder(h)
		x.dropping = x.dropping[:n-1]
	}
	x.crowded.Store(len(x.dropping) > maxDropping)
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
	s := x.settled(id)
	defer x.mu.Unlock()
	if s == nil || s.Epoch() == 0 {
		return crdt.Digest{}, false
	}
	return digestOf(s), true
}

// digestOf is a stream's digest. What was linked since the last slot counts.
func digestOf(s *crdt.Stream) crdt.Digest {
	d := s.Digest()
	if b := blocksOf(s); b != nil && len(d.Context.Above) == 0 {
		d.Base.Linked, d.Base.KeyXOR = b.sum.Linked, b.sum.KeyXOR
	}
	return d
}

// SumAt returns the base sum at a recent floor.
func (x *Index) SumAt(id crdt.StreamID, epoch, floor uint64) (crdt.Sum, bool) {
	s := x.settled(id)
	defer x.mu.Unlock()
	if s != nil {
		return s.SumAt(epoch, floor)
	}
	return crdt.Sum{}, false
}

// Since cuts what the owner of a context lacks; see crdt.Stream.
func (x *Index) Since(id crdt.StreamID, c *crdt.Context, maxBytes int) (crdt.Delta, bool) {
	s := x.settled(id)
	defer x.mu.Unlock()
	if s != nil {
		d, ok := s.Since(c, maxBytes)
		if b := blocksOf(s); b != nil && ok {
			d.Hints = b.hints(maxHints)
		}
		return d, ok
	}
	return crdt.Delta{Stream: id}, true
}

// Slots returns those of the wanted slots that are still kept.
func (x *Index) Slots(id crdt.StreamID, epoch uint64, want []crdt.Span, maxBytes int) []crdt.Slot {
	s := x.settled(id)
	defer x.mu.Unlock()
	if s != nil {
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

// Remove is Forget of a stream that is not to come back: nothing remembers that
// it was.
func (x *Index) Remove(id crdt.StreamID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if s := x.streams[id]; s != nil {
		s.Close()
		delete(x.streams, id)
	}
}

// Sweep gives back what unwanted replicas still take once nothing is known of
// them: their places, and the numbers that matches look at. O(replicas).
func (x *Index) Sweep(wanted func(crdt.StreamID) bool) {
	x.refsMu.RLock()
	var idle []crdt.StreamID
	for id := range x.refs {
		if !wanted(id) {
			idle = append(idle, id)
		}
	}
	x.refsMu.RUnlock()
	x.locked(func() {
		for _, id := range idle {
			if s := x.streams[id]; s != nil && s.Epoch() != 0 || !x.guess.free(id) {
				continue
			}
			delete(x.streams, id)
			x.refsMu.Lock()
			if !wanted(id) { // still: who lists it now takes its place after this
				delete(x.refs, id)
				x.fitsAgain(id)
			}
			x.refsMu.Unlock()
		}
	})
}

// Declare marks slots lost: an owner's word after nobody had them. It returns
// what the other peers must be told; the delta is empty if nothing changed.
func (x *Index) Declare(id crdt.StreamID, epoch uint64, lost []crdt.Span, nowMs int64) (crdt.Delta, crdt.Outcome) {
	var d crdt.Delta
	var out crdt.Outcome
	x.on(id, nowMs, func(s *crdt.Stream) {
		if s == nil || s.Epoch() != epoch {
			return
		}
		d = crdt.Delta{Stream: id, Epoch: epoch, Anchor: s.Context().Anchor, Lost: lost}
		out = s.Declare(lost, nowMs)
	})
	return d, out
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
	s := x.settled(id)
	defer x.mu.Unlock()
	if s == nil {
		return Prior{}, false
	}
	if s.Epoch() == 0 {
		return Prior{}, false
	}
	anchor, floor := s.Reach()
	last, ts := s.Last()
	p = Prior{Epoch: s.Epoch(), Anchor: anchor, Floor: floor, LastTS: ts}
	if p.Last = last; floor >= anchor {
		p.Last = max(last, floor)
	}
	return p, true
}

// Epoch is the present epoch of a stream, 0 if it is not known. Unlike Prior it does
// not end a fold that is under way.
func (x *Index) Epoch(id crdt.StreamID) uint64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	if s := x.streams[id]; s != nil {
		return s.Epoch()
	}
	return 0
}

// Holes lists the missing ranges of a stream.
func (x *Index) Holes(id crdt.StreamID) []crdt.Span {
	s := x.settled(id)
	defer x.mu.Unlock()
	if s != nil && s.Epoch() != 0 {
		return s.Holes(crdt.MaxHoles)
	}
	return nil
}

// TopPrefix is one much-shared piece of the tree.
type TopPrefix struct {
	Key, Parent   radix.Key
	Head          radix.Key // first block
	Under         radix.Key // Key of the nearest listed piece that this one continues; 0 if none
	Depth, Blocks int
	Holders       []crdt.StreamID
}

// All lists every known stream's digest, one stream a hold.
func (x *Index) All() map[crdt.StreamID]crdt.Digest {
	ids := x.Streams(nil)
	out := make(map[crdt.StreamID]crdt.Digest, len(ids))
	for _, id := range ids {
		if d, ok := x.Digest(id); ok {
			out[id] = d
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
