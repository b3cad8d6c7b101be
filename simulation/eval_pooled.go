package simulation

import (
	"math"

	"github.com/banyan-llm/banyan/simulation/replica"
	"github.com/banyan-llm/banyan/simulation/workload"
)

// pool is the reference's shared cache and queue. A prompt is in the cache as
// soon as some replica has computed it.
//
// The modelled engines know no cache that others fill, so a request is given
// to them without its cached part, the attention of its tokens to that part
// turned into more tokens, and the context its decode steps miss into a
// slower step per stream.
type pool struct {
	cached map[uint64]struct{}
	queue  []int // jobs in order of arrival
}

func newPool() *pool { return &pool{cached: make(map[uint64]struct{})} }

func (p *pool) add(keys []uint64) {
	for _, key := range keys {
		p.cached[key] = struct{}{}
	}
}

func (p *pool) depth(keys []uint64) int {
	for i, key := range keys {
		if _, ok := p.cached[key]; !ok {
			return i
		}
	}
	return len(keys)
}

// correct slows the decode steps of a profile by the context that cached
// prompts do not bring along: the ideal hit's share of the mean prompt.
func (p *pool) correct(profile *replica.Profile, w *workload.Workload) {
	tokens := 0
	for i := range w.Requests {
		tokens += w.Requests[i].Tokens
	}
	hit := w.IdealHit() * float64(tokens) / float64(len(w.Requests))
	profile.D1 += profile.D2 * hit
}

// feed gives waiting requests to the engine with the least to prefill, as long
// as one has room in its next step.
func (r *run) feed(now float64) {
	for len(r.shared.queue) > 0 {
		i := r.shared.queue[0]
		k := r.roomiest(now)
		if k < 0 {
			return
		}
		r.shared.queue = r.shared.queue[1:]
		j := &r.jobs[i]
		j.replica = k
		pages := min(j.req.Tokens/r.cfg.Page, len(j.keys))
		j.cached = min(r.shared.depth(j.keys[:pages])*r.cfg.Page, j.req.Tokens-1)
		uncached := j.req.Tokens - j.cached
		j.prefill = r.truth[k].Prefill(uncached, j.req.Tokens)
		j.tokens = int64(uncached)
		r.submit(now, i, r.equivalent(k, uncached, j.req.Tokens))
	}
}

// roomiest is the engine with the least prefill left whose waiting tokens do
// not fill a step; the fewest streams among equals; -1 if all are full.
func (r *run) roomiest(now float64) int {
	pos, least, streams := -1, math.Inf(1), 0
	for k := range r.engines {
		l := r.loads.sum(0, k)
		if l.tokens >= int64(r.cfg.Profile.Chunk) {
			continue
		}
		left := math.Max(l.prefill-math.Max(now-r.loads.first(0, k), 0), 0)
		if left < least || left == least && l.streams < streams {
			pos, least, streams = k, left, l.streams
		}
	}
	return pos
}

// equivalent is how many tokens without context cost what uncached tokens at
// the end of a prompt do: b*x + cq*x^2 = b*u + cq*u*(2L-u).
func (r *run) equivalent(k, uncached, tokens int) int {
	rates := &r.truth[k]
	u, l := float64(uncached), float64(tokens)
	if rates.CQ <= 0 {
		return uncached
	}
	cost := rates.B*u + rates.CQ*u*(2*l-u)
	x := (math.Sqrt(rates.B*rates.B+4*rates.CQ*cost) - rates.B) / (2 * rates.CQ)
	return max(int(math.Round(x)), 1)
}
