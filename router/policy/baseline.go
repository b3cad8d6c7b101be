package policy

import "sync/atomic"

// pickRandom is uniform, thinned by the operator's weights.
func pickRandom(q *query) (int, Reason) {
	total := 0.0
	for _, i := range q.live {
		q.explain(i, 0)
		total += q.weight(i)
	}
	at := q.view.Rand.Float64() * total
	for _, i := range q.live {
		if at -= q.weight(i); at < 0 {
			return i, ReasonBaseline
		}
	}
	return q.live[len(q.live)-1], ReasonBaseline
}

// roundRobin takes replicas in turn. One with a low weight is passed over that
// much more often than the heaviest.
type roundRobin struct{ turn atomic.Uint64 }

func (r *roundRobin) pick(q *query) (int, Reason) {
	heaviest := 0.0
	for _, i := range q.live {
		q.explain(i, 0)
		heaviest = max(heaviest, q.weight(i))
	}
	pos := q.live[0]
	for range len(q.live) {
		pos = q.live[(r.turn.Add(1)-1)%uint64(len(q.live))]
		if w := q.weight(pos); w == heaviest || q.view.Rand.Float64()*heaviest < w {
			break
		}
	}
	return pos, ReasonBaseline
}

// pickLeastLoaded takes the fewest requests.
func pickLeastLoaded(q *query) (int, Reason) { return q.least(q.load), ReasonLoad }

// pickPowerOfTwo takes the less loaded of two different random replicas
// (Mitzenmacher 2001).
func pickPowerOfTwo(q *query) (int, Reason) {
	n := len(q.live)
	a := q.view.Rand.IntN(n)
	b := q.view.Rand.IntN(n - 1)
	if b >= a {
		b++
	}
	two := best{q: q, pos: -1}
	two.offer(q.live[a], q.load(q.live[a]))
	two.offer(q.live[b], q.load(q.live[b]))
	return two.pos, ReasonLoad
}
