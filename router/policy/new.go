package policy

import (
	"fmt"
	"strings"
)

// Default is the policy used when nothing else is asked for.
const Default = "ttft"

// Names lists the policies New knows, baselines first.
func Names() []string {
	return []string{
		"random", "round_robin", "least_loaded", "power_of_two", "consistent_hash",
		"cache_aware", "prefix", "cost", "weighted", "sticky", Default,
	}
}

// New returns the policy of that name. The configuration is checked whole.
func New(name string, cfg Config) (Policy, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("policy %s: %w", name, err)
	}
	p := &policy{name: name, cfg: cfg}
	switch name {
	case "random":
		p.pick = pickRandom
	case "round_robin":
		p.pick = (&roundRobin{}).pick
	case "least_loaded":
		p.pick = pickLeastLoaded
	case "power_of_two":
		p.pick = pickPowerOfTwo
	case "consistent_hash":
		p.pick = pickConsistentHash
	case "cache_aware":
		p.pick = pickCacheAware
	case "prefix":
		p.pick = pickPrefix
	case "cost":
		p.pick = pickCost
	case "weighted":
		p.pick = pickWeighted
	case "sticky":
		p.pick = pickSticky
	case Default:
		p.pick = pickTTFT
	default:
		return nil, fmt.Errorf("policy %q is not one of %s", name, strings.Join(Names(), ", "))
	}
	return p, nil
}

// policy is what all policies share: the weight filter, the scratch space and
// what a decision says of the winner.
type policy struct {
	name string
	cfg  Config
	pick func(q *query) (pos int, reason Reason)
}

// Name is the policy's name as configured.
func (p *policy) Name() string { return p.name }

// Decide picks one of the candidates; see Policy.
func (p *policy) Decide(req *Request, view *View, cands []Candidate, scores []float64) Decision {
	if len(cands) == 0 {
		return Decision{Pos: -1, Reason: ReasonOnly}
	}
	q := newQuery(&p.cfg, req, view, cands, scores)
	defer q.release()
	pos, reason := q.live[0], ReasonOnly
	if len(q.live) > 1 {
		pos, reason = p.pick(q)
	}
	matched, own := q.own(pos)
	wait := q.remaining(&cands[pos], cands[pos].Prefill)
	d := Decision{Pos: pos, Reason: reason, Matched: matched, Prefill: own, Predicted: wait + own}
	if cands[pos].Fetch > 0 {
		q.plan(&d, wait)
	}
	return d
}
