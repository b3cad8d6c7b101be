package policy

import "math"

// DefaultRates is assumed of a replica nobody has measured: a 32B model on two
// H100 (8,192 tokens in 0.41 s), ROUTING "q32".
func DefaultRates() Rates {
	return Rates{A: 0.015, B: 40e-6, CQ: 1e-9, T0: 0.016, Chunk: 8192, Speed: 1}
}

// sane reports whether every rate is a usable number.
func (r *Rates) sane() bool {
	return r.B > 0 && r.B < 1 && r.A >= 0 && r.A < 100 && r.CQ >= 0 && r.CQ < 1 &&
		r.T0 >= 0 && r.T0 < 100 && r.Chunk > 0 && r.Speed > 0 && r.Speed < math.MaxFloat64
}

// usable replaces what is missing or not a number by the defaults.
func (r Rates) usable() Rates {
	if r.sane() {
		return r
	}
	if !(r.B > 0 && r.B < 1) {
		speed := r.Speed
		r = DefaultRates()
		r.Speed = speed
	}
	if !(r.A >= 0 && r.A < 100) {
		r.A = 0
	}
	if !(r.CQ >= 0 && r.CQ < 1) {
		r.CQ = 0
	}
	if !(r.T0 >= 0 && r.T0 < 100) {
		r.T0 = 0
	}
	if r.Chunk <= 0 {
		r.Chunk = DefaultRates().Chunk
	}
	if !(r.Speed > 0 && r.Speed < math.MaxFloat64) {
		r.Speed = 1
	}
	return r
}

// Prefill is the seconds it takes to compute the last uncached tokens of a
// prompt: ceil(u/chunk)*a + b*u + cq*(L^2-(L-u)^2).
func (r Rates) Prefill(uncached, tokens int) float64 {
	r = r.usable()
	return r.prefill(uncached, tokens)
}

func (r *Rates) prefill(uncached, tokens int) float64 {
	u, l := float64(uncached), float64(tokens)
	steps := 1
	if uncached > r.Chunk {
		steps = (uncached + r.Chunk - 1) / r.Chunk
	}
	return float64(steps)*r.A + r.B*u + r.CQ*u*(2*l-u)
}

// PeakRate is tokens a second over a full chunk without context.
func (r Rates) PeakRate() float64 {
	r = r.usable()
	return float64(r.Chunk) / r.prefill(r.Chunk, r.Chunk)
}

// Relative fills Speed: each replica's time per token of a full chunk over
// the mean of all.
func Relative(rates []Rates) {
	sum := 0.0
	for _, r := range rates {
		sum += 1 / r.PeakRate()
	}
	for i, r := range rates {
		rates[i].Speed = 1 / r.PeakRate() / sum * float64(len(rates))
	}
}

// own is the prefix a candidate is believed to hold and the seconds of its own
// prefill. Of the tiers it takes the one that is soonest ready: a deeper match
// on a slower tier costs its transfer.
func (q *query) own(pos int) (matched int, seconds float64) {
	c := &q.cands[pos]
	if c.Rates.sane() {
		return q.ownAt(c, &c.Rates)
	}
	rates := c.Rates.usable()
	return q.ownAt(c, &rates)
}

func (q *query) ownAt(c *Candidate, rates *Rates) (matched int, seconds float64) {
	tokens := max(q.req.Tokens, 1)
	limit := tokens - 1 // engines compute at least the last token
	gpu := min(max(q.onGPU(c), 0), limit)
	matched, seconds = gpu, rates.prefill(tokens-gpu, tokens)
	if max(c.CPU, c.Disk, c.Pool) <= gpu {
		return matched, seconds
	}
	tiers := &q.cfg.Tiers
	for _, tier := range [...]struct {
		depth    int
		perToken float64
	}{{c.CPU, tiers.CPU}, {c.Disk, tiers.Disk}, {c.Pool, tiers.Pool}} {
		depth := min(tier.depth, limit)
		if depth <= gpu {
			continue
		}
		if s := rates.prefill(tokens-depth, tokens) + tier.perToken*float64(depth-gpu); s < seconds {
			matched, seconds = depth, s
		}
	}
	return matched, seconds
}

// onGPU is the depth expected on the GPU: confirmed facts, suspect ones
// discounted, or what dispatches are expected to have left there.
func (q *query) onGPU(c *Candidate) int {
	confirmed := c.GPU
	if c.Suspect > 0 {
		suspect := min(c.Suspect, confirmed)
		confirmed -= int(float64(suspect) * (1 - q.cfg.Tiers.Suspect))
	}
	return max(confirmed, c.Predicted)
}

// remaining is the waiting prefill of a candidate less the time since its last
// first token, but not below the progress floor.
func (q *query) remaining(c *Candidate, held float64) float64 {
	if !(held > 0) {
		return 0
	}
	floor := q.cfg.TTFT.ProgressFloor * held
	if c.FirstToken == 0 || q.view.NowMs <= c.FirstToken {
		return held
	}
	return max(held-float64(q.view.NowMs-c.FirstToken)/1000, floor)
}
