package router

import (
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/banyan-llm/banyan/gossip"
	"github.com/banyan-llm/banyan/router/access"
	"github.com/banyan-llm/banyan/router/index"
	"github.com/banyan-llm/banyan/router/report"
	"github.com/banyan-llm/banyan/router/token"
)

// collector reads gauges off the peer's state when somebody scrapes.
type collector struct {
	peer *Peer

	inflight, up, events, parked, inUse         *prometheus.Desc
	facts, bytes, predicted, quarantined        *prometheus.Desc
	used, memory, full, fullTotal               *prometheus.Desc
	suspect, divergent, viewAge, ready, drained *prometheus.Desc
	snapshots, givenUp, rejected                *prometheus.Desc
	clock, config, queue                        *prometheus.Desc
	expiry, unknownKinds, ignored               *prometheus.Desc
	discovery, advised, queueClass, queueOldest *prometheus.Desc
	spans                                       *prometheus.Desc
	promptKeys, wrongKeys                       *prometheus.Desc
	accessLines, saturated, refusing, roleUp    *prometheus.Desc
}

func newCollector(p *Peer) *collector {
	d := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("banyan_"+name, help, labels, nil)
	}
	return &collector{
		peer:         p,
		inflight:     d("replica_inflight", "This peer's own requests at a replica.", "replica"),
		up:           d("replica_up", "1 if the replica may get requests.", "replica"),
		events:       d("replica_events", "1 if this peer hears the events of a replica, 0 if it cannot; absent where it does not follow them.", "replica"),
		parked:       d("replica_draining", "1 if an operator drained the replica: no new requests while another one can take them.", "replica"),
		inUse:        d("working_set_tokens", "Tokens of prompts whose last use within three minutes was at a replica. More than its KV cache holds: conversations evict each other.", "replica"),
		facts:        d("tree_facts", "Confirmed facts in the shared tree."),
		bytes:        d("tree_bytes", "Bytes of the trees."),
		predicted:    d("predicted_facts", "Predicted blocks."),
		quarantined:  d("quarantined_streams", "Streams ignored because they restart again and again."),
		used:         d("tree_used_bytes", "Bytes that limits.memory bounds: the trees without what was freed, and what lies beside them."),
		memory:       d("tree_limit_bytes", "Bytes that they may take; 0 if there is no limit."),
		full:         d("full_streams", "Streams left alone because they did not fit; their replicas' caches are guessed."),
		fullTotal:    d("streams_given_up_total", "Streams that did not fit, by what they did not fit into.", "cause"),
		suspect:      d("suspect_facts", "Facts older than a lost batch."),
		unknownKinds: d("unknown_cache_groups_total", "Stored blocks left out because their cache group is of a kind this version does not know; streams this peer follows."),
		ignored:      d("event_batches_ignored_total", "Event batches not taken because their number was heard before on the same connection, is below the first one obtainable, or they came while the stream is in quarantine; streams this peer follows."),
		divergent:    d("divergent_streams", "Streams that differ between peers at equal contexts."),
		viewAge:      d("mesh_view_age_seconds", "Age of what is known of the worst live peer."),
		ready:        d("ready", "1 if this peer is ready."),
		drained:      d("draining", "1 if this peer is draining."),
		snapshots:    d("snapshots_total", "Snapshots joined, by reason.", "reason"),
		givenUp:      d("mesh_given_up_total", "Replication work given up at a bound, by cause; peers repair it.", "cause"),
		rejected:     d("mesh_frames_rejected_total", "Frames that no correct peer sends, by cause.", "cause"),
		clock:        d("clock_offset_seconds", "Largest clock difference to a live peer, shortest way included."),
		config:       d("config_hash", "Hash of all settings that peers of one mesh have in common; not of what is each peer's own."),
		discovery:    d("discovery_up", "1 if the source of replicas answers; 0: its last list stands.", "source"),
		advised:      d("advised_prefill_per_decode", "Prefill replicas that go with one decode replica at the traffic of this peer; 0 until measured."),
		expiry:       d("listener_cert_expiry_timestamp_seconds", "When the certificate of a listener ends; absent if it speaks no TLS.", "listener"),
		queue:        d("queue_depth", "Requests waiting for admission."),
		spans:        d("trace_spans_total", "Spans, by what became of them; none while tracing is off.", "outcome"),
		queueClass:   d("queue_class_depth", "Requests waiting for admission, by priority class.", "class"),
		promptKeys:   d("prompt_keys_total", "Prompts turned into block keys, by model, by the endpoint that told their tokens (or ids, text, none), and why. At most 256 models; the rest are other.", "model", "rung", "reason"),
		wrongKeys:    d("prompt_keys_wrong_total", "Prompts whose engine counted other tokens than its endpoint told before, by that endpoint.", "rung"),
		saturated:    d("saturation", "How full a pool is, 0 to 1: the mean over its replicas of KV cache in use, of requests against admission.replica_limit, and 1 where the engine has a queue; 1 without a usable replica. The pool is the role of its replicas. For autoscalers.", "model", "pool"),
		accessLines:  d("access_log_lines_total", "Lines of the access log, by what became of them: written, dropped because who reads the log is too slow, or failed to be written.", "outcome"),
		refusing:     d("mesh_refused_peers", "Live peers that this one does not talk to because a setting that all must share differs."),
		roleUp:       d("role_replicas_up", "Replicas that may get requests, by role; absent unless prefill and decode are kept apart.", "role"),
		queueOldest:  d("queue_oldest_seconds", "Wait so far of the request that waits longest."),
	}
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	p := c.peer
	strange, ignored := uint64(0), uint64(0)
	for _, r := range p.fleet.List() {
		gauge(c.inflight, float64(p.loads.InFlight(r.Stream)), r.Name())
		unfit, _ := r.Unfit()
		gauge(c.up, oneIf(r.Up() && unfit == ""), r.Name())
		gauge(c.parked, oneIf(p.loads.Draining(r.Stream)), r.Name())
		gauge(c.inUse, float64(p.used.Tokens(r.Stream, p.clock.ms(time.Now()))), r.Name())
		if st, ok := p.ingest.told(r.Stream); ok {
			if heard, known := p.ingest.hears(r.Stream, &st); known {
				gauge(c.events, oneIf(heard), r.Name())
			}
			strange += st.Counters.UnknownKinds
			ignored += st.Tracker.Backward + st.Tracker.Stale + st.Tracker.Ignored
		}
	}
	ch <- prometheus.MustNewConstMetric(c.unknownKinds, prometheus.CounterValue, float64(strange))
	ch <- prometheus.MustNewConstMetric(c.ignored, prometheus.CounterValue, float64(ignored))
	for _, f := range p.census.discovery {
		gauge(c.discovery, oneIf(f.trouble() == ""), f.source)
	}
	advised, _ := p.report.advise()
	gauge(c.advised, advised)
	st := p.index.Stats()
	gauge(c.facts, float64(st.Facts))
	gauge(c.bytes, float64(st.Bytes))
	gauge(c.predicted, float64(st.Predicted))
	gauge(c.quarantined, float64(st.Quarantined))
	gauge(c.used, float64(st.Used))
	gauge(c.memory, float64(st.Memory))
	gauge(c.full, float64(st.Full))
	for _, cause := range []index.Bound{index.BoundFacts, index.BoundMemory} {
		ch <- prometheus.MustNewConstMetric(c.fullTotal, prometheus.CounterValue, float64(st.GivenUp[cause]), string(cause))
	}
	gauge(c.suspect, float64(st.Suspect))
	age, _ := p.path.view.viewAge()
	gauge(c.viewAge, age/1000)
	ready, _ := p.readiness.ready()
	gauge(c.ready, oneIf(ready))
	gauge(c.drained, oneIf(p.readiness.draining.Load()))
	waiting := p.front.waiting()
	if p.tracing != nil {
		s := p.tracing.Stats()
		for outcome, n := range map[string]uint64{"exported": s.Exported, "failed": s.Failed, "dropped": s.Dropped} {
			ch <- prometheus.MustNewConstMetric(c.spans, prometheus.CounterValue, float64(n), outcome)
		}
	}
	lines := p.journal.access.Stats()
	for outcome, n := range map[string]uint64{"written": lines.Written, "dropped": lines.Dropped, "failed": lines.Failed} {
		ch <- prometheus.MustNewConstMetric(c.accessLines, prometheus.CounterValue, float64(n), outcome)
	}
	keys := p.tokens.Stats()
	for of, n := range keys.Models {
		if !utf8.ValidString(of.Model) {
			continue // no label
		}
		ch <- prometheus.MustNewConstMetric(c.promptKeys, prometheus.CounterValue, float64(n), of.Model, string(of.Rung), string(of.Reason))
	}
	for _, rung := range []token.Rung{token.Render, token.Tokenize} {
		ch <- prometheus.MustNewConstMetric(c.wrongKeys, prometheus.CounterValue, float64(keys.Wrong[rung]), string(rung))
	}
	gauge(c.queue, float64(waiting.Queued))
	gauge(c.queueOldest, waiting.Oldest.Seconds())
	for class, n := range waiting.Classes {
		gauge(c.queueClass, float64(n), strconv.Itoa(class))
	}
	gauge(c.config, float64(p.rules.configHash()))
	core := p.path.view.coreStats.Load()
	if core == nil {
		core = &gossip.Stats{}
	}
	gauge(c.divergent, float64(core.Divergent))
	counters := func(d *prometheus.Desc, causes []string, n map[string]uint64) {
		for _, cause := range causes {
			ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n[cause]), cause)
		}
	}
	counters(c.snapshots, gossip.SnapshotReasons(), core.Snapshots)
	counters(c.givenUp, gossip.DropCauses(), core.Dropped)
	ch <- prometheus.MustNewConstMetric(c.givenUp, prometheus.CounterValue, float64(st.Untold), "prediction")
	counters(c.rejected, gossip.RejectCauses(), core.Rejected)
	worst, refused := 0.0, 0
	if v := p.path.view.ages.Load(); v != nil {
		for _, info := range v.list {
			if info.Member && info.Refused != "" {
				refused++
			}
			if off := float64(info.ClockOffset); info.Member && max(off, -off) > max(worst, -worst) {
				worst = off
			}
		}
	}
	gauge(c.clock, worst/1000)
	gauge(c.refusing, float64(refused))
	if p.rules.config().Routing.Disagg.On() {
		for role, n := range rolesUp(p.fleet.List()) {
			gauge(c.roleUp, float64(n), role)
		}
	}
	rules := p.rules.Load()
	for listener, cert := range map[string]*access.Certificate{"http": rules.HTTP, "admin": rules.Admin} {
		if cert != nil {
			gauge(c.expiry, cert.Ends(), listener)
		}
	}
	for of, full := range p.path.capacity.saturation(time.Now()) {
		gauge(c.saturated, full, of.model, of.role)
	}
}

func oneIf(on bool) float64 {
	if on {
		return 1
	}
	return 0
}

// readHistogram reads a histogram; empty if it cannot be read.
func readHistogram(of prometheus.Histogram) *dto.Histogram {
	var out dto.Metric
	if of.Write(&out) != nil || out.GetHistogram() == nil {
		return &dto.Histogram{}
	}
	return out.GetHistogram()
}

// sample reads what the last minute is made of.
func (m *metrics) sample(now time.Time) report.Sample {
	return report.Sample{
		At: now, Total: m.total.Load(), Failed: m.failed.Load(), Prompt: counterValue(m.prompt), Matched: counterValue(m.matched),
		Cached: counterValue(m.cached), TTFT: readHistogram(m.ttft), Added: readHistogram(m.overhead),
	}
}

// counterValue reads a counter.
func counterValue(c prometheus.Counter) uint64 {
	var m dto.Metric
	if c.Write(&m) != nil {
		return 0
	}
	return uint64(m.GetCounter().GetValue())
}
