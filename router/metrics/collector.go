package metrics

import (
	"strconv"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/banyan-llm/banyan/gossip"
	"github.com/banyan-llm/banyan/router/index"
	"github.com/banyan-llm/banyan/router/token"
)

// collector tells a peer's state when somebody scrapes.
type collector struct {
	read  func() *State
	descs map[string]*prometheus.Desc
}

// Collector tells what read returns, at each scrape.
func Collector(read func() *State) prometheus.Collector {
	c := &collector{read: read, descs: map[string]*prometheus.Desc{}}
	for _, d := range described {
		c.descs[d.name] = prometheus.NewDesc("banyan_"+d.name, d.help, d.labels, nil)
	}
	return c
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	s, t := c.read(), teller{c.descs, ch}
	t.gauge("ready", oneIf(s.Ready))
	t.gauge("draining", oneIf(s.Draining))
	t.gauge("config_hash", float64(s.ConfigHash))
	for listener, ends := range s.Certificates {
		t.gauge("listener_cert_expiry_timestamp_seconds", ends, listener)
	}
	t.fleet(s)
	t.tree(&s.Index)
	t.mesh(s)
	t.requests(s)
	if s.Spans != nil {
		t.counter("trace_spans_total", s.Spans.Exported, "exported")
		t.counter("trace_spans_total", s.Spans.Failed, "failed")
		t.counter("trace_spans_total", s.Spans.Dropped, "dropped")
	}
}

// teller tells series by their names.
type teller struct {
	descs map[string]*prometheus.Desc
	ch    chan<- prometheus.Metric
}

func (t teller) gauge(name string, v float64, labels ...string) {
	t.ch <- prometheus.MustNewConstMetric(t.descs[name], prometheus.GaugeValue, v, labels...)
}

func (t teller) counter(name string, n uint64, labels ...string) {
	t.ch <- prometheus.MustNewConstMetric(t.descs[name], prometheus.CounterValue, float64(n), labels...)
}

// counters tells a counter by causes of a closed list.
func (t teller) counters(name string, causes []string, n map[string]uint64) {
	for _, cause := range causes {
		t.counter(name, n[cause], cause)
	}
}

func (t teller) fleet(s *State) {
	for i := range s.Replicas {
		r := &s.Replicas[i]
		t.gauge("replica_inflight", float64(r.InFlight), r.Name)
		t.gauge("replica_up", oneIf(r.Up), r.Name)
		t.gauge("replica_ejected", oneIf(r.Ejected), r.Name)
		t.gauge("replica_draining", oneIf(r.Draining), r.Name)
		t.gauge("working_set_tokens", float64(r.InUse), r.Name)
		if r.Heard != nil {
			t.gauge("replica_events", oneIf(*r.Heard), r.Name)
		}
	}
	t.counter("unknown_cache_groups_total", s.Unknown)
	t.counter("event_batches_ignored_total", s.Ignored)
	for source, answers := range s.Sources {
		t.gauge("discovery_up", oneIf(answers), source)
	}
	t.gauge("advised_prefill_per_decode", s.Advised)
	for role, n := range s.Roles {
		t.gauge("role_replicas_up", float64(n), role)
	}
	for of, full := range s.Saturation {
		t.gauge("saturation", full, of.Model, of.Role)
	}
}

func (t teller) tree(st *index.Stats) {
	t.gauge("tree_facts", float64(st.Facts))
	t.gauge("tree_bytes", float64(st.Bytes))
	t.gauge("predicted_facts", float64(st.Predicted))
	t.gauge("quarantined_streams", float64(st.Quarantined))
	t.gauge("tree_used_bytes", float64(st.Used))
	t.gauge("tree_limit_bytes", float64(st.Memory))
	t.gauge("full_streams", float64(st.Full))
	for _, cause := range []index.Bound{index.BoundFacts, index.BoundMemory} {
		t.counter("streams_given_up_total", st.GivenUp[cause], string(cause))
	}
	t.gauge("suspect_facts", float64(st.Suspect))
	t.counter("mesh_given_up_total", st.Untold, "prediction")
}

func (t teller) mesh(s *State) {
	t.gauge("mesh_view_age_seconds", s.ViewAgeMs/1000)
	t.gauge("clock_offset_seconds", s.ClockMs/1000)
	t.gauge("mesh_refused_peers", float64(s.Refusing))
	t.gauge("divergent_streams", float64(s.Core.Divergent))
	t.counters("snapshots_total", gossip.SnapshotReasons(), s.Core.Snapshots)
	t.counters("mesh_given_up_total", gossip.DropCauses(), s.Core.Dropped)
	t.counters("mesh_frames_rejected_total", gossip.RejectCauses(), s.Core.Rejected)
}

func (t teller) requests(s *State) {
	t.gauge("queue_depth", float64(s.Queue.Queued))
	t.gauge("queue_oldest_seconds", s.Queue.Oldest.Seconds())
	for class, n := range s.Queue.Classes {
		t.gauge("queue_class_depth", float64(n), strconv.Itoa(class))
	}
	t.counter("access_log_lines_total", s.AccessLog.Written, "written")
	t.counter("access_log_lines_total", s.AccessLog.Dropped, "dropped")
	t.counter("access_log_lines_total", s.AccessLog.Failed, "failed")
	for of, n := range s.Keys.Models {
		if utf8.ValidString(of.Model) { // else it is no label
			t.counter("prompt_keys_total", n, of.Model, string(of.Rung), string(of.Reason))
		}
	}
	for _, rung := range []token.Rung{token.Render, token.Tokenize} {
		t.counter("prompt_keys_wrong_total", s.Keys.Wrong[rung], string(rung))
	}
}

func oneIf(on bool) float64 {
	if on {
		return 1
	}
	return 0
}
