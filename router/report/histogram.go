package report

import (
	dto "github.com/prometheus/client_model/go"

	"github.com/banyan-llm/banyan/router/console"
)

// Quantiles reads p50 and p99 in ms off a histogram of seconds.
func Quantiles(h *dto.Histogram) console.Quantiles {
	q := console.Quantiles{Count: h.GetSampleCount()}
	if q.Count == 0 {
		return q
	}
	at := func(share float64) *float64 {
		want := share * float64(q.Count)
		low, below := 0.0, 0.0
		for _, b := range h.GetBucket() {
			if n := float64(b.GetCumulativeCount()); n >= want && n > below {
				ms := 1000 * (low + (b.GetUpperBound()-low)*(want-below)/(n-below))
				return &ms
			}
			low, below = b.GetUpperBound(), float64(b.GetCumulativeCount())
		}
		ms := 1000 * low
		return &ms
	}
	q.P50, q.P99 = at(.5), at(.99)
	return q
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
