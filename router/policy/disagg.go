package policy

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// The modes of disaggregation.
const (
	DisaggOff         = "off"
	DisaggThreshold   = "threshold"
	DisaggConditional = "conditional"
)

// DisaggConfig says when a prompt is computed on a prefill replica and decoded
// on another one. The prices are estimates for a 32B model over 200 Gb/s, not
// measured here.
type DisaggConfig struct {
	Mode     string        `yaml:"mode" doc:"off; threshold: prompts with at least routing.disaggregate.tokens uncached tokens use a prefill replica; conditional: prompts whose first token is expected sooner that way"`
	Tokens   int           `yaml:"tokens" doc:"mode threshold: uncached tokens from which a prefill replica is used"`
	Transfer float64       `yaml:"transfer" doc:"seconds to hand one token's KV cache from the prefill to the decode replica"`
	Overhead float64       `yaml:"-"` // seconds that a second leg costs besides
	Stall    float64       `yaml:"-"` // conditional: weight of the delay that a prefill costs every stream decoding beside it
	Timeout  time.Duration `yaml:"timeout" doc:"longest wait for a prefill replica; then the decode replica computes the prompt itself"`
	Batch    int           `yaml:"-"` // streams a decode replica is meant to run at once, for the advised ratio
}

func defaultDisagg() DisaggConfig {
	return DisaggConfig{
		Mode: DisaggOff, Tokens: 2048, Transfer: 1e-5, Overhead: 0.02, Stall: 0.5, Timeout: time.Minute, Batch: 64,
	}
}

// On reports whether requests may be split at all.
func (c *DisaggConfig) On() bool { return c.Mode != DisaggOff && c.Mode != "" }

// validate reports every fault at once.
func (c *DisaggConfig) validate() error {
	var errs []error
	bad := func(key, format string, args ...any) {
		errs = append(errs, fmt.Errorf("disaggregate.%s: %s", key, fmt.Sprintf(format, args...)))
	}
	switch c.Mode {
	case DisaggOff, DisaggThreshold, DisaggConditional:
	default:
		bad("mode", "%q is not off, threshold or conditional", c.Mode)
	}
	for key, v := range map[string]float64{"tokens": float64(c.Tokens), "transfer": c.Transfer} {
		if !(v >= 0 && v <= math.MaxFloat64) {
			bad(key, "must be 0 or more, not %v", v)
		}
	}
	if c.Timeout <= 0 {
		bad("timeout", "must be more than 0, not %v", c.Timeout)
	}
	return errors.Join(errs...)
}

// SplitReason says why a request is served by one replica or by two; a closed
// list, used as a metric label.
type SplitReason string

// The reasons. All but SplitRemote and SplitOnly mean one replica.
const (
	SplitRemote SplitReason = "remote"  // a prefill and a decode replica share it
	SplitOnly   SplitReason = "only"    // they do because no single replica could serve it
	SplitShort  SplitReason = "short"   // too few uncached tokens
	SplitSooner SplitReason = "sooner"  // one replica is expected to be sooner
	SplitNoPair SplitReason = "no_pair" // no prefill and decode replica that understand each other
)

// Pools are the candidates of one request by what they may do for it. One
// replica may stand in several.
type Pools struct {
	Whole   []Candidate // may serve it alone
	Prefill []Candidate
	Decode  []Candidate
}

// Split is the decision between one replica and two.
type Split struct {
	Why   SplitReason
	Whole Decision // Pos in Pools.Whole, -1 if there is none
	// Pos in their pools, -1 unless two replicas share the request. The
	// Prefill seconds of Decode are what it would take to do it all there.
	Prefill, Decode Decision
}

// Remote reports whether two replicas share the request.
func (s *Split) Remote() bool { return s.Prefill.Pos >= 0 }

// Disaggregate decides between the best single replica, chosen by p, and the
// pair with the earliest expected first token, which is chosen jointly and by
// predicted time whatever p is:
//
//	pair  = score at P + overhead + transfer * tokens missing at D + work and streams at D
//	whole = score + stall * (own prefill - a decode step) * streams decoding there
//
// with the score of ttft. In threshold mode only the uncached tokens at the
// single replica count. O(candidates).
func Disaggregate(p Policy, cfg *Config, req *Request, view *View, pools *Pools) Split {
	s := Split{Why: SplitNoPair, Prefill: Decision{Pos: -1}, Decode: Decision{Pos: -1}}
	s.Whole = p.Decide(req, view, pools.Whole, nil)
	alone := s.Whole.Pos >= 0
	if alone && cfg.Disagg.Mode == DisaggThreshold && req.Tokens-s.Whole.Matched < cfg.Disagg.Tokens && len(pools.Prefill) > 0 {
		s.Why = SplitShort
		return s
	}
	prefill, decode, seconds, ok := bestPair(cfg, req, view, pools)
	if !ok {
		return s
	}
	switch {
	case !alone:
		s.Why = SplitOnly
	case cfg.Disagg.Mode == DisaggConditional && wholeSeconds(cfg, req, view, pools.Whole, s.Whole.Pos) <= seconds:
		s.Why = SplitSooner
		return s
	default:
		s.Why = SplitRemote
	}
	s.Prefill, s.Decode = prefill, decode
	return s
}

