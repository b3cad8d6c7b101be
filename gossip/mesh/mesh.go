package mesh

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/memberlist"
	"github.com/hashicorp/serf/serf"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/gossip"
)

// ErrClosed is returned after Close, and by what needs a running mesh before
// Start.
var ErrClosed = errors.New("mesh is not running")

// Mesh runs one peer's gossip: New binds, Start begins, Close ends.
type Mesh struct {
	cfg       Config
	log       hclog.Logger
	meter     *metrics
	once      *once // what seeds and files make this peer say; strangers have their own
	warned    *once // what the core warns of
	refusals  *refusals
	ring      *memberlist.Keyring // nil: no encryption of membership
	identity  identity
	transport *transport
	inbox     *inbox
	roster    *roster

	ctx      context.Context // ends with Close; not any one request's
	cancel   context.CancelFunc
	wg       sync.WaitGroup
	leaving  sync.WaitGroup // goodbyes under way
	loopDone chan struct{}
	view     atomic.Pointer[view]
	nextConn atomic.Uint64

	lost     chan struct{} // capacity 1; a member failed
	retag    chan struct{} // capacity 1
	met      atomic.Bool   // another peer was alive at some time
	udp      udpLoss
	unjoined atomic.Pointer[[]SeedFault]
	tagMu    sync.Mutex // guards word
	word     word

	life sync.Mutex // one Start or Close at a time; taken before mu

	mu    sync.Mutex // guards below; never held while calling out
	state state
	serf  *serf.Serf // set once, by Start
	links map[gossip.Conn]*link
	dials map[dialKey]bool
}

type state uint8

const (
	bound state = iota
	running
	closed
)

// view is what the core knew of its peers at a time.
type view struct {
	at    time.Time
	links []gossip.Link // by peer
}

// link finds what was known of a peer.
func (v *view) link(id crdt.PeerID) (gossip.Link, bool) {
	i, ok := slices.BinarySearchFunc(v.links, id, func(l gossip.Link, id crdt.PeerID) int { return slices.Compare(l.Peer[:], id[:]) })
	if !ok {
		return gossip.Link{}, false
	}
	return v.links[i], true
}

// New checks the configuration, reads the certificates and binds the port.
// Nothing is answered before Start.
func New(cfg Config) (*Mesh, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	m := &Mesh{
		cfg:      cfg,
		log:      cfg.Logger,
		inbox:    newInbox(),
		roster:   newRoster(cfg.PeerID),
		once:     newOnce(cfg.Now, onceEvery),
		warned:   newOnce(cfg.Now, time.Second),
		loopDone: make(chan struct{}),
		lost:     make(chan struct{}, 1),
		retag:    make(chan struct{}, 1),
		links:    make(map[gossip.Conn]*link),
		dials:    make(map[dialKey]bool),
	}
	if err := m.trust(); err != nil {
		return nil, err
	}
	m.ctx, m.cancel = context.WithCancel(context.Background())
	if err := m.bind(); err != nil {
		m.cancel()
		return nil, err
	}
	m.meter = newMetrics(cfg.Registerer)
	if m.identity.expires().Before(forever) {
		cfg.Registerer.MustRegister(m.meter.expiry)
	}
	m.meter.expiry.Set(float64(m.identity.expires().Unix()))
	m.refusals = &refusals{log: m.log, once: newOnce(cfg.Now, onceEvery), count: func(c cause) { m.meter.refused[c].Inc() }}
	return m, nil
}

// trust sets up the keyring and the identity on peer streams.
func (m *Mesh) trust() error {
	keys, err := decodeKeys(m.cfg.Keyring)
	if err != nil {
		return err
	}
	m.identity = none{}
	if len(keys) > 0 {
		if m.ring, err = memberlist.NewKeyring(keys, keys[0]); err != nil {
			return fmt.Errorf("mesh.keyring: %w", err)
		}
		m.identity = &ringIdentity{ring: m.ring}
	}
	if m.cfg.TLS.all() {
		if m.identity, err = newFileIdentity(m.cfg.TLS, m.cfg.Clock); err != nil {
			return err
		}
	}
	return nil
}

// bind opens the port and works out the address others use.
func (m *Mesh) bind() error {
	tcp, udp, err := listen(m.ctx, m.cfg.Bind)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(m.ctx, resolveBound)
	defer cancel()
	advertise, err := advertised(ctx, m.cfg.Advertise, tcp.Addr().(*net.TCPAddr))
	if err != nil {
		return errors.Join(err, tcp.Close(), udp.Close())
	}
	t := &transport{
		tcp: tcp, udp: udp, advertise: advertise,
		header: labelHeader(m.cfg.Label), timing: m.cfg.Timing,
		packets: make(chan *memberlist.Packet), streams: make(chan net.Conn),
		peer: m.accepted, wire: m.cfg.wire,
		refuse: func(why cause, from net.Addr, args ...any) { m.refusals.refuse(why, from, args...) },
	}
	t.handshakes = newHandshakes(maxHandshakes, maxHandshakeBytes, func(c net.Conn, why cause) { t.refuse(why, c.RemoteAddr()) })
	t.ctx, t.cancel = context.WithCancel(m.ctx)
	m.transport = t
	return nil
}

