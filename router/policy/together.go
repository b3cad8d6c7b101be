package policy

import "math"

// together places what others are taken to have sent with this request, unseen,
// as they would: each where the score is least, so that it waits for those
// before. They are taken to be like this request, as subagents of one session
// are: where one of them computes the prompt, the next one finds what the best
// holder has of it.
func (q *query) together() {
	n := min(q.view.Together, q.cfg.TTFT.BurstCap)
	if n <= 0 || q.stale() {
		return
	}
	least := math.MaxFloat64
	for _, i := range q.live {
		least = min(least, q.prefill[i])
	}
	for range n {
		b := best{q: q, pos: -1, quiet: true}
		for _, i := range q.live {
			b.offer(i, q.total(i))
		}
		i := b.pos
		q.base[i] += q.prefill[i] + q.cfg.TTFT.StreamWeight*q.cands[i].Rates.usable().T0
		q.waiting[i]++
		if q.prefill[i] > least {
			q.share[i] *= least / q.prefill[i]
			q.prefill[i], q.matched[i] = least, q.deepest
		}
	}
	q.findFewest()
}
