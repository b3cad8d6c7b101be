package policy

import "math"

// Bounds of what a Calibrator learns.
const (
	maxFactor   = 64.0 // rates stay within this factor of the configured ones
	maxSample   = 8.0  // one sample counts as at most this far off
	minGain     = 0.05 // by (seen/predicted)^.05 a sample
	minRunToken = 8    // tokens a run needs to say something about a decode step
	stepRise    = 1e-3 // the smallest step seen is forgotten this fast per run
	fetchGain   = 0.2  // by (seen/expected)^.2 a fetch that came
	forgetFetch = 0.01 // what was learned of fetching is forgotten this fast per first token

	// Blend: log deviations from the fleet up to alike are noise, from
	// different on they are real.
	alike     = 0.2
	different = 0.5
	trusted   = 100 // samples of one replica that count in the mean, at most
	doubted   = 20  // samples at which half of a deviation is believed
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
	moving  float64 // log of the factor on the time that fetching takes
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

// FirstToken learns from one sample. The first one counts half, later ones less,
// down to the power 0.05; a request that mostly waited, or whose prefill drowns in
// one decode step, says little about prefill rates and counts little.
func (c Calibrator) FirstToken(s Sample) Calibrator {
	if !(s.Predicted > 0 && s.Prefill > 0 && s.Seen > 0) || math.IsInf(s.Seen+s.Predicted+s.Prefill, 1) {
		return c
	}
	off := math.Log(s.Seen / s.Predicted)
	off = math.Max(-math.Log(maxSample), math.Min(off, math.Log(maxSample)))
	weight := math.Min(s.Prefill/s.Predicted, 1) * s.Prefill / (s.Prefill + c.idleStep())
	gain := math.Max(minGain, 1/float64(c.samples+2))
	limit := math.Log(maxFactor)
	c.moving *= 1 - forgetFetch
	c.scale = math.Max(-limit, math.Min(c.scale+gain*weight*off, limit))
	c.samples = min(c.samples+1, 1<<20)
	return c
}

// Fetch learns from one answer whose prompt was to be fetched in part: d is its
// decision, got whether the tokens came, and if so seen the seconds from dispatch
// to first token. A replica that computed them all the same is taken to be twice
// as slow at fetching, so that it soon is left alone; every first token of a
// prompt that it did not fetch makes it forget a little of that, or it would
// never be asked again.
func (c Calibrator) Fetch(d *Decision, seen float64, got bool) Calibrator {
	if d.Fetched <= 0 || !(d.Moving > 0) || got && !(seen > 0) || math.IsInf(seen+d.Moving, 1) {
		return c
	}
	off := math.Ln2
	if got {
		if queue := d.Predicted - d.Prefill; !(queue <= 1.001*d.Moving) {
			return c // its queue was longer than that: nothing was seen of it
		}
		took := math.Max(seen-d.Prefill, d.Moving/maxFactor)
		off = fetchGain * math.Max(-math.Ln2, math.Min(math.Log(took/d.Moving), math.Ln2))
	}
	limit := math.Log(maxFactor)
	c.moving = math.Max(-limit, math.Min(c.moving+off, limit))
	return c
}

// Run learns from one answer: seconds from first to last token and the number
// of tokens after the first. The mean over a run is used because chunks of a
// stream arrive in clumps; the least of these means is the idle decode step. An
// answer that came buffered looks like no time at all, so a step is not believed
// to be less than maxFactor below the configured one.
func (c Calibrator) Run(seconds float64, tokens int) Calibrator {
	if tokens < minRunToken || !(seconds > 0 && seconds < math.MaxFloat64) {
		return c
	}
	step := math.Max(c.base.usable().T0/maxFactor, math.Min(seconds/float64(tokens), 10))
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

// rates scales the configured rates by what was learned.
func (c *Calibrator) rates(scale, step float64) Rates {
	r := c.base
	factor := math.Exp(scale)
	r.A *= factor
	r.B *= factor
	r.CQ *= factor
	r.T0 = step
	r.Fetch = math.Exp(c.moving)
	return r
}

// Rates is what this replica's samples alone say; Speed is left as configured.
func (c Calibrator) Rates() Rates {
	c.base = c.base.usable()
	return c.rates(c.scale, c.idleStep())
}

// Samples counts the first tokens learned from.
func (c Calibrator) Samples() int { return c.samples }

// Blend appends the rates of replicas that serve one model, Speed filled in.
// Each replica's own samples are noisy, and noise between equal replicas costs
// more than a common error does (an error of sigma .4 in each costs 5-10 % of TTFT);
// so a replica is taken for like the others (the mean over samples) until it
// clearly differs. Decode steps are the fleet's least, as much slower at a
// replica as its prefill is: a busy replica never shows its idle step.
// O(replicas).
func Blend(dst []Rates, replicas []Calibrator) []Rates {
	var scale, samples float64
	step := math.Inf(1)
	for i := range replicas {
		c := &replicas[i]
		n := float64(min(c.samples, trusted))
		samples += n
		scale += n * c.scale
		if c.step > 0 {
			step = math.Min(step, c.step)
		}
	}
	scale /= math.Max(samples, 1)
	from := len(dst)
	for i := range replicas {
		c := replicas[i]
		c.base = c.base.usable()
		n := float64(c.samples)
		off := deviation((c.scale - scale) * n / (n + doubted))
		t0 := c.base.T0
		if !math.IsInf(step, 1) {
			t0 = step * math.Exp(off)
		}
		dst = append(dst, c.rates(scale+off, t0))
	}
	Relative(dst[from:])
	return dst
}

// deviation keeps what is more than noise.
func deviation(log float64) float64 {
	return log * math.Max(0, math.Min((math.Abs(log)-alike)/(different-alike), 1))
}
