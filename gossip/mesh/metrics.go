package mesh

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/banyan-llm/banyan/gossip"
)

// How a connection ended, and how an attempt did: closed lists.
var (
	endings = []string{"core", "remote", "overflow", "stall", "key", "shutdown"}
	results = []string{"ok", "failed"}
)

// metrics are the shell's own; the router registers what the core counts.
type metrics struct {
	peers       prometheus.Gauge
	connections *prometheus.GaugeVec
	received    map[string]prometheus.Counter // by frame name
	sent        map[string]prometheus.Counter
	refused     map[cause]prometheus.Counter
	ended       *prometheus.CounterVec
	dials       *prometheus.CounterVec
	joins       *prometheus.CounterVec
	inbox       prometheus.Gauge
	outbox      prometheus.Gauge
	dropped     *prometheus.CounterVec
	expiry      prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer) *metrics {
	with := promauto.With(reg)
	gauge := func(name, help string) prometheus.Gauge {
		return with.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	counters := func(name, help, label string, values []string) *prometheus.CounterVec {
		v := with.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
		for _, x := range values {
			v.WithLabelValues(x)
		}
		return v
	}
	m := &metrics{
		peers:  gauge("banyan_mesh_peers", "Peers alive, this one included."),
		inbox:  gauge("banyan_mesh_inbox_depth", "Gossip messages and local changes that wait to be processed."),
		outbox: gauge("banyan_mesh_outbox_bytes", "Bytes waiting to be sent to peers."),
		expiry: prometheus.NewGauge(prometheus.GaugeOpts{Name: "banyan_cert_expiry_timestamp_seconds", Help: "Time when this peer's mesh certificate ends; absent without mesh.tls."}),
		connections: with.NewGaugeVec(prometheus.GaugeOpts{
			Name: "banyan_mesh_connections", Help: "Open connections to peers, by class: fast (load and events) and bulk (full copies).",
		}, []string{"class"}),
		ended:    counters("banyan_mesh_connections_ended_total", "Peer connections closed, by cause: core (this peer refused or replaced it), remote (the other side or the network), overflow (the other side reads too slowly), stall (nothing could be sent or read in time), key (gossip keys changed), shutdown.", "by", endings),
		dials:    counters("banyan_mesh_dials_total", "Attempts to open a connection to a peer, by result.", "result", results),
		joins:    counters("banyan_mesh_joins_total", "Attempts to join a seed of mesh.join, by result.", "result", results),
		dropped:  counters("banyan_mesh_dropped_total", "Items dropped because a queue or table was full, by kind: dial (a connection to open), link (a new connection), slots (own event batches with many gaps; the others hear of them later), event (of a kind that has no place here: a bug).", "what", []string{"event", "dial", "link", "slots"}),
		received: make(map[string]prometheus.Counter),
		sent:     make(map[string]prometheus.Counter),
		refused:  make(map[cause]prometheus.Counter),
	}
	for _, c := range classes {
		m.connections.WithLabelValues(c)
	}
	bytes := with.NewCounterVec(prometheus.CounterOpts{
		Name: "banyan_mesh_bytes_total", Help: "Bytes received from (in) and sent to (out) peers, by kind of message (frame).",
	}, []string{"direction", "frame"})
	for _, name := range gossip.FrameNames() {
		m.received[name] = bytes.WithLabelValues("in", name)
		m.sent[name] = bytes.WithLabelValues("out", name)
	}
	refused := counters("banyan_mesh_refused_total", "Incoming connections and messages refused, by cause: garbage (not a peer), label or key (a different mesh.label or gossip key), tls, version, fingerprint (a different hash secret, grid or limits.predictions), oversize and frame (malformed), timeout, crowd (too many at once), member (unusable details).", "cause", nil)
	for _, c := range causes {
		m.refused[c] = refused.WithLabelValues(string(c))
	}
	return m
}

// in counts a received frame.
func (m *metrics) in(data []byte) { m.received[gossip.FrameName(data)].Add(float64(len(data))) }

// out counts a frame handed to a connection.
func (m *metrics) out(s gossip.Send) { m.sent[s.Kind].Add(float64(len(s.Data))) }
