package policy

import (
	"math"
	"sync"
)

// query is one decision in the making: the inputs and reusable room for one
// number of each kind per candidate.
type query struct {
	cfg    *Config
	req    *Request
	view   *View
	cands  []Candidate
	scores []float64 // nil or one per candidate

	live []int // positions that may be picked, ascending; never empty
	all  bool  // every weight is 0: weights do not count

	// By position, live ones only.
	matched []int     // filled by match
	prefill []float64 // own prefill seconds s; filled by match
	base    []float64
	waiting []float64
	share   []float64 // s over the replica's speed
	late    []float64 // seconds by which what it fetches comes after its queue
	fewest  float64   // n_min
	deepest int       // most of matched
	low     []int     // scratch of pour
}

var queries = sync.Pool{New: func() any { return new(query) }}

func newQuery(cfg *Config, req *Request, view *View, cands []Candidate, scores []float64) *query {
	q := queries.Get().(*query)
	q.cfg, q.req, q.view, q.cands, q.scores = cfg, req, view, cands, scores
	if len(scores) < len(cands) {
		q.scores = nil
	}
	for i := range q.scores {
		q.scores[i] = math.MaxFloat64
	}
	q.all = false
	q.live = q.live[:0]
	for i := range cands {
		if cands[i].Weight > 0 {
			q.live = append(q.live, i)
		}
	}
	if len(q.live) == 0 {
		q.all = true
		for i := range cands {
			q.live = append(q.live, i)
		}
	}
	return q
}

func (q *query) release() {
	q.cfg, q.req, q.view, q.cands, q.scores = nil, nil, nil, nil, nil
	queries.Put(q)
}

// match fills matched and prefill for every live candidate.
func (q *query) match() {
	q.matched = grow(q.matched, len(q.cands))
	q.prefill = grow(q.prefill, len(q.cands))
	for _, i := range q.live {
		q.matched[i], q.prefill[i] = q.own(i)
	}
}

// weight is the operator's weight of a live candidate, never 0.
func (q *query) weight(pos int) float64 {
	if q.all {
		return 1
	}
	return q.cands[pos].Weight
}

// explain records a score for the caller; lower is better.
func (q *query) explain(pos int, score float64) {
	if q.scores != nil {
		q.scores[pos] = score
	}
}

// least picks the live candidate with the lowest score, exact ties uniformly
// at random. Scores that are not numbers lose.
func (q *query) least(score func(pos int) float64) int {
	b := best{q: q, pos: -1}
	for _, i := range q.live {
		b.offer(i, score(i))
	}
	return b.pos
}

// best is a running minimum with uniform choice among exact ties.
type best struct {
	q     *query
	pos   int // -1: nothing offered yet
	score float64
	ties  int
	quiet bool // keep scores out of the explanation
}

func (b *best) offer(pos int, score float64) {
	if math.IsNaN(score) {
		score = math.MaxFloat64
	}
	if !b.quiet {
		b.q.explain(pos, score)
	}
	switch {
	case b.pos < 0 || score < b.score:
		b.pos, b.score, b.ties = pos, score, 1
	case score == b.score:
		b.ties++
		if b.q.view.Rand.IntN(b.ties) == 0 {
			b.pos = pos
		}
	}
}

// requests is how many requests a candidate has: what the peers know of, or
// what the engine itself said, whichever is more.
func (c *Candidate) requests() int {
	known := c.Waiting + c.Streams
	if c.Running >= 0 && c.Queued >= 0 {
		known = max(known, c.Running+c.Queued)
	}
	return known
}

// load is requests over the operator's weight.
func (q *query) load(pos int) float64 {
	return float64(q.cands[pos].requests()) / q.weight(pos)
}

func grow[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n, max(n, 64))
	}
	return s[:n]
}
