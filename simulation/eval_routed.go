package simulation

import "container/list"

// routed is what routers know that never hear an engine: per peer and replica
// the pages of the prompts it sent there, the least recently sent ones
// forgotten beyond a size. llm-d's approximate prefix scorer works so.
type routed struct {
	replicas, room int
	pages          []pages // per peer and replica
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
	r := &routed{replicas: replicas, room: room, pages: make([]pages, peers*replicas)}
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
	for i := len(keys) - 1; i >= 0; i-- { // the head is the last to be forgotten
		if e, ok := p.at[keys[i]]; ok {
			p.use.MoveToFront(e)
			continue
		}
		p.at[keys[i]] = p.use.PushFront(keys[i])
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
	for k := range expected {
		known, d := r.pages[peer*r.replicas+k].at, 0
		for d < len(keys) && known[keys[d]] != nil {
			d++
		}
		expected[k] = max(expected[k], d)
	}
}
