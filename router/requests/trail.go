package requests

import (
	"math"
	"sync"
	"time"
)

// Bounds of one request's memory.
const (
	MaxDecisions  = 4  // further ones take the place of the last
	MaxCandidates = 64 // kept of one decision
)

// Decision is one choice of a replica, with what was known when it was made.
type Decision struct {
	At              time.Time
	Replica, Decode string // Decode: the replica that decodes, if another one
	Policy, Reason  string
	Keys            string        // how the prompt was made into block keys: ids, engine, text or none
	Matched, Prompt int           // tokens; matched at the winner
	Predicted       float64       // seconds to the first token; 0: the policy has no idea
	LoadAgeMs       float64       // how old other peers' load may be
	IndexAgeMs      float64       // how old what is known of caches may be
	Peers           int           // live ones
	Total           int           // candidates there were
	Waited          time.Duration // before it was sent, to hear what other peers did; 0: it was not
	From            string        // the replica that it was moved from meanwhile; "": none
	Source          string        // the replica that it fetches a part of the prompt from; "": none
	Fetched         int           // tokens of that part

	candidates []Candidate
}

// Candidate is one replica as a decision saw it. Score math.MaxFloat64 means
// that it was not considered.
type Candidate struct {
	Replica   string
	Score     float64 // lower is better
	Confirmed int     // prompt tokens cached there by its events
	Expected  int     // prompt tokens cached there by earlier dispatches
	Waiting   int     // requests there without a first token
	Streams   int     // streams there
}

// Trail is one request under way or remembered. All methods are safe for
// concurrent use, and for a nil Trail, which keeps nothing.
type Trail struct {
	mu        sync.Mutex // guards below; Book.mu may be held, never the other way round
	record    Record
	decisions []Decision
	begun     time.Time // monotonic
	ended     bool
}

// reset makes an old trail a new one that keeps its memory.
func (t *Trail) reset(id string, at time.Time) {
	t.record = Record{ID: id, At: at, Matched: Unknown, Prompt: Unknown, Cached: Unknown, Output: Unknown, Tries: t.record.Tries[:0]}
	t.decisions, t.begun, t.ended = t.decisions[:0], at, false
}

// Note lets set change the record. It must not keep it.
func (t *Trail) Note(set func(*Record)) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	set(&t.record)
}

// Decided keeps a decision and the first MaxCandidates of its candidates, which
// the caller may use again at once. O(candidates).
func (t *Trail) Decided(d *Decision, candidates []Candidate) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	n := min(len(t.decisions), MaxDecisions-1)
	if n < cap(t.decisions) {
		t.decisions = t.decisions[:n+1]
	} else {
		t.decisions = append(t.decisions[:n], Decision{})
	}
	kept := &t.decisions[n]
	room := kept.candidates[:0]
	*kept = *d
	kept.Total, kept.candidates = len(candidates), append(room, candidates[:min(len(candidates), MaxCandidates)]...)
	r := &t.record
	r.Replica, r.Decode, r.Policy, r.Reason, r.Matched = d.Replica, d.Decode, d.Policy, d.Reason, d.Matched
}

// Tried keeps how a try ended. answered: the client was given its answer.
func (t *Trail) Tried(try Try, begin time.Time, answered bool) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	r := &t.record
	try.Begin = max(0, begin.Sub(t.begun))
	if len(r.Tries) < MaxTries {
		r.Tries = append(r.Tries, try)
	} else {
		r.More++
	}
	if !answered {
		return
	}
	for i := range t.decisions {
		if d := &t.decisions[i]; d.Replica == try.Replica || d.Decode == try.Replica {
			r.Replica, r.Decode, r.Policy, r.Reason, r.Matched = d.Replica, d.Decode, d.Policy, d.Reason, d.Matched
		}
	}
}

// Told is a request as documents tell it; the fields of the record are those of
// the log's JSON line.
type Told struct {
	Peer      string         `json:"peer"`
	State     string         `json:"state"` // running or ended
	Request   ToldRecord     `json:"request"`
	Decisions []ToldDecision `json:"decisions"`
}

// ToldRecord is Record as JSON.
type ToldRecord struct {
	Time     string    `json:"time"`
	ID       string    `json:"id"`
	ClientID string    `json:"client_id"`
	Trace    string    `json:"trace_id"`
	Key      string    `json:"key"`
	Tenant   string    `json:"tenant"`
	Model    string    `json:"model"`
	Endpoint string    `json:"endpoint"`
	Stream   bool      `json:"stream"`
	Replica  string    `json:"replica"`
	Decode   string    `json:"decode_replica"`
	Policy   string    `json:"policy"`
	Reason   string    `json:"reason"`
	Status   int       `json:"status"`
	Error    string    `json:"error"`
	Queue    float64   `json:"queue_ms"`
	TTFT     *float64  `json:"ttft_ms"`
	Duration float64   `json:"duration_ms"`
	Matched  *int      `json:"matched_tokens"`
	Prompt   *int      `json:"prompt_tokens"`
	Cached   *int      `json:"cached_tokens"`
	Output   *int      `json:"output_tokens"`
	Tries    []ToldTry `json:"tries"`
	Total    int       `json:"tries_total"`
}

