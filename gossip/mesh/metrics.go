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
		inbox:  gauge("banyan_mesh_inbox_depth", "Events waiting for the gossip loop."),
		outbox: gauge("banyan_mesh_outbox_bytes", "Bytes waiting to be written to peers."),
		expiry: prometheus.NewGauge(prometheus.GaugeOpts{Name: "banyan_cert_expiry_timestamp_seconds", Help: "When this peer's mesh certificate ends; absent without mesh.tls."}),
		connections: with.NewGaugeVec(prometheus.GaugeOpts{
			Name: "banyan_mesh_connections", Help: "Peer streams that stand.",
		}, []string{"class"}),
		ended:    counters("banyan_mesh_connections_ended_total", "Peer streams that ended, by what ended them.", "by", endings),
		dials:    counters("banyan_mesh_dials_total", "Attempts to open a peer stream.", "result", results),
		joins:    counters("banyan_mesh_joins_total", "Attempts to join a seed.", "result", results),
		dropped:  counters("banyan_mesh_dropped_total", "Work given up at a bound, by what.", "what", []string{"event", "dial", "link"}),
		received: make(map[string]prometheus.Counter),
		sent:     make(map[string]prometheus.Counter),
		refused:  make(map[cause]prometheus.Counter),
	}
	for _, c := range classes {
		m.connections.WithLabelValues(c)
	}
	bytes := with.NewCounterVec(prometheus.CounterOpts{
		Name: "banyan_mesh_bytes_total", Help: "Bytes of frames on peer streams.",
	}, []string{"direction", "frame"})
	for _, name := range gossip.FrameNames() {
		m.received[name] = bytes.WithLabelValues("in", name)
		m.sent[name] = bytes.WithLabelValues("out", name)
	}
	refused := counters("banyan_mesh_refused_total", "What was refused from outside, by cause.", "cause", nil)
	for _, c := range causes {
		m.refused[c] = refused.WithLabelValues(string(c))
	}
	return m
}

// in counts a received frame.
func (m *metrics) in(data []byte) { m.received[gossip.FrameName(data)].Add(float64(len(data))) }

// out counts a frame handed to a connection.
func (m *metrics) out(s gossip.Send) { m.sent[s.Kind].Add(float64(len(s.Data))) }
