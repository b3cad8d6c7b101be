package metrics

import (
	"time"

	"github.com/banyan-llm/banyan/router/access"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/banyan-llm/banyan/router/report"
)

// Histogram reads a histogram; empty if it cannot be read.
func Histogram(of prometheus.Histogram) *dto.Histogram {
	var out dto.Metric
	if of.Write(&out) != nil || out.GetHistogram() == nil {
		return &dto.Histogram{}
	}
	return out.GetHistogram()
}

// Sample reads what the last minute is made of.
func (m *Metrics) Sample(now time.Time) report.Sample {
	return report.Sample{
		At: now, Total: m.Total.Load(), Failed: m.Failed.Load(), Prompt: Count(m.Prompt), Matched: Count(m.Matched),
		Cached: Count(m.Cached), NoPlace: Count(m.Refused.WithLabelValues("http", access.NoPlace)), TTFT: Histogram(m.TTFT), Added: Histogram(m.Overhead),
	}
}

// Count reads a counter.
func Count(c prometheus.Counter) uint64 {
	var m dto.Metric
	if c.Write(&m) != nil {
		return 0
	}
	return uint64(m.GetCounter().GetValue())
}
