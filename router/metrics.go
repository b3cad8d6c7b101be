package router

import (
	"strconv"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/banyan-llm/banyan/router/access"
	"github.com/banyan-llm/banyan/router/pick"
	"github.com/banyan-llm/banyan/router/policy"
	"github.com/banyan-llm/banyan/router/proxy"
	"github.com/banyan-llm/banyan/router/token"
)

// reasons is the closed list of the label reason.
var reasons = []policy.Reason{
	policy.ReasonPrefix, policy.ReasonLoad, policy.ReasonSpill, policy.ReasonSession,
	policy.ReasonStale, policy.ReasonOnly, policy.ReasonBaseline,
}

// metrics are the router's own series; the mesh shell registers its own, and
// gauges that follow state are read by a collector (see collector.go).
type metrics struct {
	registry *prometheus.Registry // of all series of this peer
	usage    *usage               // series by replica, model and user

	requests        *prometheus.CounterVec // policy, reason, code
	ttft            prometheus.Histogram
	duration        prometheus.Histogram
	decision        prometheus.Histogram
	overhead        prometheus.Histogram
	matched         prometheus.Counter
	prompt          prometheus.Counter
	cached          prometheus.Counter
	output          prometheus.Counter
	predictionError prometheus.Histogram
	gaps            prometheus.Counter
	lost            prometheus.Counter
	followFailures  prometheus.Counter
	propagation     prometheus.Histogram
	retries         *prometheus.CounterVec // cause
	disconnects     prometheus.Counter
	cut             prometheus.Counter
	lostStreams     *prometheus.CounterVec // outcome
	announcedLate   prometheus.Counter
	tokenized       *prometheus.CounterVec // mode, reason
	splits          *prometheus.CounterVec // why
	legs            *prometheus.CounterVec // outcome
	waits           *prometheus.CounterVec // outcome
	queueWait       prometheus.Histogram
	hedges          *prometheus.CounterVec // outcome
	second          *prometheus.CounterVec // outcome
	fetches         *prometheus.CounterVec // outcome
	reloadOK        prometheus.Gauge
	reloads         prometheus.Counter
	reloadFailures  prometheus.Counter
	refused         *prometheus.CounterVec // listener, why

	total, failed atomic.Uint64 // requests, for the status page

	known []keyedCounter // of tokenized, the closed list
}

// keyedCounter is one series of tokenized.
type keyedCounter struct {
	token.Count
	counter prometheus.Counter
}

// keyed counts one prompt. The few series there are are found without hashing.
func (m *metrics) keyed(scheme token.Scheme, reason token.Reason) {
	for i := range m.known {
		if k := &m.known[i]; k.Reason == reason && k.Scheme == scheme {
			k.counter.Inc()
			return
		}
	}
	m.tokenized.WithLabelValues(string(scheme), string(reason)).Inc()
}

// answered counts one answer to a client.
func (m *metrics) answered(policyName string, reason policy.Reason, status int) {
	m.requests.WithLabelValues(policyName, string(reason), strconv.Itoa(status)).Inc()
	m.total.Add(1)
	if status >= 500 || status == 0 {
		m.failed.Add(1)
	}
}

// looked counts a second look at a decision.
func (m *metrics) looked(how pick.Look) { m.second.WithLabelValues(string(how)).Inc() }

// resumed counts what became of a stream whose replica was lost.
func (m *metrics) resumed(how proxy.Resumption) {
	m.lostStreams.WithLabelValues(string(how)).Inc()
	if how == proxy.ResumeNobody { // no try was told that it was the client's answer
		m.cut.Inc()
		m.failed.Add(1)
	}
}

// startAtZero makes the series of the configured policy that rates and alerts
// read: a counter that appears with its first increase hides that increase.
func (m *metrics) startAtZero(policyName string) {
	for _, reason := range reasons {
		for _, code := range []string{"200", "429", "502", "503", "504"} {
			m.requests.WithLabelValues(policyName, string(reason), code)
		}
	}
	for mode, why := range map[token.Scheme][]token.Reason{
		token.Ids:    {token.Given},
		token.Engine: {token.Asked, token.Cached},
		token.Text: {
			token.Configured, token.NoEngine, token.Unsupported, token.Unaskable, token.Differs, token.Cooling,
			token.Timeout, token.Busy, token.Failed, token.Rejected,
		},
		token.None: {token.NoPrompt},
	} {
		for _, reason := range why {
			m.known = append(m.known, keyedCounter{token.Count{Scheme: mode, Reason: reason}, m.tokenized.WithLabelValues(string(mode), string(reason))})
		}
	}
}

