package token

import (
	"cmp"
	"maps"
	"slices"
	"sync"
)

// Reason says why a prompt got its scheme; a closed list.
type Reason string

// The reasons.
const (
	Given       Reason = "given"       // the client sent token ids
	Asked       Reason = "asked"       // an engine answered
	Cached      Reason = "cached"      // an engine answered earlier
	Configured  Reason = "configured"  // text mode
	NoEngine    Reason = "no_engine"   // nobody to ask
	Unsupported Reason = "unsupported" // no endpoint of the replica tells the tokens of such a request
	Unaskable   Reason = "unaskable"   // this prompt holds what the replica's tokenizer endpoint does not take
	Differs     Reason = "differs"     // the replica's tokenizer endpoint counts other tokens than its engine
	Cooling     Reason = "cooling"     // the replica failed lately
	Timeout     Reason = "timeout"     // no answer within the deadline
	Busy        Reason = "busy"        // too many questions are under way
	Failed      Reason = "failed"      // connection or server error, or a strange answer
	Rejected    Reason = "rejected"    // the engine refused the prompt
	NoPrompt    Reason = "no_prompt"   // nothing to key
)

// standing reports whether the next prompt will get text keys too, until
// somebody changes something.
func (r Reason) standing() bool { return r == NoEngine || r == Unsupported || r == Differs }

// ownFault reports whether the reason lies in the prompt alone.
func (r Reason) ownFault() bool { return r == Rejected || r == Configured }

// Count is how often one scheme was used for one reason.
type Count struct {
	Scheme Scheme
	Reason Reason
}

// ModelCount is how often prompts for a model were keyed by one rung, or by
// what instead, for one reason.
type ModelCount struct {
	Model  string
	Rung   Rung
	Reason Reason
}

// Mode is how text prompts of one model and API were keyed last.
type Mode struct {
	Model  string
	Kind   Kind
	Scheme Scheme
	Rung   Rung   // of scheme Engine
	Reason Reason // of scheme Text
	Missed int    // prompts in a row that got text keys, none by its own fault
}

// missedMany is how many prompts in a row must get text keys for a passing
// reason until an operator should know.
const missedMany = 20

// Inexact reports whether prompts that could have exact keys get text keys,
// and not by the accident of a moment.
func (m *Mode) Inexact() bool {
	return m.Scheme == Text && m.Missed > 0 && (m.Reason.standing() || m.Missed >= missedMany)
}

// Stats is a copy of the counters since the start.
type Stats struct {
	Counts      map[Count]uint64
	Models      map[ModelCount]uint64
	Wrong       map[Rung]uint64 // answers whose length the engine's usage denied
	CacheBytes  int
	CacheLength int
}

// maxModels bounds the models told apart. Names come from outside, so
// strangers beyond it are counted as one.
const (
	maxModels   = 256
	otherModels = "other"
)

// modelKind is what modes are kept by.
type modelKind struct {
	model string
	kind  Kind
}

// tally counts results and remembers how prompts of each model were keyed.
type tally struct {
	mu     sync.Mutex // guards below
	counts map[Count]uint64
	models map[ModelCount]uint64
	wrong  map[Rung]uint64
	modes  map[modelKind]*Mode
	names  map[string]bool
}

func newTally() tally {
	return tally{
		counts: make(map[Count]uint64), models: make(map[ModelCount]uint64), wrong: make(map[Rung]uint64),
		modes: make(map[modelKind]*Mode), names: make(map[string]bool),
	}
}

// add counts one prompt. It reports whether the model has just become inexact.
func (t *tally) add(q *Query, k *Keys) (lost bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts[Count{k.Scheme, k.Reason}]++
	model := q.Model
	if !t.names[model] {
		if len(t.names) < maxModels {
			t.names[model] = true
		} else {
			model = otherModels
		}
	}
	t.models[ModelCount{model, k.Rung(), k.Reason}]++
	if k.Scheme != Engine && k.Scheme != Text || q.Body == nil || model == otherModels {
		return false
	}
	id := modelKind{model, q.Kind}
	m := t.modes[id]
	if m == nil {
		m = &Mode{Model: model, Kind: q.Kind}
		t.modes[id] = m
	}
	if k.Scheme == Text && k.Reason.ownFault() && m.Scheme != "" && k.Reason != Configured {
		return false // it says nothing of the next prompt
	}
	was := m.Inexact()
	m.Scheme, m.Rung, m.Reason = k.Scheme, k.Rung(), k.Reason
	switch {
	case k.Scheme == Engine:
		m.Missed = 0
	case !k.Reason.ownFault():
		m.Missed++
	}
	return !was && m.Inexact()
}

// differed counts an answer whose length the engine's usage denied.
func (t *tally) differed(r Rung) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wrong[r]++
}

// Stats returns the counters.
func (t *Tokenizer) Stats() Stats {
	s := Stats{}
	s.CacheLength, s.CacheBytes = t.cache.size()
	t.tally.mu.Lock()
	defer t.tally.mu.Unlock()
	s.Counts, s.Models, s.Wrong = maps.Clone(t.tally.counts), maps.Clone(t.tally.models), maps.Clone(t.tally.wrong)
	return s
}

// Modes returns how text prompts were keyed last, by model and API, in order.
func (t *Tokenizer) Modes() []Mode {
	t.tally.mu.Lock()
	defer t.tally.mu.Unlock()
	out := make([]Mode, 0, len(t.tally.modes))
	for _, m := range t.tally.modes {
		out = append(out, *m)
	}
	slices.SortFunc(out, func(a, b Mode) int { return cmp.Or(cmp.Compare(a.Model, b.Model), cmp.Compare(a.Kind, b.Kind)) })
	return out
}
