package policy

// pickSticky is llm-d's affinity with release: among the replicas that hold at
// least share of the prompt take the one with the fewest uncached tokens in
// flight, unless it has tau = R_peak * T_max more of them than the least busy
// replica of the fleet; then, or if nobody is warm, take the fewest tokens in
// flight anywhere.
func pickSticky(q *query) (int, Reason) {
	cfg := &q.cfg.Sticky
	q.match()
	flight := func(i int) float64 { return float64(q.cands[i].Tokens) / q.weight(i) }
	coldest := q.least(flight)
	warm := best{q: q, pos: -1}
	for _, i := range q.live {
		if float64(q.matched[i]) >= cfg.Share*float64(q.req.Tokens-1) && q.matched[i] > 0 {
			warm.offer(i, flight(i))
		}
	}
	if warm.pos < 0 {
		return coldest, ReasonLoad
	}
	rate := cfg.PeakRate
	if rate == 0 {
		rate = q.cands[warm.pos].Rates.PeakRate()
	}
	if flight(warm.pos)-flight(coldest) >= rate*cfg.TauSeconds {
		return coldest, ReasonSpill
	}
	return warm.pos, ReasonPrefix
}
