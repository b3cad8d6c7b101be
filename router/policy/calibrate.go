package policy

import "math"

// Bounds of what a Calibrator learns.
const (
	maxFactor   = 64.0 // rates stay within this factor of the configured ones
	maxSample   = 8.0  // one sample counts as at most this far off
	minGain     = 0.05 // ROUTING.md section 4: (seen/predicted)^.05
	minRunToken = 8    // tokens a run needs to say something about a decode step
	stepRise    = 1e-3 // the smallest step seen is forgotten this fast per run
)

// Calibrator learns how fast one replica is from the first tokens this peer
// sees. It is a value: each call returns the next one. It learns one factor on
// all prefill rates, because first tokens alone cannot tell the coefficients
// apart; a wrong factor of two costs about 10 % of mean TTFT, so a few samples
// are enough. Invariant I7 bounds it.
type Calibrator struct {
	base    Rates
	scale   float64 // log of the factor
	samples int
	step    float64 // idle decode step learned; 0: none yet
}

// NewCalibrator starts from configured rates, or from DefaultRates where they
// are missing.
func NewCalibrator(base Rates) Calibrator { return Calibrator{base: base.usable()} }

// Sample is one first token: what the decision expected and what came.
type Sample struct {
	Predicted float64 // Decision.Predicted, seconds
	Prefill   float64 // Decision.Prefill: the request's own part of it
	Seen      float64 // seconds from dispatch to first token
}

// FirstToken learns from one sample. The first ones count fully, later ones
// with the power 0.05; a request that mostly waited, or whose prefill drowns in
// one decode step, says little about prefill rates and counts little.
func (c Calibrator) FirstToken(s Sample) Calibrator {
	if !(s.Predicted > 0 && s.Prefill > 0 && s.Seen > 0) || math.IsInf(s.Seen+s.Predicted+s.Prefill, 1) {
		return c
	}
	off := math.Log(s.Seen / s.Predicted)
	off = math.Max(-math.Log(maxSample), math.Min(off, math.Log(maxSample)))
	weight := math.Min(s.Prefill/s.Predicted, 1) * s.Prefill / (s.Prefill + c.idleStep())
	gain := math.Max(minGain, 1/float64(c.samples+1))
	limit := math.Log(maxFactor)
	c.scale = math.Max(-limit, math.Min(c.scale+gain*weight*off, limit))
	c.samples = min(c.samples+1, 1<<20)
	return c
}

// Run learns from one answer: seconds from first to last token and the number
// of tokens after the first. The mean over a run is used because chunks of a
// stream arrive in clumps; the least of these means is the idle decode step.
func (c Calibrator) Run(seconds float64, tokens int) Calibrator {
	if tokens < minRunToken || !(seconds > 0 && seconds < math.MaxFloat64) {
		return c
	}
	step := math.Max(1e-5, math.Min(seconds/float64(tokens), 10))
	if c.step == 0 || step < c.step {
		c.step = step
	} else {
		c.step *= 1 + stepRise
	}
	return c
}

func (c Calibrator) idleStep() float64 {
	if c.step > 0 {
		return c.step
	}
	return c.base.T0
}

// Rates is what is known now; Speed is left as configured (see Relative).
func (c Calibrator) Rates() Rates {
	r := c.base.usable()
	factor := math.Exp(c.scale)
	r.A *= factor
	r.B *= factor
	r.CQ *= factor
	r.T0 = c.idleStep()
	return r
}

// Samples counts the first tokens learned from.
func (c Calibrator) Samples() int { return c.samples }
