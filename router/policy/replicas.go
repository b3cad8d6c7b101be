package policy

import (
	"cmp"
	"math"
	"slices"
)

// blind reports whether what others dispatched lately is unknown. A peer that
// hears of dispatches in time sees a replica fill up, whatever else is late.
func (q *query) blind() bool {
	bound := q.cfg.TTFT.StaleMs
	return bound > 0 && q.view.AgeMs > bound
}

// replicas is how many of the rendezvous order serve the request's key while
// this peer is blind: stale_share times the share of the fleet that equals the
// key's share of what the peer itself is asked for, 2 or more. That is known at
// once, where a load of long ago swings with its own delay: everybody leaves a
// replica together and comes back together.
func (q *query) replicas() int {
	if !q.blind() {
		return 2
	}
	n := float64(len(q.live))
	n = min(q.cfg.TTFT.StaleShare*q.view.Share*n, n)
	if !(n > 2) {
		return 2
	}
	return int(math.Ceil(n))
}

// among draws one of the first n rendezvous replicas of a hot key, by weight
// and speed. They are taken to hold what many ask for, or will soon. A single
// replica that holds more than all others has the tail of a conversation, and
// is compared with the drawn one.
func (q *query) among(key uint64, n int) int {
	holder := q.alone()
	q.base = grow(q.base, len(q.cands))
	for _, i := range q.live {
		q.base[i] = rendezvous(key, q.cands[i].ID, q.weight(i))
	}
	q.low = append(q.low[:0], q.live...)
	slices.SortFunc(q.low, func(a, b int) int { return cmp.Compare(q.base[a], q.base[b]) })
	pos := q.draw(q.low[:n])
	q.live = append(q.live[:0], pos)
	if holder >= 0 && holder != pos {
		q.live = append(q.live, holder)
	}
	b := best{q: q, pos: -1}
	q.score(&b)
	return b.pos
}

// alone is the replica that holds more of the prompt than every other, -1 if
// there is none.
func (q *query) alone() int {
	pos, most := -1, 0
	for _, i := range q.live {
		switch deep := q.deep(i); {
		case deep > most:
			pos, most = i, deep
		case deep == most:
			pos = -1
		}
	}
	return pos
}

// draw picks one of some candidates, with odds of its weight over its time per
// token.
func (q *query) draw(of []int) int {
	total := 0.0
	for _, i := range of {
		total += q.weight(i) / q.cands[i].Rates.usable().Speed
	}
	at := q.view.Rand.Float64() * total
	for _, i := range of {
		if at -= q.weight(i) / q.cands[i].Rates.usable().Speed; at < 0 {
			return i
		}
	}
	return of[len(of)-1] // rounding
}
