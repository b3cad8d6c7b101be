package metrics

import (
	"strconv"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/banyan-llm/banyan/router/pick"
	"github.com/banyan-llm/banyan/router/policy"
	"github.com/banyan-llm/banyan/router/proxy"
	"github.com/banyan-llm/banyan/router/token"
)

// Metrics are the router's own series; the mesh shell registers its own, and
// gauges that follow state are told by a Collector.
type Metrics struct {
	Registry *prometheus.Registry // of all series of this peer
	Usage    *Usage               // series by replica, model and user

	Requests        *prometheus.CounterVec // policy, reason, code
	TTFT            prometheus.Histogram
	Duration        prometheus.Histogram
	Decision        prometheus.Histogram
	Overhead        prometheus.Histogram
	Matched         prometheus.Counter
	Prompt          prometheus.Counter
	Cached          prometheus.Counter
	Output          prometheus.Counter
	PredictionError prometheus.Histogram
	Gaps            prometheus.Counter
	Lost            prometheus.Counter
	FollowFailures  prometheus.Counter
	Propagation     prometheus.Histogram
	Retries         *prometheus.CounterVec // cause
	Disconnects     prometheus.Counter
	Cut             prometheus.Counter
	LostStreams     *prometheus.CounterVec // outcome
	AnnouncedLate   prometheus.Counter
	Tokenized       *prometheus.CounterVec // mode, reason
	Splits          *prometheus.CounterVec // why
	Legs            *prometheus.CounterVec // outcome
	Waits           *prometheus.CounterVec // outcome
	QueueWait       prometheus.Histogram
	Hedges          *prometheus.CounterVec // outcome
	SecondLooks     *prometheus.CounterVec // outcome
	Fetches         *prometheus.CounterVec // outcome
	ReloadOK        prometheus.Gauge
	Reloads         prometheus.Counter
	ReloadFailures  prometheus.Counter
	Refused         *prometheus.CounterVec // listener, why

	Total, Failed atomic.Uint64 // requests, for the status page

	known []keyedCounter // of tokenized, the closed list
}

// keyedCounter is one series of tokenized.
type keyedCounter struct {
	token.Count
	counter prometheus.Counter
}

// Keyed counts one prompt. The few series there are are found without hashing.
func (m *Metrics) Keyed(scheme token.Scheme, reason token.Reason) {
	for i := range m.known {
		if k := &m.known[i]; k.Reason == reason && k.Scheme == scheme {
			k.counter.Inc()
			return
		}
	}
	m.Tokenized.WithLabelValues(string(scheme), string(reason)).Inc()
}

// Answered counts one answer to a client.
func (m *Metrics) Answered(policyName string, reason policy.Reason, status int) {
	m.Requests.WithLabelValues(policyName, string(reason), strconv.Itoa(status)).Inc()
	m.Total.Add(1)
	if status >= 500 || status == 0 {
		m.Failed.Add(1)
	}
}

// Looked counts a second look at a decision.
func (m *Metrics) Looked(how pick.Look) { m.SecondLooks.WithLabelValues(string(how)).Inc() }

// Resumed counts what became of a stream whose replica was lost.
func (m *Metrics) Resumed(how proxy.Resumption) {
	m.LostStreams.WithLabelValues(string(how)).Inc()
	if how == proxy.ResumeNobody { // no try was told that it was the client's answer
		m.Cut.Inc()
		m.Failed.Add(1)
	}
}

// StartAtZero makes the series of the configured policy that rates and alerts
// read: a counter that appears with its first increase hides that increase.
func (m *Metrics) StartAtZero(policyName string) {
	for _, reason := range reasons {
		for _, code := range []string{"200", "429", "502", "503", "504"} {
			m.Requests.WithLabelValues(policyName, string(reason), code)
		}
	}
}
