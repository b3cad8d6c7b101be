package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/banyan-llm/banyan/router/access"
	"github.com/banyan-llm/banyan/router/disagg"
	"github.com/banyan-llm/banyan/router/pick"
	"github.com/banyan-llm/banyan/router/proxy"
	"github.com/banyan-llm/banyan/router/token"
)

// New makes the series and registers them.
func New(reg *prometheus.Registry, version string) *Metrics {
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m, f := &Metrics{Registry: reg, Usage: newUsage(reg)}, factory{promauto.With(reg)}
	m.ofRequests(f)
	m.ofTokens(f)
	m.ofStreams(f)
	m.ofTries(f)
	m.ofConfiguration(f)
	f.NewGaugeVec(prometheus.GaugeOpts{Name: "banyan_build_info", Help: "1, with the version."}, []string{"version"}).
		WithLabelValues(version).Set(1)
	return m
}

func (m *Metrics) ofRequests(f factory) {
	latency := prometheus.ExponentialBuckets(.001, 2, 18) // 1 ms .. 131 s
	quick := prometheus.ExponentialBuckets(1e-6, 2, 20)   // 1 us .. 0.5 s
	m.Requests = f.counters("banyan_requests_total", "Requests answered, by policy, reason of the choice and HTTP status.", "policy", "reason", "code")
	m.TTFT = f.histogram("banyan_request_ttft_seconds", "Time from the request to its first streamed byte.", latency)
	m.Duration = f.histogram("banyan_request_duration_seconds", "Time from the request to the end of its answer.", latency)
	m.Decision = f.histogram("banyan_decision_seconds", "Time to choose a replica, without tokenization.", quick)
	m.Overhead = f.histogram("banyan_proxy_overhead_seconds", "Time from the request's arrival to its dispatch, without waiting in the queue.", quick)
	m.AnnouncedLate = f.counter("banyan_dispatch_announcements_late_total", "Dispatches whose request waited until their blocks were announced, because too many others were not yet.")
	m.Cut = f.counter("banyan_answers_cut_total", "Answers that broke off, or told of an error, after their first byte.")
	m.Disconnects = f.counter("banyan_client_disconnects_total", "Clients that left before their answer ended.")
	m.QueueWait = f.histogram("banyan_queue_wait_seconds", "Time in the queue, of requests that could not be dispatched at once.", latency)
	m.Waits = closed(f, "banyan_queue_total", "Requests that could not be dispatched at once, by how their wait ended.", "outcome", proxy.Outcomes)
	m.Refused = f.counters("banyan_access_refused_total", "Requests refused before they were looked at, by listener and why.", "listener", "why")
	for _, r := range access.Refusals {
		m.Refused.WithLabelValues(r[0], r[1])
	}
}

func (m *Metrics) ofTokens(f factory) {
	tokens := prometheus.ExponentialBuckets(16, 4, 8) // 16 .. 262,144
	m.Matched = f.counter("banyan_matched_tokens_total", "Prompt tokens believed cached at the chosen replica, of answers that reported cached tokens.")
	m.Prompt = f.counter("banyan_prompt_tokens_total", "Prompt tokens of answers, as engines reported.")
	m.Cached = f.counter("banyan_cached_tokens_total", "Prompt tokens found cached, as engines reported.")
	m.Output = f.counter("banyan_output_tokens_total", "Generated tokens, as engines reported.")
	m.PredictionError = f.histogram("banyan_prediction_error_tokens", "Absolute difference between believed and reported cached tokens.", tokens)
	m.Tokenized = f.counters("banyan_tokenized_total", "Prompts turned into block keys, by mode and why.", "mode", "reason")
	for mode, why := range keyings {
		for _, reason := range why {
			m.known = append(m.known, keyedCounter{token.Count{Scheme: mode, Reason: reason}, m.Tokenized.WithLabelValues(string(mode), string(reason))})
		}
	}
}

func (m *Metrics) ofStreams(f factory) {
	spread := prometheus.ExponentialBuckets(.0001, 2, 18) // 0.1 ms .. 13 s
	m.Gaps = f.counter("banyan_stream_gap_total", "Gaps seen in engines' event streams.")
	m.Lost = f.counter("banyan_stream_lost_batches_total", "Event batches declared lost.")
	m.FollowFailures = f.counter("banyan_stream_follow_failures_total", "Attempts to follow a stream that failed at once; each is tried again.")
	m.Propagation = f.histogram("banyan_mesh_propagation_seconds", "Time from an event's receipt at one peer to its visibility at this one.", spread)
}

// ofTries makes those of tries at replicas and of what was done for them.
func (m *Metrics) ofTries(f factory) {
	m.Retries = closed(f, "banyan_retries_total", "Requests tried again on another replica, by cause.", "cause",
		[]proxy.Cause{proxy.CauseConnect, proxy.CauseReset, proxy.CauseStatus, proxy.CauseTimeout})
	m.Hedges = closed(f, "banyan_hedges_total", "Requests sent to a second replica because the first was slow to begin, by how that ended.", "outcome", proxy.HedgeOutcomes)
	m.SecondLooks = closed(f, "banyan_second_looks_total", "Decisions held for 2 ms to hear what other peers sent at the same moment, by outcome: alone and stayed went where they were to go, moved to a replica that was better then, left had lost their client.", "outcome", pick.Looks)
	m.Fetches = closed(f, "banyan_kv_fetches_total", "Requests whose replica was told to fetch a part of the prompt from another replica (p2p), by outcome: fetched, computed (it did not get most of it; look at the engines' P2P tier), or unknown (the engine does not say what it found cached, or gave no answer).", "outcome",
		[]string{FetchCame, FetchComputed, FetchUnknown})
	m.LostStreams = closed(f, "banyan_lost_streams_total", "Streams whose replica was lost after their first byte, with limits.continue_streams: continued by another one, or why the client saw them break off.", "outcome", proxy.Resumptions)
	m.Splits = closed(f, "banyan_split_decisions_total", "Decisions between one replica and a prefill-decode pair, by why; remote and only are pairs.", "why", Splits)
	m.Legs = closed(f, "banyan_prefill_legs_total", "Prefill legs, by outcome.", "outcome", disagg.Outcomes)
}

func (m *Metrics) ofConfiguration(f factory) {
	m.ReloadOK = f.NewGauge(prometheus.GaugeOpts{Name: "banyan_config_last_reload_success", Help: "1 if the last configuration load succeeded."})
	m.ReloadOK.Set(1)
	m.Reloads = f.counter("banyan_config_reloads_total", "Configuration reloads that took effect.")
	m.ReloadFailures = f.counter("banyan_config_reload_failures_total", "Configuration reloads rejected because of a fault; the previous configuration stayed in force.")
}

// factory makes series.
type factory struct{ promauto.Factory }

func (f factory) counter(name, help string) prometheus.Counter {
	return f.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}

func (f factory) counters(name, help string, labels ...string) *prometheus.CounterVec {
	return f.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func (f factory) histogram(name, help string, buckets []float64) prometheus.Histogram {
	return f.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
}

// closed makes a counter whose label takes values of a closed list: each stands
// from the start, for a counter that appears with its first increase hides that
// increase.
func closed[S ~string](f factory, name, help, label string, values []S) *prometheus.CounterVec {
	c := f.counters(name, help, label)
	for _, v := range values {
		c.WithLabelValues(string(v))
	}
	return c
}
