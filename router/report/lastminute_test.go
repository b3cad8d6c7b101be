package report

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// TestI4TheLastMinuteForgetsWhatIsOlder: totals since the start do not move.
func TestI4TheLastMinuteForgetsWhatIsOlder(t *testing.T) {
	ttft := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "ttft", Buckets: prometheus.ExponentialBuckets(.001, 2, 18)})
	var total, prompt, cached uint64
	m := LastMinute{Take: func(now time.Time) Sample {
		var h dto.Metric
		if err := ttft.Write(&h); err != nil {
			t.Fatal(err)
		}
		return Sample{At: now, Total: total, Prompt: prompt, Cached: cached, TTFT: h.GetHistogram(), Added: &dto.Histogram{}}
	}}
	now := time.Unix(1000, 0)
	if m.Since(now) != nil {
		t.Error("something is known before the first sample")
	}
	prompt += 1000
	ttft.Observe(30)
	m.Keep(now)
	if got := m.Since(now); got.PromptTokens != 0 || got.TTFTMs.Count != 0 || got.TTFTMs.P50 != nil {
		t.Errorf("what was before the first sample counts: %+v", got)
	}
	prompt, cached, total = prompt+100, 60, 3
	ttft.Observe(.2)
	for range 9 {
		now = now.Add(time.Second)
		m.Keep(now)
	}
	got := m.Since(now)
	if got.PromptTokens != 100 || got.CachedTokens != 60 || got.Total != 3 || got.Seconds != 9 || len(m.list) != 2 {
		t.Errorf("%+v, %d samples", got, len(m.list))
	}
	if got.TTFTMs.Count != 1 || *got.TTFTMs.P99 < 128 || *got.TTFTMs.P99 > 256 {
		t.Errorf("the old 30 s still count: %+v", got.TTFTMs)
	}
	for range 120 {
		now = now.Add(time.Second)
		m.Keep(now)
	}
	if got = m.Since(now); got.Total != 0 || got.Seconds > 65 || len(m.list) != samples {
		t.Errorf("after two quiet minutes %+v, %d samples", got, len(m.list))
	}
}
