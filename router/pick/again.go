package pick

import (
	"math/rand/v2"

	"github.com/banyan-llm/banyan/router/load"
	"github.com/banyan-llm/banyan/router/policy"
)

// A decision that costs a replica at least worthAgain seconds of prefill waits
// for AgainMs before it is sent: so long do frames take, and what other peers
// sent at the same moment is known then. One that was moved waits once more,
// and MaxLooks times in all.
const (
	AgainMs    = 2
	MaxLooks   = 8
	worthAgain = .06
	drawSeed   = 0x616761696e
)

// Look is what a second look at a decision came to; a closed list, used as a
// metric label.
type Look string

// The outcomes of second looks.
const (
	LookAlone  Look = "alone"  // nobody else had sent anything to its replica
	LookStayed Look = "stayed" // its replica is still the best
	LookMoved  Look = "moved"  // another one is better
	LookLeft   Look = "left"   // the client left meanwhile
)

// Looks lists the outcomes.
var Looks = []Look{LookAlone, LookStayed, LookMoved, LookLeft}

// WorthAgain reports whether a decision between so many candidates should be
// looked at again before it is sent: another peer may have decided alike at the
// same moment, which costs more than the wait. A peer that is alone, or to which
// a live peer has been silent for long (Silences.Ages), cannot gain by it; the
// policies that do not look at load at all, or were built to be compared with,
// are left as they are.
func WorthAgain(pol policy.Policy, view *policy.View, d *policy.Decision, candidates int) bool {
	return d.Prefill >= worthAgain && candidates > 1 && view.Peers > 1 && view.AgeMs <= AgainMs && pol.Name() == policy.Default
}

// Again decides a request anew that is booked at cands[at], when this peer has
// heard what else was sent there at the same time. All those requests are taken
// out and placed again in an order that all peers know, each as one router
// would have that knew of those before it. So the peers come to one answer and
// need not agree on it: the first one stays, and the others do not all run to
// the same next replica. Whoever comes later in the order does the same.
//
// The others' prompts are not known here. They are taken for like this one,
// which they mostly are: they chose the same replica. O(others) decisions. The
// candidates are changed; view is not.
func Again(pol policy.Policy, req *policy.Request, view *policy.View, cands []policy.Candidate, scores []float64, at int, c *load.Cost, sent []load.Sent) policy.Decision {
	knowing := *view
	home := &cands[at]
	knowing.Peers, knowing.AgeMs = 1, 0                     // nothing is unseen now
	knowing.Rand = rand.New(rand.NewPCG(home.ID, drawSeed)) // all peers draw alike, or each would place the others elsewhere
	take(home, c.Prefill, c.Tokens)
	for i := range sent {
		if s := &sent[i]; s.Prefill >= worthAgain { // the rest is not looked at again
			take(home, s.Prefill, s.Tokens)
		}
	}
	for i := range sent {
		s := &sent[i]
		if !s.Before || s.Prefill < worthAgain {
			continue
		}
		d := pol.Decide(req, &knowing, cands, scores)
		if d.Pos < 0 {
			break
		}
		q := &cands[d.Pos]
		q.Waiting++
		q.Prefill += d.Prefill * s.Prefill / c.Prefill
		q.Tokens += s.Tokens
	}
	return pol.Decide(req, &knowing, cands, scores)
}

// take takes a request without a first token out of what is known of a replica.
func take(q *policy.Candidate, prefill float64, tokens int64) {
	q.Waiting = max(0, q.Waiting-1)
	q.Prefill, q.Tokens = max(0, q.Prefill-prefill), max(0, q.Tokens-tokens)
}
