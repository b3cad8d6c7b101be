package simulation

import "container/list"

// routed is what routers know that never hear an engine: per peer and replica
// the pages of the prompts it sent there, the least recently sent ones
// forgotten beyond a size. It is llm-d's approximate prefix scorer as it was
// when its benchmarks were published: a prompt's head is entered first and so
// forgotten first, and a page counts for a replica as long as every page before
// it is known of any.
type routed struct {
	replicas, room int
	pages          []pages // per peer and replica
	found          []int   // room for match: pages by replica
}

// pages is a set of at most room keys in order of use.
type pages struct {
	at  map[uint64]*list.Element
	use list.List // of keys, the latest in front
}

// newRouted is nil, which knows nothing, if there is no room.
func newRouted(peers, replicas, room int) *routed {
	if room == 0 {
		return nil
	}
	r := &routed{replicas: replicas, room: room, pages: make([]pages, peers*replicas), found: make([]int, replicas)}
	for i := range r.pages {
		r.pages[i].at = make(map[uint64]*list.Element)
	}
	return r
}

// send notes that a peer sent a prompt to a replica.
func (r *routed) send(peer, replica int, keys []uint64) {
	if r == nil {
		return
	}
	p := &r.pages[peer*r.replicas+replica]
	for _, key := range keys {
		if e, ok := p.at[key]; ok {
			p.use.MoveToFront(e)
			continue
		}
		p.at[key] = p.use.PushFront(key)
		if p.use.Len() > r.room {
			delete(p.at, p.use.Remove(p.use.Back()).(uint64))
		}
	}
}

// match raises, per replica, how many leading keys a peer expects there.
func (r *routed) match(peer int, keys []uint64, expected []int) {
	if r == nil {
		return
	}
	clear(r.found)
	for _, key := range keys {
		known := false
		for k := range r.found {
			if r.pages[peer*r.replicas+k].at[key] != nil {
				r.found[k]++
				known = true
			}
		}
		if !known {
			break
		}
	}
	for k, n := range r.found {
		expected[k] = max(expected[k], n)
	}
}