// wholeSeconds is what serving a request at one replica costs.
func wholeSeconds(cfg *Config, req *Request, view *View, cands []Candidate, pos int) float64 {
	q := newQuery(cfg, req, view, cands, nil)
	defer q.release()
	q.score(&best{q: q, pos: -1})
	longer := math.Max(q.prefill[pos]-cands[pos].Rates.usable().T0, 0) // than the step that the streams take anyway
	return q.total(pos) + cfg.Disagg.Stall*longer*float64(cands[pos].Streams)
}

// maxEngines bounds Candidate.Engine.
const maxEngines = 8

// bestPair finds the cheapest pair. Its cost is a sum of both sides, so the
// best of each side among replicas of one engine make the best pair of it.
func bestPair(cfg *Config, req *Request, view *View, pools *Pools) (prefill, decode Decision, seconds float64, ok bool) {
	if len(pools.Prefill) == 0 || len(pools.Decode) == 0 {
		return prefill, decode, 0, false
	}
	from := newQuery(cfg, req, view, pools.Prefill, nil)
	defer from.release()
	from.score(&best{q: from, pos: -1})
	first := from.sides(from.total)

	to := newQuery(cfg, req, view, pools.Decode, nil)
	defer to.release()
	to.weigh()
	tokens := max(req.Tokens, 1)
	second := to.sides(func(i int) float64 {
		return (to.base[i] + cfg.Disagg.Transfer*float64(tokens-to.matched[i])) / to.weight(i)
	})
	engine := -1
	for e := range first {
		if first[e].pos < 0 || second[e].pos < 0 {
			continue
		}
		if sum := first[e].score + second[e].score; engine < 0 || sum < seconds {
			engine, seconds = e, sum
		}
	}
	if engine < 0 {
		return prefill, decode, 0, false
	}
	seconds += cfg.Disagg.Overhead
	return from.decision(first[engine].pos), to.decision(second[engine].pos), seconds, true
}

// sides is the best candidate of every engine. Weight 0 keeps a replica out
// even where all have it: a drained pool is no pool.
func (q *query) sides(cost func(pos int) float64) [maxEngines]best {
	var out [maxEngines]best
	for e := range out {
		out[e] = best{q: q, pos: -1, quiet: true}
	}
	if q.all {
		return out
	}
	for _, i := range q.live {
		out[q.cands[i].Engine%maxEngines].offer(i, cost(i))
	}
	return out
}

// decision says what a side of a pair is expected to do.
func (q *query) decision(pos int) Decision {
	wait := q.remaining(&q.cands[pos], q.cands[pos].Prefill)
	return Decision{
		Pos: pos, Reason: q.prefixReason(pos), Matched: q.matched[pos], Prefill: q.prefill[pos], Predicted: wait + q.prefill[pos],
	}
}

// Traffic sums up answered requests.
type Traffic struct{ Requests, Input, Cached, Output float64 }

// minTraffic is how many requests an advice needs.
const minTraffic = 20

// Advise returns how many prefill replicas go with one decode replica for both
// to be equally busy: seconds of prefill a request over its share of a decode
// replica that runs Batch streams. ok is false until enough was measured. r.T0
// is the least step seen, so a crowded decode pool needs somewhat more.
func (c *DisaggConfig) Advise(t Traffic, r Rates) (ratio float64, ok bool) {
	if t.Requests < minTraffic || t.Output <= t.Requests {
		return 0, false
	}
	r = r.usable()
	input := t.Input / t.Requests
	uncached := max(1, input-t.Cached/t.Requests)
	decode := (t.Output/t.Requests - 1) * r.T0 / float64(c.Batch)
	if !(decode > 0) {
		return 0, false
	}
	return r.prefill(int(uncached), int(max(input, uncached))) / decode, true
}
