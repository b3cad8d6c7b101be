package policy

// pickWeighted is llm-d's weighted sum of scorers, each from 0 to 1 and higher
// better, with max-score-picker's random choice among equals:
//
//	prefix-cache-scorer          matched share of the prompt
//	queue-scorer                 (max-queue)/(max-min), 1 if all are equal
//	kv-cache-utilization-scorer  1 - KV use
//	active-request-scorer        (max-n)/max over requests in flight, 1 if there are none
func pickWeighted(q *query) (int, Reason) {
	cfg := &q.cfg.Weighted
	queue := q.span(queued)
	active := q.span((*Candidate).requests)
	pos := q.least(func(i int) float64 {
		c := &q.cands[i]
		score := cfg.Prefix*min(q.credit(c, cfg.Host, 0)/float64(max(q.req.Tokens, 1)), 1) +
			cfg.Queue*queue.score(queued(c)) +
			cfg.KV*(1-kvUse(c)) +
			cfg.Active*active.share(c.requests())
		return -score * q.weight(i)
	})
	return pos, q.prefixReason(pos)
}

// queued is the engine's own queue where it is known, else requests without a
// first token.
func queued(c *Candidate) int {
	if c.Queued >= 0 {
		return max(c.Queued, c.Waiting)
	}
	return c.Waiting
}

func kvUse(c *Candidate) float64 {
	if !(c.KVUse > 0) {
		return 0
	}
	return min(c.KVUse, 1)
}

// span is the range of a count over the live candidates.
type span struct{ low, high int }

func (q *query) span(count func(*Candidate) int) span {
	s := span{low: count(&q.cands[q.live[0]])}
	for _, i := range q.live {
		n := count(&q.cands[i])
		s.low, s.high = min(s.low, n), max(s.high, n)
	}
	return s
}

// score is 1 at the low end and 0 at the high end.
func (s span) score(n int) float64 {
	if s.high <= s.low {
		return 1
	}
	return float64(s.high-n) / float64(s.high-s.low)
}

// share is 1 at nothing and 0 at the high end.
func (s span) share(n int) float64 {
	if s.high == 0 {
		return 1
	}
	return float64(s.high-n) / float64(s.high)
}
