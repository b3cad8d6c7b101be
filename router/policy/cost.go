package policy

import "math"

// pickCost is Dynamo's KV router (lib/kv-router scheduling/selector.rs):
//
//	cost = overlap_weight * potential prefill blocks + potential decode blocks
//
// Potential means as if the request were already there. Prefill blocks are the
// uncached tokens waiting there and this request's own, over the block size;
// decode blocks are those its streams hold, those its waiting requests bring
// (here: at least their uncached tokens; peers do not share whole prompt
// lengths) and this request's. Above temperature 0 it samples from a softmax
// of the negated costs, normalised by their range.
func pickCost(q *query) (int, Reason) {
	cfg := &q.cfg.Cost
	q.base = grow(q.base, len(q.cands))
	block := float64(cfg.Block)
	for _, i := range q.live {
		c := &q.cands[i]
		uncached := math.Max(float64(q.req.Tokens)-q.credit(c, cfg.Host, cfg.Disk), 0)
		prefill := (float64(c.Tokens) + uncached) / block
		decode := float64(c.Blocks) + math.Ceil((float64(c.Tokens)+float64(q.req.Tokens))/block)
		q.base[i] = (cfg.OverlapWeight*prefill + decode) / q.weight(i)
	}
	pos := q.least(func(i int) float64 { return q.base[i] })
	if cfg.Temperature > 0 {
		pos = q.softmax(cfg.Temperature, pos)
	}
	return pos, q.prefixReason(pos)
}

// credit is how many tokens count as cached when slower tiers count less.
func (q *query) credit(c *Candidate, host, disk float64) float64 {
	gpu := q.onGPU(c)
	cpu := max(c.CPU, gpu)
	slow := max(c.Disk, c.Pool, cpu)
	return float64(gpu) + host*float64(cpu-gpu) + disk*float64(slow-cpu)
}

// softmax samples a live candidate by its cost in base; lowest is the
// position of the least.
func (q *query) softmax(temperature float64, lowest int) int {
	low, high := q.base[lowest], q.base[lowest]
	for _, i := range q.live {
		high = math.Max(high, q.base[i])
	}
	if high <= low {
		return lowest // all equal: least has chosen at random
	}
	total := 0.0
	odds := func(i int) float64 { return math.Exp((low - q.base[i]) / (high - low) / temperature) }
	for _, i := range q.live {
		total += odds(i)
	}
	at := q.view.Rand.Float64() * total
	for _, i := range q.live {
		if at -= odds(i); at < 0 {
			return i
		}
	}
	return lowest
}

// prefixReason says whether a score that mixes cache and load followed the
// cache: prefix if the winner holds nearly as much as anybody, load if nobody
// holds much, else spill.
func (q *query) prefixReason(pos int) Reason {
	deepest, winner := 0, 0
	for _, i := range q.live {
		m := q.deep(i)
		deepest = max(deepest, m)
		if i == pos {
			winner = m
		}
	}
	switch {
	case 10*deepest < q.req.Tokens || deepest == 0:
		return ReasonLoad
	case 10*winner >= 8*deepest:
		return ReasonPrefix
	}
	return ReasonSpill
}

// deep is the longest prefix a candidate holds on any tier.
func (q *query) deep(pos int) int {
	c := &q.cands[pos]
	return min(max(q.onGPU(c), c.CPU, c.Disk, c.Pool), q.req.Tokens)
}
