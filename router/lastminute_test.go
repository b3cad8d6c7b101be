package router

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

func TestRecentForgetsWhatIsOlderThanAMinute(t *testing.T) {
	m := newMetrics(prometheus.NewRegistry(), "test")
	now := time.Unix(1000, 0)
	var r recent
	if r.since(now, m) != nil {
		t.Error("something is known before the first sample")
	}
	m.prompt.Add(1000)
	m.ttft.Observe(30)
	r.keep(now, m)
	if got := r.since(now, m); got.PromptTokens != 0 || got.TTFTMs.Count != 0 || got.TTFTMs.P50 != nil {
		t.Errorf("what was before the first sample counts: %+v", got)
	}
	m.prompt.Add(100)
	m.cached.Add(60)
	m.ttft.Observe(.2)
	m.total.Add(3)
	for range 9 {
		now = now.Add(time.Second)
		r.keep(now, m)
	}
	got := r.since(now, m)
	if got.PromptTokens != 100 || got.CachedTokens != 60 || got.Total != 3 || got.Seconds != 9 || len(r.list) != 2 {
		t.Errorf("%+v, %d samples", got, len(r.list))
	}
	if got.TTFTMs.Count != 1 || *got.TTFTMs.P99 < 128 || *got.TTFTMs.P99 > 256 {
		t.Errorf("the old 30 s still count: %+v", got.TTFTMs)
	}
	for range 120 {
		now = now.Add(time.Second)
		r.keep(now, m)
	}
	if got = r.since(now, m); got.Total != 0 || got.Seconds > 65 || len(r.list) != recentSamples {
		t.Errorf("after two quiet minutes %+v, %d samples", got, len(r.list))
	}
}
