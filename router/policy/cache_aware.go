package policy

// pickCacheAware is SGLang's router (sgl-router policies/cache_aware.rs) with
// the published 0.3 / 64 / 1.5 on the true index instead of its approximate
// tree. With gate "fleet" (classic), one overloaded replica sends everything
// to the least loaded. With gate "candidate", only a holder that is itself
// overloaded is passed over. Where nobody holds enough, the least loaded one
// is taken (older releases: the smallest tree).
func pickCacheAware(q *query) (int, Reason) {
	cfg := &q.cfg.CacheAware
	q.match()
	low, high := q.cands[q.live[0]].requests(), 0
	for _, i := range q.live {
		n := q.cands[i].requests()
		low, high = min(low, n), max(high, n)
	}
	if cfg.Gate == GateFleet && cfg.over(high, low) {
		return q.least(q.load), ReasonSpill
	}
	holder := best{q: q, pos: -1}
	passed := false
	for _, i := range q.live {
		if float64(q.matched[i]) <= cfg.CacheThreshold*float64(q.req.Tokens) {
			q.explain(i, 0)
			continue
		}
		if cfg.Gate == GateCandidate && cfg.over(q.cands[i].requests(), low) {
			passed = true
			continue
		}
		holder.offer(i, -float64(q.matched[i]))
	}
	switch {
	case holder.pos >= 0:
		return holder.pos, ReasonPrefix
	case passed:
		return q.least(q.load), ReasonSpill
	}
	return q.least(q.load), ReasonLoad
}

// over reports whether load is more than both thresholds above low.
func (cfg *CacheAwareConfig) over(load, low int) bool {
	return load-low > cfg.BalanceAbs && float64(load) > cfg.BalanceRel*float64(low)
}

// pickPrefix is greedy longest match. Nearly all prompts of real traffic share
// their first block, so one replica ends up with everything; it is here to be
// measured against.
func pickPrefix(q *query) (int, Reason) {
	q.match()
	return q.least(func(i int) float64 { return -float64(q.matched[i]) }), ReasonPrefix
}