func newMetrics(reg *prometheus.Registry, version string) *metrics {
	f := promauto.With(reg)
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	latency := prometheus.ExponentialBuckets(.001, 2, 18) // 1 ms .. 131 s
	quick := prometheus.ExponentialBuckets(1e-6, 2, 20)   // 1 us .. 0.5 s
	tokens := prometheus.ExponentialBuckets(16, 4, 8)     // 16 .. 262,144
	spread := prometheus.ExponentialBuckets(.0001, 2, 18) // 0.1 ms .. 13 s
	counter := func(name, help string) prometheus.Counter {
		return f.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		return f.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
	}
	m := &metrics{
		registry: reg, usage: newUsage(reg),
		requests: f.NewCounterVec(prometheus.CounterOpts{
			Name: "banyan_requests_total", Help: "Requests answered, by policy, reason of the choice (prefix, load, spill = the replica that holds the prefix was too busy, session, stale = data from other peers was too old, only = no other replica, baseline = a policy without caches) and HTTP status.",
		}, []string{"policy", "reason", "code"}),
		ttft:            histogram("banyan_request_ttft_seconds", "Time from the request to its first streamed byte.", latency),
		duration:        histogram("banyan_request_duration_seconds", "Time from the request to the end of its response.", latency),
		decision:        histogram("banyan_decision_seconds", "Time to choose a replica, without tokenization.", quick),
		overhead:        histogram("banyan_proxy_overhead_seconds", "Time from a request's arrival to its dispatch, without the time in the queue.", quick),
		matched:         counter("banyan_matched_tokens_total", "Prompt tokens predicted to be cached at the chosen replica; counts only responses that report cached tokens."),
		prompt:          counter("banyan_prompt_tokens_total", "Prompt tokens, as engines reported."),
		cached:          counter("banyan_cached_tokens_total", "Prompt tokens found cached, as engines reported."),
		output:          counter("banyan_output_tokens_total", "Generated tokens, as engines reported."),
		predictionError: histogram("banyan_prediction_error_tokens", "Absolute difference between predicted and reported cached tokens of a request.", tokens),
		gaps:            counter("banyan_stream_gap_total", "Gaps in the numbers of event batches; most are filled by other peers or by replay."),
		lost:            counter("banyan_stream_lost_batches_total", "Event batches lost for good: no peer and no replay has them."),
		followFailures:  counter("banyan_stream_follow_failures_total", "Failed attempts to subscribe to the KV events of a replica (each is retried)."),
		propagation:     histogram("banyan_mesh_propagation_seconds", "Time from an event's receipt at another peer until this peer routes by it.", spread),
		retries: f.NewCounterVec(prometheus.CounterOpts{
			Name: "banyan_retries_total", Help: "Requests retried on another replica, by cause.",
		}, []string{"cause"}),
		announcedLate: counter("banyan_dispatch_announcements_late_total", "Requests sent only after their blocks were announced to the other peers, because too many announcements were pending: this peer is short of CPU."),
		cut:           counter("banyan_answers_cut_total", "Responses that ended early, or with an error, after their first byte."),
		disconnects:   counter("banyan_client_disconnects_total", "Clients that disconnected before their response ended."),
		tokenized: f.NewCounterVec(prometheus.CounterOpts{
			Name: "banyan_tokenized_total", Help: "Prompts turned into block hashes, by mode (engine and ids are exact; text; none) and reason: given, asked and cached are exact; configured, no_engine, unsupported (no endpoint gives token ids), unaskable (images and the like), differs (the engine counts differently), cooling (it failed lately), timeout (limits.tokenize), busy, failed, rejected, no_prompt are not.",
		}, []string{"mode", "reason"}),
		reloadOK: f.NewGauge(prometheus.GaugeOpts{
			Name: "banyan_config_last_reload_success", Help: "1 if the last configuration load succeeded.",
		}),
		reloads:        counter("banyan_config_reloads_total", "Configuration reloads that took effect."),
		reloadFailures: counter("banyan_config_reload_failures_total", "Configuration reloads rejected because of a fault; the previous configuration stayed in force."),
		refused: f.NewCounterVec(prometheus.CounterOpts{
			Name: "banyan_access_refused_total", Help: "Requests refused for their client (key, role, certificate, host, origin, tenant) or for lack of connections (connections; idle = an idle connection made room), by listener and reason.",
		}, []string{"listener", "why"}),
	}
	for _, r := range access.Refusals {
		m.refused.WithLabelValues(r[0], r[1])
	}
	m.queueWait = histogram("banyan_queue_wait_seconds", "Time in the queue; counts only requests that had to queue.", latency)
	m.waits = f.NewCounterVec(prometheus.CounterOpts{
		Name: "banyan_queue_total", Help: "Requests that had to queue, by outcome: admitted, full (429: no room in the queue, or in the part of the tenant), displaced (429: made room for a better class or tenant), timeout (429: limits.queue_timeout), deadline (429: the client's own time limit), left (the client disconnected).",
	}, []string{"outcome"})
	for _, how := range proxy.Outcomes {
		m.waits.WithLabelValues(string(how))
	}
	m.hedges = f.NewCounterVec(prometheus.CounterOpts{
		Name: "banyan_hedges_total", Help: "Hedged requests, by outcome: won (the second replica answered first), lost (the first one did), failed (neither did).",
	}, []string{"outcome"})
	for _, how := range proxy.HedgeOutcomes {
		m.hedges.WithLabelValues(string(how))
	}
	m.second = f.NewCounterVec(prometheus.CounterOpts{
		Name: "banyan_second_looks_total", Help: "Decisions held for 2 ms to see what other peers sent at the same moment, by outcome: alone (nobody sent anything to this replica), stayed (it was still the best), moved (a better one was taken), left (the client disconnected).",
	}, []string{"outcome"})
	for _, how := range pick.Looks {
		m.second.WithLabelValues(string(how))
	}
	m.fetches = f.NewCounterVec(prometheus.CounterOpts{
		Name: "banyan_kv_fetches_total", Help: "Requests whose replica was asked to fetch a part of the prompt from another replica (p2p), by outcome: fetched, computed (it did not get most of it; look at the engines' P2P tier), or unknown (the engine does not report what it found cached, or did not respond).",
	}, []string{"outcome"})
	for _, how := range []string{fetchCame, fetchComputed, fetchUnknown} {
		m.fetches.WithLabelValues(how)
	}
	m.lostStreams = f.NewCounterVec(prometheus.CounterOpts{
		Name: "banyan_lost_streams_total", Help: "Streamed responses whose replica failed after the first byte (with limits.continue_streams), by outcome: continued, or why no other replica could continue: endpoint, choices, tools, images, field (of the request, as stop), reasoning (it was thinking), tokens (no token ids), memory, length (of the context), budget (of retries), no_replica.",
	}, []string{"outcome"})
	for _, how := range proxy.Resumptions {
		m.lostStreams.WithLabelValues(string(how))
	}
	m.splits = f.NewCounterVec(prometheus.CounterOpts{
		Name: "banyan_split_decisions_total", Help: "Choices between one replica and a prefill/decode pair, by reason. Pair: remote, only (no single replica could serve it). One replica: short (few uncached tokens), sooner (expected to be faster), no_pair (no pair fits), unsuitable (the request cannot be split).",
	}, []string{"why"})
	m.legs = f.NewCounterVec(prometheus.CounterOpts{
		Name: "banyan_prefill_legs_total", Help: "Requests sent to prefill replicas for the prefill part, by outcome: answered, refused (4xx), failed, timeout, left (the client disconnected).",
	}, []string{"outcome"})
	for _, why := range splitReasons {
		m.splits.WithLabelValues(string(why))
	}
	for _, outcome := range legs {
		m.legs.WithLabelValues(string(outcome))
	}
	for _, cause := range []string{"connect", "reset", "status", "timeout"} {
		m.retries.WithLabelValues(cause)
	}
	f.NewGaugeVec(prometheus.GaugeOpts{Name: "banyan_build_info", Help: "Always 1; the label has the version."}, []string{"version"}).
		WithLabelValues(version).Set(1)
	m.reloadOK.Set(1)
	return m
}
