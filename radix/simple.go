package radix

import (
	"cmp"
	"maps"
	"slices"
	"sync"
)

type simpleFact struct {
	keys   []Key
	parent Key
	meta   Meta
}

type simpleHolder struct {
	facts map[uint64]simpleFact
	cover map[Key]map[uint64]Meta
}

// Tree says which holder caches which prefix. One writer at a time, which the
// caller serialises; any number of readers.
type Tree struct {
	mu      sync.RWMutex // guards below
	holders []*simpleHolder
}

// NewTree returns an empty tree.
func NewTree(TreeConfig) *Tree { return &Tree{} }

// Close frees the tree's memory. Neither it nor its readers are used again.
func (t *Tree) Close() {}

// AddHolder returns the lowest holder that is not in use.
func (t *Tree) AddHolder() Holder {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := &simpleHolder{facts: map[uint64]simpleFact{}, cover: map[Key]map[uint64]Meta{}}
	for i, old := range t.holders {
		if old == nil {
			t.holders[i] = h
			return Holder(i)
		}
	}
	t.holders = append(t.holders, h)
	return Holder(len(t.holders) - 1)
}

// FreeHolder gives a cleared holder back.
func (t *Tree) FreeHolder(h Holder) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.holders[h].facts) != 0 {
		panic("invariant: a freed holder has no facts")
	}
	t.holders[h] = nil
}

func (s *simpleHolder) drop(handle uint64) {
	for _, k := range s.facts[handle].keys {
		delete(s.cover[k], handle)
		if len(s.cover[k]) == 0 {
			delete(s.cover, k)
		}
	}
	delete(s.facts, handle)
}

func (s *simpleHolder) put(handle uint64, f simpleFact) {
	s.facts[handle] = f
	for _, k := range f.keys {
		if s.cover[k] == nil {
			s.cover[k] = map[uint64]Meta{}
		}
		s.cover[k][handle] = f.meta
	}
}

// Store tells that h holds a run of consecutive pages of one chain.
// len(keys) is perPage*len(handles); parent is the key before keys[0], 0 if
// unknown. A known handle with other keys moves to the new ones.
func (t *Tree) Store(h Holder, parent Key, perPage int, keys []Key, handles []uint64, update Update) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.holders[h]
	for i, handle := range handles {
		page := slices.Clone(keys[i*perPage : (i+1)*perPage])
		fact := Fact{Handle: handle, Key: page[perPage-1], Blocks: perPage}
		if old, ok := s.facts[handle]; ok {
			fact.Key, fact.Meta, fact.Blocks = old.keys[len(old.keys)-1], old.meta, len(old.keys)
		}
		meta := update(fact)
		s.drop(handle)
		if meta.Present() {
			s.put(handle, simpleFact{keys: page, parent: parent, meta: meta})
		}
		parent = page[perPage-1]
	}
}

// Remove updates the facts of h with these handles; unknown ones are ignored.
func (t *Tree) Remove(h Holder, handles []uint64, update Update) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.holders[h]
	for _, handle := range handles {
		f, ok := s.facts[handle]
		if !ok {
			continue
		}
		meta := update(Fact{Handle: handle, Key: f.keys[len(f.keys)-1], Meta: f.meta, Blocks: len(f.keys)})
		s.drop(handle)
		if f.meta = meta; meta.Present() {
			s.put(handle, f)
		}
	}
}

// Get returns the fact of h with this handle.
func (t *Tree) Get(h Holder, handle uint64) (Fact, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	f, ok := t.holders[h].facts[handle]
	if !ok {
		return Fact{}, false
	}
	return Fact{Handle: handle, Key: f.keys[len(f.keys)-1], Meta: f.meta, Blocks: len(f.keys)}, true
}

// Clear forgets about maxFacts facts of h and reports whether none is left.
// Until it has, no other call may write h.
func (t *Tree) Clear(h Holder, maxFacts int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.holders[h]
	for handle := range s.facts {
		if maxFacts--; maxFacts < 0 {
			return false
		}
		s.drop(handle)
	}
	return true
}

// Runs hands out about maxFacts facts of h, starting at cursor (0 is the
// beginning); next is 0 when all are done. Enumeration is exact while h is not
// written between the steps.
func (t *Tree) Runs(h Holder, cursor uint64, maxFacts int, fn func(Run)) (next uint64) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	s := t.holders[h]
	handles := slices.Sorted(maps.Keys(s.facts))
	for i := int(cursor); i < len(handles); i++ {
		if i >= int(cursor)+maxFacts {
			return uint64(i)
		}
		f := s.facts[handles[i]]
		fn(Run{Parent: f.parent, PerPage: len(f.keys), Keys: f.keys, Handles: handles[i : i+1], Metas: []Meta{f.meta}})
	}
	return 0
}

// Count is the number of facts of h.
func (t *Tree) Count(h Holder) int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.holders[h].facts)
}

// Stats measures the tree.
func (t *Tree) Stats() Stats {
	t.mu.RLock()
	defer t.mu.RUnlock()
	var st Stats
	keys := map[Key]bool{}
	for _, s := range t.holders {
		if s != nil {
			st.Holders++
			st.Facts += len(s.facts)
			for k := range s.cover {
				keys[k] = true
			}
		}
	}
	st.Keys = len(keys)
	st.Bytes = int64(100*st.Facts + 50*st.Keys)
	return st
}

// Top lists the n pieces of the tree that most holders share.
func (t *Tree) Top(n int) []Prefix {
	t.mu.RLock()
	defer t.mu.RUnlock()
	found := map[Key]*Prefix{}
	for h, s := range t.holders {
		if s == nil {
			continue
		}
		for _, f := range s.facts {
			k := f.keys[len(f.keys)-1]
			if found[k] == nil {
				found[k] = &Prefix{Key: k, Parent: f.parent, Depth: len(f.keys), Blocks: len(f.keys)}
			}
			found[k].Holders = append(found[k].Holders, Holder(h))
		}
	}
	var all []Prefix
	for _, p := range found {
		all = append(all, *p)
	}
	slices.SortFunc(all, func(a, b Prefix) int {
		return cmp.Or(len(b.Holders)-len(a.Holders), cmp.Compare(a.Key, b.Key))
	})
	return all[:min(n, len(all))]
}

// Reader matches queries. It is safe for concurrent use; one per worker is
// fastest.
type Reader struct{ t *Tree }

// NewReader returns a reader of the tree.
func (t *Tree) NewReader() *Reader { return &Reader{t: t} }

// Match finds how deep every holder holds the chain keys, whose first key is
// the first block below a namespace root. It is exact.
func (r *Reader) Match(keys []Key, m *Match) {
	r.t.mu.RLock()
	defer r.t.mu.RUnlock()
	m.reset((len(r.t.holders) + 63) / 64)
	for h, s := range r.t.holders {
		if s == nil {
			continue
		}
		var depth [Classes]uint32
		for c := range depth {
			for _, k := range keys {
				if level(s.cover[k]) < Tiers-c {
					break
				}
				depth[c]++
			}
		}
		if depth[ClassAny] > 0 {
			m.seen[h/64] |= 1 << (h % 64)
			m.depth[h] = depth
		}
	}
	m.list()
}

// level is 0 without a copy, else Tiers minus the best tier.
func level(cover map[uint64]Meta) int {
	best := 0
	for _, m := range cover {
		best = max(best, Tiers-m.Best())
	}
	return best
}
