package router

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/banyan-llm/banyan/router/console"
)

// recentEvery and recentSamples make the last minute: totals since the start of
// a peer that has run for a week do not move any more.
const (
	recentEvery   = 5 * time.Second
	recentSamples = 12
)

// sample is what was counted up to a time.
type sample struct {
	at                                     time.Time
	total, failed, prompt, matched, cached uint64
	ttft, added                            *dto.Histogram
}

// recent keeps samples of the last minute.
type recent struct {
	mu   sync.Mutex // guards below
	list []sample   // oldest first, at most recentSamples
}

func (m *metrics) sample(now time.Time) sample {
	return sample{
		at: now, total: m.total.Load(), failed: m.failed.Load(), prompt: counterValue(m.prompt), matched: counterValue(m.matched),
		cached: counterValue(m.cached), ttft: readHistogram(m.ttft), added: readHistogram(m.overhead),
	}
}

// keep adds a sample if the last one is old enough.
func (r *recent) keep(now time.Time, m *metrics) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.list); n > 0 && now.Sub(r.list[n-1].at) < recentEvery {
		return
	}
	if len(r.list) == recentSamples {
		r.list = append(r.list[:0], r.list[1:]...)
	}
	r.list = append(r.list, m.sample(now))
}

// since is what happened after the oldest sample; nil before the first one.
func (r *recent) since(now time.Time, m *metrics) *console.Recent {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.list) == 0 {
		return nil
	}
	old, is := &r.list[0], m.sample(now)
	return &console.Recent{
		Seconds: is.at.Sub(old.at).Seconds(), Total: is.total - old.total, Failed: is.failed - old.failed,
		PromptTokens: is.prompt - old.prompt, MatchedTokens: is.matched - old.matched, CachedTokens: is.cached - old.cached,
		TTFTMs: quantilesOf(minus(is.ttft, old.ttft)), AddedMs: quantilesOf(minus(is.added, old.added)),
	}
}

func readHistogram(of prometheus.Histogram) *dto.Histogram {
	var out dto.Metric
	if of.Write(&out) != nil || out.GetHistogram() == nil {
		return &dto.Histogram{}
	}
	return out.GetHistogram()
}

// minus is what a histogram counted since an older reading of it.
func minus(is, old *dto.Histogram) *dto.Histogram {
	count := is.GetSampleCount() - old.GetSampleCount()
	out := &dto.Histogram{SampleCount: &count}
	for i, b := range is.GetBucket() {
		n := b.GetCumulativeCount()
		if i < len(old.GetBucket()) {
			n -= old.GetBucket()[i].GetCumulativeCount()
		}
		bound := b.GetUpperBound()
		out.Bucket = append(out.Bucket, &dto.Bucket{CumulativeCount: &n, UpperBound: &bound})
	}
	return out
}
