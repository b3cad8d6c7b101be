package report

import (
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/banyan-llm/banyan/router/console"
)

// sampleEvery and samples make the last minute: totals since the start of a peer
// that has run for a week do not move any more.
const (
	sampleEvery = 5 * time.Second
	samples     = 12
)

// Sample is what was counted up to a time.
type Sample struct {
	At                                     time.Time
	Total, Failed, Prompt, Matched, Cached uint64
	NoPlace                                uint64 // connections turned away because limits.connections were open
	TTFT, Added                            *dto.Histogram
}

// LastMinute keeps samples of the last minute.
type LastMinute struct {
	Take func(now time.Time) Sample // reads the counters

	mu   sync.Mutex // guards below
	list []Sample   // oldest first, at most samples
}

// Keep adds a sample if the last one is old enough.
func (m *LastMinute) Keep(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := len(m.list); n > 0 && now.Sub(m.list[n-1].At) < sampleEvery {
		return
	}
	if len(m.list) == samples {
		m.list = append(m.list[:0], m.list[1:]...)
	}
	m.list = append(m.list, m.Take(now))
}

// Since is what happened after the oldest sample; nil before the first one.
func (m *LastMinute) Since(now time.Time) *console.Recent {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.list) == 0 {
		return nil
	}
	old, is := &m.list[0], m.Take(now)
	return &console.Recent{
		Seconds: is.At.Sub(old.At).Seconds(), Total: is.Total - old.Total, Failed: is.Failed - old.Failed,
		PromptTokens: is.Prompt - old.Prompt, MatchedTokens: is.Matched - old.Matched, CachedTokens: is.Cached - old.Cached,
		TurnedAway: is.NoPlace - old.NoPlace,
		TTFTMs:     Quantiles(minus(is.TTFT, old.TTFT)), AddedMs: Quantiles(minus(is.Added, old.Added)),
	}
}