// ToldTry is Try as JSON.
type ToldTry struct {
	Replica string  `json:"replica"`
	Status  int     `json:"status"`
	Cause   string  `json:"cause"`
	Detail  string  `json:"detail"`
	Lost    bool    `json:"lost"`
	Before  int     `json:"before_tokens"`
	Begin   float64 `json:"begin_ms"`
	Took    float64 `json:"took_ms"`
}

// ToldDecision is Decision as JSON.
type ToldDecision struct {
	AtMs       float64         `json:"at_ms"` // after the request came
	Replica    string          `json:"replica"`
	Decode     string          `json:"decode_replica"`
	Policy     string          `json:"policy"`
	Reason     string          `json:"reason"`
	Keys       string          `json:"keys"`
	Matched    int             `json:"matched_tokens"`
	Prompt     int             `json:"prompt_tokens"`
	Predicted  *float64        `json:"predicted_ms"` // null: the policy has no idea
	LoadAgeMs  float64         `json:"load_age_ms"`
	IndexAgeMs float64         `json:"index_age_ms"`
	Peers      int             `json:"peers"`
	Count      int             `json:"candidates_total"`
	Waited     float64         `json:"waited_ms"`  // before it was sent, to hear what other peers did
	From       string          `json:"moved_from"` // the replica that it left meanwhile
	Source     string          `json:"kv_source"`  // the replica that it fetches a part of the prompt from
	Fetched    int             `json:"fetched_tokens"`
	Candidates []ToldCandidate `json:"candidates"`
}

// ToldCandidate is Candidate as JSON.
type ToldCandidate struct {
	Replica   string   `json:"replica"`
	Score     *float64 `json:"score"` // null: not considered, or not told
	Confirmed int      `json:"confirmed_tokens"`
	Expected  int      `json:"expected_tokens"`
	Waiting   int      `json:"waiting"`
	Streams   int      `json:"streams"`
}

// told copies the trail; a request under way has lasted until now.
func (t *Trail) told(peer string, now time.Time) *Told {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.record
	out := &Told{Peer: peer, State: "ended", Decisions: []ToldDecision{}}
	if !t.ended {
		out.State, r.Duration = "running", now.Sub(t.begun)
	}
	out.Request = r.told()
	for i := range t.decisions {
		out.Decisions = append(out.Decisions, t.decisions[i].told(t.begun))
	}
	return out
}

func (r *Record) told() ToldRecord {
	out := ToldRecord{
		Time: r.At.UTC().Format(timeLayout), ID: r.ID, ClientID: r.ClientID, Trace: string(appendTrace(nil, &r.Trace)), Key: whole(r.Client),
		Tenant: whole(r.Tenant), Model: whole(r.Model), Endpoint: r.Endpoint, Stream: r.Stream, Replica: r.Replica, Decode: r.Decode, Policy: r.Policy,
		Reason: r.Reason, Status: r.Status, Error: r.Error, Queue: ms(r.Queue), Duration: ms(r.Duration),
		Matched: known(r.Matched), Prompt: known(r.Prompt), Cached: known(r.Cached), Output: known(r.Output), Tries: []ToldTry{}, Total: len(r.Tries) + r.More,
	}
	if r.TTFT > 0 {
		ttft := ms(r.TTFT)
		out.TTFT = &ttft
	}
	for i := range r.Tries {
		t := &r.Tries[i]
		out.Tries = append(out.Tries, ToldTry{t.Replica, t.Status, t.Cause, t.Detail, t.Lost, t.Before, ms(t.Begin), ms(t.Took)})
	}
	return out
}

func (d *Decision) told(begun time.Time) ToldDecision {
	out := ToldDecision{
		AtMs: ms(max(0, d.At.Sub(begun))), Replica: d.Replica, Decode: d.Decode, Policy: d.Policy, Reason: d.Reason, Keys: d.Keys, Matched: d.Matched, Prompt: d.Prompt,
		LoadAgeMs: d.LoadAgeMs, IndexAgeMs: d.IndexAgeMs, Peers: d.Peers, Count: d.Total, Waited: ms(d.Waited), From: d.From, Source: d.Source, Fetched: d.Fetched, Candidates: make([]ToldCandidate, len(d.candidates)),
	}
	if predicted := 1000 * d.Predicted; predicted > 0 && finite(predicted) {
		out.Predicted = &predicted
	}
	for i, c := range d.candidates {
		q := ToldCandidate{Replica: c.Replica, Confirmed: c.Confirmed, Expected: c.Expected, Waiting: c.Waiting, Streams: c.Streams}
		if score := c.Score; finite(score) {
			q.Score = &score
		}
		out.Candidates[i] = q
	}
	return out
}

// finite also refuses the mark of those that were not considered.
func finite(v float64) bool { return !math.IsNaN(v) && math.Abs(v) < math.MaxFloat64 }

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func known(n int) *int {
	if n < 0 {
		return nil
	}
	return &n
}
