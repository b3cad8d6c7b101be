package mesh

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/banyan-llm/banyan/gossip"
)

// frameNames are the closed list of the frame label, by the kind's number on
// the wire; a test holds them against gossip.Describe.
var frameNames = [...]string{"unknown", "hello", "load", "slots", "ack", "digest", "want", "snapshot", "predict", "intent", "session", "fragment", "slots", "digest", "digest", "keys"}

const kindFragment = 11 // its payload names the kind it is a piece of

// frameName is the kind of a received frame: of the msgpack array [version,
// kind, number, payload] the second element, or what its payload is a piece of.
// It accepts any bytes.
func frameName(data []byte) string {
	if len(data) == 0 || data[0]&0xf0 != 0x90 {
		return frameNames[0]
	}
	_, rest := msgpackUint(data[1:])
	k, rest := msgpackUint(rest)
	if k == kindFragment {
		_, rest = msgpackUint(rest)
		k = pieceOf(rest)
	}
	if k >= uint64(len(frameNames)) {
		return frameNames[0]
	}
	return frameNames[k]
}

// pieceOf reads the kind behind a fragment's byte-string head and its clock.
func pieceOf(b []byte) uint64 {
	if len(b) == 0 || b[0] < 0xc4 || b[0] > 0xc6 {
		return 0
	}
	at := 1 + 1<<(b[0]-0xc4) + 8
	if len(b) <= at {
		return 0
	}
	return uint64(b[at])
}

// msgpackUint reads an unsigned integer; what is none reads as 0 with nothing
// behind it.
func msgpackUint(b []byte) (n uint64, rest []byte) {
	switch {
	case len(b) == 0:
		return 0, nil
	case b[0] <= 0x7f:
		return uint64(b[0]), b[1:]
	case b[0] < 0xcc || b[0] > 0xcf:
		return 0, nil
	}
	width := 1 << (b[0] - 0xcc)
	if len(b) <= width {
		return 0, nil
	}
	for _, x := range b[1 : 1+width] {
		n = n<<8 | uint64(x)
	}
	return n, b[1+width:]
}

// How a connection ended, and how an attempt did: closed lists.
var (
	endings = []string{"core", "remote", "overflow", "stall", "key", "shutdown"}
	results = []string{"ok", "failed"}
)

// metrics are the shell's own; the router registers what the core counts.
type metrics struct {
	peers       prometheus.Gauge
	connections *prometheus.GaugeVec
	received    [len(frameNames)]prometheus.Counter
	sent        map[string]prometheus.Counter
	unknownSent prometheus.Counter
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
		ended:   counters("banyan_mesh_connections_ended_total", "Peer streams that ended, by what ended them.", "by", endings),
		dials:   counters("banyan_mesh_dials_total", "Attempts to open a peer stream.", "result", results),
		joins:   counters("banyan_mesh_joins_total", "Attempts to join a seed.", "result", results),
		dropped: counters("banyan_mesh_dropped_total", "Work given up at a bound, by what.", "what", []string{"event", "dial", "link"}),
		sent:    make(map[string]prometheus.Counter),
		refused: make(map[cause]prometheus.Counter),
	}
	for _, c := range classes {
		m.connections.WithLabelValues(c)
	}
	bytes := with.NewCounterVec(prometheus.CounterOpts{
		Name: "banyan_mesh_bytes_total", Help: "Bytes of frames on peer streams.",
	}, []string{"direction", "frame"})
	for i, name := range frameNames {
		m.received[i] = bytes.WithLabelValues("in", name)
		m.sent[name] = bytes.WithLabelValues("out", name)
	}
	m.unknownSent = m.sent[frameNames[0]]
	refused := counters("banyan_mesh_refused_total", "What was refused from outside, by cause.", "cause", nil)
	for _, c := range causes {
		m.refused[c] = refused.WithLabelValues(string(c))
	}
	return m
}

// in counts a received frame.
func (m *metrics) in(data []byte) {
	name := frameName(data)
	for i, n := range frameNames {
		if n == name {
			m.received[i].Add(float64(len(data)))
			return
		}
	}
}

// out counts a frame handed to a connection.
func (m *metrics) out(s gossip.Send) {
	c := m.sent[s.Kind]
	if c == nil {
		c = m.unknownSent
	}
	c.Add(float64(len(s.Data)))
}