// Start begins: membership, the loop, the seeds. It returns before any seed
// was reached.
func (m *Mesh) Start() error {
	m.life.Lock()
	defer m.life.Unlock()
	if m.now() != bound {
		return ErrClosed
	}
	m.wg.Go(m.loop)
	m.transport.start()
	events := make(chan serf.Event, 64)
	logger := newSerfLog(m.log, newOnce(m.cfg.Now, onceEvery), func() { m.refusals.count(causeKey) }, func() { m.udp.note(m.cfg.Now()) })
	sc := serfConfig(&m.cfg, m.transport, m.ring, logger, events)
	sc.Merge = bouncer{roster: m.roster, refused: func(err error) { m.refusals.refuse(causeMember, nil, "err", err) }}
	s, err := serf.Create(sc)
	if err != nil {
		m.become(closed, nil)
		m.cancel()
		err = errors.Join(fmt.Errorf("start mesh: %w", err), m.transport.Shutdown())
		m.wg.Wait()
		return err
	}
	m.become(running, s)
	m.wg.Go(func() { m.members(events, s.ShutdownCh()) })
	m.wg.Go(func() { m.tags(m.ctx) })
	m.wg.Go(func() { m.seeds(m.ctx) })
	m.wg.Go(func() { m.probeFailed(m.ctx) })
	m.wg.Go(func() { m.keep(m.ctx) })
	if m.ring == nil && !m.cfg.TLS.all() {
		m.log.Warn("mesh is not encrypted: anyone who reaches the port is a peer; set mesh.keyring", "addr", m.Addr())
	}
	return nil
}

func (m *Mesh) now() state {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state
}

func (m *Mesh) become(st state, s *serf.Serf) {
	m.mu.Lock()
	m.state, m.serf = st, s
	m.mu.Unlock()
}

// Close ends the mesh and waits for all of it (I9), for a goodbye under way too.
// Leave comes first where there is time for it; without it the others take this
// peer for failed.
func (m *Mesh) Close() error {
	m.life.Lock()
	defer m.life.Unlock()
	m.mu.Lock()
	was, s := m.state, m.serf
	m.state = closed
	m.mu.Unlock()
	m.cancel()
	var err error
	switch was {
	case running:
		m.leaving.Wait() // memberlist panics where it is shut down amid a goodbye
		err = s.Shutdown()
		// memberlist waits for none of the streams it was handed.
		if !m.transport.handshakes.left(m.cfg.Timing.Hello) {
			m.log.Warn("gossip connections still open at close; harmless, they end with this process", "waited", m.cfg.Timing.Hello)
		}
	case bound:
		close(m.loopDone)
		err = m.transport.Shutdown()
	case closed:
	}
	m.wg.Wait()
	if err != nil {
		return fmt.Errorf("close mesh: %w", err)
	}
	return nil
}

// Addr is the address other peers use.
func (m *Mesh) Addr() string { return m.transport.advertise.String() }

// Post tells the core what happened in this process: Ingested, LoadChanged,
// Predicted, IntentChanged, SnapshotCut and SnapshotJoined. It never waits: what
// waits already is added to. Of slots with more gaps than the core would owe a
// peer the latest runs stay, and digests tell of the others. Other events are the
// shell's own. What is dropped is counted.
func (m *Mesh) Post(ev gossip.Event) {
	if what := m.inbox.local(ev); what != "" {
		m.meter.dropped.WithLabelValues(what).Inc()
	}
}

// Do runs fn in the loop between two steps, so that it may read the core. It
// waits for it; after an error fn may still run, or not.
func (m *Mesh) Do(ctx context.Context, fn func()) error {
	done := make(chan struct{})
	m.inbox.call(func() { defer close(done); fn() })
	select {
	case <-done:
		return nil
	case <-m.loopDone:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Members lists all peers membership knows, this one first. It never waits.
func (m *Mesh) Members() []Member {
	out := m.roster.list()
	v := m.view.Load()
	if v == nil {
		return out
	}
	since := max(0, m.cfg.Now().Sub(v.at))
	for i := range out {
		p := &out[i]
		if l, ok := v.link(p.ID); ok && p.State == Alive && !p.Self {
			p.Connected = l.Connected
			p.ViewAge = time.Duration(l.ViewAge)*time.Millisecond + since
		}
	}
	return out
}
