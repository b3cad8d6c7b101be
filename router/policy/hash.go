package policy

import "math"

// mix is splitmix64's finaliser.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// rendezvous is the cost of serving key at a replica in highest random weight
// hashing (Thaler, Ravishankar 1998), lower is better: an exponential draw
// over the weight, so that a replica gets keys in proportion to it.
func rendezvous(key, id uint64, weight float64) float64 {
	u := (float64(mix(key^mix(id))>>11) + 0.5) / (1 << 53)
	return -math.Log(u) / weight
}

// affinityKey is what a request sticks to: its session, else the head of its
// prompt, else its whole prompt; ok is false if it has none of them.
func (r *Request) affinityKey() (key uint64, ok bool) {
	switch {
	case r.Session != 0:
		return mix(r.Session), true
	case r.Prefix != 0:
		return r.Prefix, true
	}
	return r.Key, r.Key != 0
}

// pickConsistentHash takes the request's rendezvous replica that is not over
// its share: ceil(load_factor * (all requests + 1) * weight / all weights).
// Without a key it takes the least loaded.
func pickConsistentHash(q *query) (int, Reason) {
	key, ok := q.req.affinityKey()
	if !ok {
		return pickLeastLoaded(q)
	}
	total, weights := 1.0, 0.0
	for _, i := range q.live {
		total += float64(q.cands[i].requests())
		weights += q.weight(i)
	}
	first, within := best{q: q, pos: -1}, best{q: q, pos: -1}
	for _, i := range q.live {
		cost := rendezvous(key, q.cands[i].ID, q.weight(i))
		first.offer(i, cost)
		bound := math.Ceil(q.cfg.Hash.LoadFactor * total * q.weight(i) / weights)
		if float64(q.cands[i].requests()+1) <= bound {
			within.offer(i, cost)
		}
	}
	if within.pos < 0 {
		return first.pos, q.affinityReason()
	}
	if within.pos != first.pos {
		return within.pos, ReasonSpill
	}
	return within.pos, q.affinityReason()
}

func (q *query) affinityReason() Reason {
	if q.req.Session != 0 {
		return ReasonSession
	}
	return ReasonPrefix
}
