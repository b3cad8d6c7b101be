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
		inflight:     d("replica_inflight", "This peer's own requests in flight at a replica.", "replica"),
		up:           d("replica_up", "1 if the replica is healthy and usable (also while it is drained).", "replica"),
		events:       d("replica_events", "1 if this peer receives the KV events of a replica, 0 if it cannot; absent on peers that do not subscribe to this replica.", "replica"),
		parked:       d("replica_draining", "1 if an operator drained the replica: no new requests while another one can take them.", "replica"),
		inUse:        d("working_set_tokens", "Prompt tokens used at a replica in the last three minutes. If this exceeds its KV cache, conversations evict each other.", "replica"),
		facts:        d("tree_facts", "Cached blocks in the prefix index that engine events confirm, of all replicas."),
		bytes:        d("tree_bytes", "Memory allocated for the prefix index, in bytes."),
		predicted:    d("predicted_facts", "Cached blocks in the prefix index that are predicted from traffic, of all replicas."),
		quarantined:  d("quarantined_streams", "Replicas whose KV events are ignored for a minute because their engine seems to restart again and again: usually two engines behind one replica URL."),
		used:         d("tree_used_bytes", "Memory in use that counts against limits.memory, in bytes (see banyan_tree_limit_bytes)."),
		memory:       d("tree_limit_bytes", "limits.memory in bytes, the bound of banyan_tree_used_bytes; 0 = no limit."),
		full:         d("full_streams", "Replicas whose KV events are ignored because their blocks exceed limits.stream_facts or limits.memory; their caches are predicted."),
		fullTotal:    d("streams_given_up_total", "Times that a replica's KV events were dropped, by the limit that was exceeded: facts (limits.stream_facts) or memory (limits.memory).", "cause"),
		suspect:      d("suspect_facts", "Cached blocks that may be gone, because event batches were lost after them."),
		unknownKinds: d("unknown_cache_groups_total", "Blocks ignored because this version does not know the kind of their cache group (upgrade Banyan). Counts only replicas that this peer subscribes to."),
		ignored:      d("event_batches_ignored_total", "Event batches ignored: their number came before on the same connection, is too old to be replayed, or the replica is in quarantine. Counts only replicas that this peer subscribes to."),
		divergent:    d("divergent_streams", "Event streams of which this peer and another one hold different cached blocks although both saw the same events. Must be 0; else report a bug."),
		viewAge:      d("mesh_view_age_seconds", "Age of the load data of the live peer that was heard from longest ago."),
		ready:        d("ready", "1 if this peer is ready."),
		drained:      d("draining", "1 if this peer is shutting down."),
		snapshots:    d("snapshots_total", "Full copies of a replica's event state taken from another peer, by reason: join (this peer started), gap (a message was lost), behind (this peer is slow or was cut off), divergence (a bug).", "reason"),
		givenUp:      d("mesh_given_up_total", "Replication work skipped because a bound was reached; peers repair it later. Causes: peers and streams (too many), unwanted (replica not listed), full (limits.memory or limits.stream_facts), message (too long), owed (too much to catch up), want and ask (too many requests for repairs), stage, piece and join (a full copy too large, stuck or not usable), connection (silent), prediction (not sent in time).", "cause"),
		rejected:     d("mesh_frames_rejected_total", "Malformed messages from peers: envelope (unreadable), number (out of turn), order (before the greeting), payload (out of bounds). A bug, or a foreign sender.", "cause"),
		clock:        d("clock_offset_seconds", "Largest clock difference to a live peer; the shortest network delay seen is part of it."),
		config:       d("config_hash", "Hash of the settings that all peers share; equal on all peers while their configurations agree."),
		discovery:    d("discovery_up", "1 if discovery works; 0 if it fails (its last list of replicas stays in use).", "source"),
		advised:      d("advised_prefill_per_decode", "Recommended number of prefill replicas per decode replica, from the traffic of this peer; 0 = not measured yet."),
		expiry:       d("listener_cert_expiry_timestamp_seconds", "Time when the certificate of a listener ends; absent without TLS.", "listener"),
		queue:        d("queue_depth", "Requests in the queue."),
		spans:        d("trace_spans_total", "Trace spans, by outcome: exported, failed (the collector did not take them), dropped (the queue was full). Absent while tracing is off.", "outcome"),
		queueClass:   d("queue_class_depth", "Requests in the queue, by priority class.", "class"),
		promptKeys:   d("prompt_keys_total", "Prompts turned into block hashes, by model, rung (source of the token ids: the engine's render or tokenize endpoint, ids of the client; or text, none) and reason (as in banyan_tokenized_total). At most 256 models; the rest are other.", "model", "rung", "reason"),
		wrongKeys:    d("prompt_keys_wrong_total", "Prompts for which the engine then counted a different number of tokens than its render or tokenize endpoint had returned, by endpoint.", "rung"),
		saturated:    d("saturation", "Load of a pool (the replicas of one role that serve a model), 0 to 1, for autoscalers. Per replica the largest of: KV cache in use, requests in flight / admission.replica_limit, and 1 if its engine queues; then the mean of the usable replicas. 1 if no replica is usable.", "model", "pool"),
		accessLines:  d("access_log_lines_total", "Lines of the access log, by outcome: written, dropped (the reader of the log is too slow), failed (the file cannot be written).", "outcome"),
		refusing:     d("mesh_refused_peers", "Live peers that this one does not talk to because a setting that all must share differs."),
		roleUp:       d("role_replicas_up", "Replicas that may get requests, by role; absent unless prefill and decode are kept apart.", "role"),
		queueOldest:  d("queue_oldest_seconds", "Age of the oldest request in the queue."),
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

// counterValue reads a counter.
func counterValue(c prometheus.Counter) uint64 {
	var m dto.Metric
	if c.Write(&m) != nil {
		return 0
	}
	return uint64(m.GetCounter().GetValue())
}
