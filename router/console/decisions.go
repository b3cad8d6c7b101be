package console

import (
	"math"
	"sync"
)

// Bounds of the ring of decisions.
const (
	MaxDecisions  = 512
	MaxCandidates = 64 // kept of one decision
)

// Decision is one choice of a replica: no prompt text, no header values.
type Decision struct {
	Seq        uint64      `json:"seq"`
	TimeMs     int64       `json:"time_ms"`
	Request    string      `json:"request_id"`
	Replica    string      `json:"replica"`
	Decode     string      `json:"decode,omitempty"` // the replica that decodes, if another one
	Policy     string      `json:"policy"`
	Reason     string      `json:"reason"`
	Matched    int         `json:"matched_tokens"` // believed cached at the winner
	Prompt     int         `json:"prompt_tokens"`
	Predicted  *float64    `json:"predicted_ms"` // to the first token; null: the policy has no idea
	Count      int         `json:"candidates_total"`
	Candidates []Candidate `json:"candidates"`
}

// Candidate is one replica as the decision saw it.
type Candidate struct {
	Replica   string   `json:"replica"`
	Score     *float64 `json:"score"`            // lower is better; null: not considered or not told
	Confirmed int      `json:"confirmed_tokens"` // of the prompt, cached there by its events
	Expected  int      `json:"expected_tokens"`  // of the prompt, cached there by earlier dispatches
	Waiting   int      `json:"waiting"`
	Streams   int      `json:"streams"`
}

// Choice is a decision as the request path hands it over: values only, so that
// recording allocates nothing once the ring is full.
type Choice struct {
	TimeMs           int64
	Request          string // its id
	Replica, Decode  string
	Policy, Reason   string
	Matched, Prompt  int
	PredictedSeconds float64 // 0: unknown
	Candidates       []Option
}

// Option is one candidate of a Choice. Score math.MaxFloat64 means that it was
// not considered.
type Option struct {
	Replica             string
	Score               float64
	Confirmed, Expected int
	Waiting, Streams    int
}

// decisions keeps the last MaxDecisions choices. O(candidates) to add.
type decisions struct {
	mu   sync.Mutex // guards below; never held while calling out
	ring [MaxDecisions]kept
	next uint64 // number of choices ever added
}

type kept struct {
	choice Choice
	count  int
}

// add copies c; its slice may be used again at once.
func (d *decisions) add(c *Choice) {
	d.mu.Lock()
	defer d.mu.Unlock()
	k := &d.ring[d.next%MaxDecisions]
	options := append(k.choice.Candidates[:0], c.Candidates[:min(len(c.Candidates), MaxCandidates)]...)
	k.choice, k.count = *c, len(c.Candidates)
	k.choice.Candidates = options
	d.next++
}

// last returns the newest n decisions with a number above after, newest first.
// Numbers begin with 1.
func (d *decisions) last(n int, after uint64) []Decision {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := []Decision{}
	for seq := d.next; seq > after && d.next-seq < MaxDecisions && len(out) < n; seq-- {
		out = append(out, d.ring[(seq-1)%MaxDecisions].decision(seq))
	}
	return out
}

// newest is the number of the last decision, 0 before the first.
func (d *decisions) newest() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.next
}

func (k *kept) decision(seq uint64) Decision {
	c := &k.choice
	out := Decision{
		Seq: seq, TimeMs: c.TimeMs, Request: c.Request, Replica: c.Replica, Decode: c.Decode, Policy: c.Policy, Reason: c.Reason, Matched: c.Matched, Prompt: c.Prompt,
		Count: k.count, Candidates: make([]Candidate, len(c.Candidates)),
	}
	if ms := 1000 * c.PredictedSeconds; ms > 0 && finite(ms) {
		out.Predicted = &ms
	}
	for i, o := range c.Candidates {
		q := Candidate{Replica: o.Replica, Confirmed: o.Confirmed, Expected: o.Expected, Waiting: o.Waiting, Streams: o.Streams}
		if score := o.Score; finite(score) {
			q.Score = &score
		}
		out.Candidates[i] = q
	}
	return out
}

// finite also refuses the mark of those that were not considered.
func finite(v float64) bool { return !math.IsNaN(v) && math.Abs(v) < math.MaxFloat64 }
