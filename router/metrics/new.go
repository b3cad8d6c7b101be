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
	f.NewGaugeVec(prometheus.GaugeOpts{Name: "banyan_build_info", Help: "Always 1; the label has the version."}, []string{"version"}).
		WithLabelValues(version).Set(1)
	return m
}

func (m *Metrics) ofRequests(f factory) {
	latency := prometheus.ExponentialBuckets(.001, 2, 18) // 1 ms .. 131 s
	quick := prometheus.ExponentialBuckets(1e-6, 2, 20)   // 1 us .. 0.5 s
	m.Requests = f.counters("banyan_requests_total", "Requests answered, by policy, reason of the choice (prefix, load, spill = the replica that holds the prefix was too busy, session, stale = data from other peers was too old, only = no other replica, baseline = a policy without caches) and HTTP status.", "policy", "reason", "code")
	m.TTFT = f.histogram("banyan_request_ttft_seconds", "Time from the request to its first streamed byte.", latency)
	m.Duration = f.histogram("banyan_request_duration_seconds", "Time from the request to the end of its response.", latency)
	m.Decision = f.histogram("banyan_decision_seconds", "Time to choose a replica, without tokenization.", quick)
	m.Overhead = f.histogram("banyan_proxy_overhead_seconds", "Time from a request's arrival to its dispatch, without the time in the queue.", quick)
	m.AnnouncedLate = f.counter("banyan_dispatch_announcements_late_total", "Requests sent only after their blocks were announced to the other peers, because too many announcements were pending: this peer is short of CPU.")
	m.Cut = f.counter("banyan_answers_cut_total", "Responses that ended early, or with an error, after their first byte.")
	m.Disconnects = f.counter("banyan_client_disconnects_total", "Clients that disconnected before their response ended.")
	m.QueueWait = f.histogram("banyan_queue_wait_seconds", "Time in the queue; counts only requests that had to queue.", latency)
	m.Waits = closed(f, "banyan_queue_total", "Requests that had to queue, by outcome: admitted, full (429: no room in the queue, or in the part of the tenant), displaced (429: made room for a better class or tenant), timeout (429: limits.queue_timeout), deadline (429: the client's own time limit), left (the client disconnected).", "outcome", proxy.Outcomes)
	m.Refused = f.counters("banyan_access_refused_total", "Requests refused for their client (key, role, certificate, host, origin, tenant) or for lack of connections (connections; idle = an idle connection made room), by listener and reason.", "listener", "why")
	for _, r := range access.Refusals {
		m.Refused.WithLabelValues(r[0], r[1])
	}
}

func (m *Metrics) ofTokens(f factory) {
	tokens := prometheus.ExponentialBuckets(16, 4, 8) // 16 .. 262,144
	m.Matched = f.counter("banyan_matched_tokens_total", "Prompt tokens predicted to be cached at the chosen replica; counts only responses that report cached tokens.")
	m.Prompt = f.counter("banyan_prompt_tokens_total", "Prompt tokens, as engines reported.")
	m.Cached = f.counter("banyan_cached_tokens_total", "Prompt tokens found cached, as engines reported.")
	m.Output = f.counter("banyan_output_tokens_total", "Generated tokens, as engines reported.")
	m.PredictionError = f.histogram("banyan_prediction_error_tokens", "Absolute difference between predicted and reported cached tokens of a request.", tokens)
	m.Tokenized = f.counters("banyan_tokenized_total", "Prompts turned into block hashes, by mode (engine and ids are exact; text; none) and reason: given, asked and cached are exact; configured, no_engine, unsupported (no endpoint gives token ids), unaskable (images and the like), differs (the engine counts differently), cooling (it failed lately), timeout (limits.tokenize), busy, failed, rejected, no_prompt are not.", "mode", "reason")
	for mode, why := range keyings {
		for _, reason := range why {
			m.known = append(m.known, keyedCounter{token.Count{Scheme: mode, Reason: reason}, m.Tokenized.WithLabelValues(string(mode), string(reason))})
		}
	}
}

func (m *Metrics) ofStreams(f factory) {
	spread := prometheus.ExponentialBuckets(.0001, 2, 18) // 0.1 ms .. 13 s
	m.Gaps = f.counter("banyan_stream_gap_total", "Gaps in the numbers of event batches; most are filled by other peers or by replay.")
	m.Lost = f.counter("banyan_stream_lost_batches_total", "Event batches lost for good: no peer and no replay has them.")
	m.FollowFailures = f.counter("banyan_stream_follow_failures_total", "Failed attempts to subscribe to the KV events of a replica (each is retried).")
	m.Propagation = f.histogram("banyan_mesh_propagation_seconds", "Time from an event's receipt at another peer until this peer routes by it.", spread)
}

// ofTries makes those of tries at replicas and of what was done for them.
func (m *Metrics) ofTries(f factory) {
	m.Retries = closed(f, "banyan_retries_total", "Requests retried on another replica, by cause.", "cause",
		[]proxy.Cause{proxy.CauseConnect, proxy.CauseReset, proxy.CauseStatus, proxy.CauseAnswer, proxy.CauseTimeout})
	m.Hedges = closed(f, "banyan_hedges_total", "Hedged requests, by outcome: won (the second replica answered first), lost (the first one did), failed (neither did).", "outcome", proxy.HedgeOutcomes)
	m.SecondLooks = closed(f, "banyan_second_looks_total", "Decisions held for 2 ms to see what other peers sent at the same moment, by outcome: alone (nobody sent anything to this replica), stayed (it was still the best), moved (a better one was taken), left (the client disconnected).", "outcome", pick.Looks)
	m.Fetches = closed(f, "banyan_kv_fetches_total", "Requests whose replica was asked to fetch a part of the prompt from another replica (p2p), by outcome: fetched, computed (it did not get most of it; look at the engines' P2P tier), or unknown (the engine does not report what it found cached, or did not respond).", "outcome", pick.FetchOutcomes)
	m.LostStreams = closed(f, "banyan_lost_streams_total", "Streamed responses whose replica failed after the first byte (with limits.continue_streams), by outcome: continued, or why no other replica could continue: endpoint, choices, tools, images, field (of the request, as stop), reasoning (it was thinking), tokens (no token ids), memory, length (of the context), budget (of retries), no_replica.", "outcome", proxy.Resumptions)
	m.Splits = closed(f, "banyan_split_decisions_total", "Choices between one replica and a prefill/decode pair, by reason. Pair: remote, only (no single replica could serve it). One replica: short (few uncached tokens), sooner (expected to be faster), no_pair (no pair fits), unsuitable (the request cannot be split).", "why", Splits)
	m.Legs = closed(f, "banyan_prefill_legs_total", "Requests sent to prefill replicas for the prefill part, by outcome: answered, refused (4xx), failed, timeout, left (the client disconnected).", "outcome", disagg.Outcomes)
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
