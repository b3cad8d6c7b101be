package replica

import "math"

// page is one physical KV page. Pages without references lie on the free
// list, oldest first; a page keeps its key while it lies there and is found
// by it until it is taken for something else.
type page struct {
	key        uint64
	ref        int32
	prev, next int32 // free list; only meaningful while ref == 0
	twin       int32 // next page with the same key; none ends the chain
	named      bool  // key is set and findable
}

// none ends a list of page numbers; page 0 is the free list's sentinel.
const none = int32(-1)

// pool is the block pool: pages, free list and the map from key to pages.
type pool struct {
	limit  int // pages, math.MaxInt32 without limit
	unique bool
	pages  []page // pages[0] is the sentinel
	listed int    // pages on the free list
	byKey  table
	gen    uint64 // changes whenever byKey does
	events []KVEvent
}

func newPool(limit int, unique bool) *pool {
	if limit == Unlimited {
		limit = math.MaxInt32 - 2
	}
	p := &pool{limit: limit, unique: unique}
	p.pages = append(p.pages, page{}) // an empty ring: prev = next = 0
	return p
}

// free counts the pages without references. I1.
func (p *pool) free() int { return p.limit - (len(p.pages) - 1) + p.listed }

// used counts the referenced pages.
func (p *pool) used() int { return len(p.pages) - 1 - p.listed }

// find returns a page with the key, or none.
func (p *pool) find(key uint64) int32 {
	if at := p.byKey.get(key); at != 0 {
		return at
	}
	return none
}

// depth counts the leading keys that are cached, O(depth).
func (p *pool) depth(keys []uint64) int {
	for i, key := range keys {
		if p.byKey.get(key) == 0 {
			return i
		}
	}
	return len(keys)
}

// idle counts the pages of the first n keys that nobody references: what
// pinning them takes from the free list.
func (p *pool) idle(keys []uint64) int {
	n := 0
	for _, key := range keys {
		if at := p.byKey.get(key); at != 0 && p.pages[at].ref == 0 {
			n++
		}
	}
	return n
}

// take returns a page with one reference, evicting the oldest cached page if
// no blank one is left; none if every page is referenced.
func (p *pool) take() int32 {
	if len(p.pages)-1 < p.limit && p.listed == 0 || len(p.pages)-1 < p.limit && p.pages[p.pages[0].next].named {
		p.pages = append(p.pages, page{ref: 1, twin: none})
		return int32(len(p.pages) - 1)
	}
	at := p.pages[0].next
	if at == 0 {
		return none
	}
	p.unlist(at)
	if p.pages[at].named {
		p.evict(at)
	}
	p.pages[at].ref = 1
	return at
}

// pin adds a reference to a page that was found by its key.
func (p *pool) pin(at int32) {
	if p.pages[at].ref == 0 {
		p.unlist(at)
	}
	p.pages[at].ref++
}

// release drops one reference; the last one puts the page at the young end
// of the free list.
func (p *pool) release(at int32) {
	g := &p.pages[at]
	if g.ref--; g.ref > 0 {
		return
	}
	if g.ref < 0 {
		panic("invariant: page released more often than pinned")
	}
	last := p.pages[0].prev
	g.prev, g.next = last, 0
	p.pages[last].next, p.pages[0].prev = at, at
	p.listed++
}

func (p *pool) unlist(at int32) {
	g := &p.pages[at]
	p.pages[g.prev].next, p.pages[g.next].prev = g.next, g.prev
	p.listed--
}

// name makes a page findable by its key. It reports whether this copy is
// told to subscribers.
func (p *pool) name(at int32, key uint64) bool {
	g := &p.pages[at]
	g.key, g.named, g.twin = key, true, none
	p.gen++
	first := p.byKey.put(key, at)
	if first == 0 {
		return true
	}
	g.twin, p.pages[first].twin = p.pages[first].twin, at
	return !p.unique
}

// evict takes a page's name away and tells it.
func (p *pool) evict(at int32) {
	g := &p.pages[at]
	key := g.key
	g.named = false
	p.gen++
	first := p.byKey.get(key)
	if first != at {
		for p.pages[first].twin != at {
			first = p.pages[first].twin
		}
		p.pages[first].twin = g.twin
	} else if g.twin != none {
		p.byKey.replace(key, g.twin)
	} else {
		p.byKey.remove(key)
		p.events = append(p.events, KVEvent{Kind: Removed, Key: key})
		return
	}
	if !p.unique {
		p.events = append(p.events, KVEvent{Kind: Removed, Key: key})
	}
}

// clear forgets every name; references stay.
func (p *pool) clear() {
	for i := range p.pages {
		p.pages[i].named = false
		p.pages[i].twin = none
	}
	p.byKey.clear()
	p.gen++
	p.events = append(p.events, KVEvent{Kind: Cleared})
}
