package simulation

import (
	"container/list"
	"math"
	"slices"

	"github.com/banyan-llm/banyan/simulation/replica"
)

// pool is the reference's shared cache and queue. A prompt is in the cache as
// soon as some replica has computed it.
type pool struct {
	cached map[uint64]*list.Element
	use    list.List // of keys, the latest in front
	limit  int       // keys; replica.Unlimited: no limit
	queue  []int     // jobs in order of arrival
	fleet  []backlog // per replica
}

// backlog is what a replica has in hand.
type backlog struct {
	waiting, streams int
	prefill          float64 // seconds, of those that wait
	tokens           int64   // uncached, likewise
	first            float64 // its last first token, or the dispatch that found nobody waiting
}

func newPool(limit, replicas int) *pool {
	p := &pool{cached: make(map[uint64]*list.Element), limit: limit, fleet: make([]backlog, replicas)}
	for k := range p.fleet {
		p.fleet[k].first = math.Inf(-1)
	}
	return p
}

func (p *pool) dispatch(now float64, j *job, _ bool) {
	b := &p.fleet[j.replica]
	if b.waiting == 0 {
		b.first = now
	}
	b.waiting, b.prefill, b.tokens = b.waiting+1, b.prefill+j.prefill, b.tokens+j.tokens
}

func (p *pool) firstToken(now float64, j *job) {
	b := &p.fleet[j.replica]
	b.waiting, b.prefill, b.tokens = b.waiting-1, b.prefill-j.prefill, b.tokens-j.tokens
	b.streams, b.first = b.streams+1, now
}

func (p *pool) finish(_ float64, j *job) { p.fleet[j.replica].streams-- }

// add enters keys or makes them young again, the last one first: a prompt's
// tail is forgotten before its head.
func (p *pool) add(keys []uint64) {
	for _, key := range slices.Backward(keys) {
		if p.limit == replica.Unlimited {
			p.cached[key] = nil
			continue
		}
		if e, ok := p.cached[key]; ok {
			p.use.MoveToFront(e)
			continue
		}
		p.cached[key] = p.use.PushFront(key)
		if p.limit != replica.Unlimited && p.use.Len() > p.limit {
			delete(p.cached, p.use.Remove(p.use.Back()).(uint64))
		}
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
		r.submit(now, i, j.cached)
	}
}

// roomiest is the engine with the least prefill left whose waiting tokens do
// not fill a step; the fewest streams among equals; -1 if all are full.
func (r *run) roomiest(now float64) int {
	pos, least, streams := -1, math.Inf(1), 0
	for k := range r.engines {
		l := &r.shared.fleet[k]
		if r.down[k] || l.tokens >= int64(r.cfg.Profile.Chunk) {
			continue
		}
		left := math.Max(l.prefill-math.Max(now-l.first, 0), 0)
		if left < least || left == least && l.streams < streams {
			pos, least, streams = k, left, l.streams
		}
	}
	return pos
}
