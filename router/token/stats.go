package token

import (
	"maps"
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
	Unsupported Reason = "unsupported" // the replica has no tokenizer endpoint
	Cooling     Reason = "cooling"     // the replica failed lately
	Timeout     Reason = "timeout"     // no answer within the deadline
	Failed      Reason = "failed"      // connection or server error, or a strange answer
	Rejected    Reason = "rejected"    // the engine refused the prompt
	NoPrompt    Reason = "no_prompt"   // nothing to key
)

// Count is how often one scheme was used for one reason.
type Count struct {
	Scheme Scheme
	Reason Reason
}

// Stats is a copy of the counters since the start.
type Stats struct {
	Counts      map[Count]uint64
	CacheBytes  int
	CacheLength int
}

// maxModels bounds the memory of modes. Names come from outside, so strangers
// beyond it are not remembered.
const maxModels = 1024

// tally counts results and remembers the last scheme of each model.
type tally struct {
	mu     sync.Mutex
	counts map[Count]uint64
	models map[string]Scheme
}

func (t *tally) add(model string, k *Keys) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts[Count{k.Scheme, k.Reason}]++
	if k.Scheme != Engine && k.Scheme != Text {
		return
	}
	if _, known := t.models[model]; known || len(t.models) < maxModels {
		t.models[model] = k.Scheme
	}
}

// Stats returns the counters.
func (t *Tokenizer) Stats() Stats {
	s := Stats{}
	s.CacheLength, s.CacheBytes = t.cache.size()
	t.tally.mu.Lock()
	defer t.tally.mu.Unlock()
	s.Counts = maps.Clone(t.tally.counts)
	return s
}

// Modes returns the scheme last used for text prompts, per model.
func (t *Tokenizer) Modes() map[string]Scheme {
	t.tally.mu.Lock()
	defer t.tally.mu.Unlock()
	return maps.Clone(t.tally.models)
}
