package policy

// fetched is what fetching a part of the prompt from another replica comes to.
type fetched struct {
	tokens  int     // more than the replica holds itself; 0: it computes them
	prefill float64 // seconds it then computes
	moving  float64 // seconds until the tokens are there
	late    float64 // of those, what it does not wait for its queue anyway
}

// fetch weighs computing what a candidate lacks, own seconds after wait seconds
// in its queue, against fetching it from another replica. The tokens come in
// while the request waits, so only the time beyond the queue counts. The two
// replicas pay nothing else: vLLM serves them from host memory, and whoever does
// not get them computes.
func (q *query) fetch(c *Candidate, rates *Rates, matched int, own, wait float64) fetched {
	none := fetched{prefill: own}
	tokens := max(q.req.Tokens, 1)
	more := min(c.Fetch, tokens-1) - matched
	if more <= 0 {
		return none
	}
	factor := rates.Fetch
	if !(factor > 0) {
		factor = 1
	}
	f := fetched{tokens: more, prefill: rates.prefill(tokens-matched-more, tokens)}
	f.moving = factor * (q.cfg.Tiers.Ask + q.cfg.Tiers.Peer*float64(more))
	if c.FetchWait > 0 {
		f.moving += c.FetchWait * float64(max(1, min(q.view.Peers, q.cfg.TTFT.YoungCap))) // others do the same, unseen
	}
	f.late = max(f.moving-wait, 0)
	if !(f.late+f.prefill < own) {
		return none
	}
	return f
}

// plan completes a decision by what its winner fetches.
func (q *query) plan(d *Decision, wait float64) {
	c := &q.cands[d.Pos]
	rates := c.Rates.usable()
	f := q.fetch(c, &rates, d.Matched, d.Prefill, wait)
	d.Fetched, d.Moving, d.Prefill, d.Predicted = f.tokens, f.moving, f.prefill, wait+f.late+f.prefill
	tokens := max(q.req.Tokens, 1)
	sure := max(0, min(d.Matched, max(c.GPU, c.CPU, c.Disk, c.Pool)))
	if f = q.fetch(c, &rates, sure, rates.prefill(tokens-sure, tokens), wait); f.tokens > 0 {
		d.FetchTo = sure + f.tokens
	}
}
