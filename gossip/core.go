package gossip

import (
	"slices"

	"github.com/banyan-llm/banyan/crdt"
)

// Core is the replication protocol of one peer: a state machine without
// clock, goroutine or socket. It is not safe for concurrent use.
type Core struct {
	cfg   Config
	lim   Limits
	state State

	now   int64 // ms; never runs backwards (I2)
	ahead int64 // ms: the wall clock's lead over now

	clockOff int64   // ms the wall clock is ahead of most peers'; 0: not by much
	clockDue int64   // when that is looked at next
	leads    []int64 // scratch
	began    bool
	startAt  int64 // time of the first Step
	due      int64 // when timers must run next
	effects  []Effect

	dialing dialPace

	peers map[crdt.PeerID]*peer
	order []*peer // by id: everything that is sent walks this
	conns map[Conn]*conn
	links []*conn // conns in order of arrival, for walking

	gone    map[crdt.PeerID]gone // peers membership declared down
	refused map[refusal]string   // causes already reported, in the words for people

	streams map[crdt.StreamID]*local
	fills   []fillDue // second owner's slots, by time

	pulls     map[crdt.StreamID]*pull
	pullOrder []*pull // by stream
	staged    int     // bytes of snapshots being received

	cuts      []*cutting // in order of asking
	transfers int        // snapshots being sent
	transfer  uint64
	cache     map[crdt.StreamID]*parcel // of this Step

	divergent map[crdt.StreamID]map[crdt.PeerID]bool // whose sums differ from ours

	loadDue      int64 // when dirty registers must go; 0 not dirty
	loadSent     int64
	loads        []crdt.LoadEntry // scratch
	heartbeatDue int64
	quiet        []*peer // scratch
	digestDue    int64
	predictDue   int64
	scratch      []byte
	pushDue      int64 // when own slots must go; 0 none wait
	pushedAt     int64

	ready   ready
	snapped []crdt.StreamID // streams joined by snapshot within the last minute
	stats   Stats
	in, out [kinds]Traffic // of all peers
}

// New checks the configuration and makes a Core. Nothing happens before the
// first Step.
func New(cfg Config) (*Core, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	return &Core{
		cfg:       cfg,
		lim:       cfg.Limits,
		state:     cfg.State,
		peers:     make(map[crdt.PeerID]*peer),
		conns:     make(map[Conn]*conn),
		gone:      make(map[crdt.PeerID]gone),
		refused:   make(map[refusal]string),
		streams:   make(map[crdt.StreamID]*local),
		pulls:     make(map[crdt.StreamID]*pull),
		cache:     make(map[crdt.StreamID]*parcel),
		divergent: make(map[crdt.StreamID]map[crdt.PeerID]bool),
		stats:     newStats(),
	}, nil
}

// Step handles one event at time nowMs and returns what is to be done, in
// order. The slice is valid until the next Step, the bytes of Send effects for
// ever. Data of a Received event may be kept.
//
// nowMs is the wall clock's time (ms since 1970) at the process's start and what
// passed since: everything that takes a while is measured by it, so setting the
// wall clock must not move it. How far that is off then is told by ClockSet.
func (c *Core) Step(nowMs int64, ev Event) []Effect {
	c.effects = c.effects[:0]
	clear(c.cache)
	c.now = max(c.now, nowMs)
	if !c.began {
		c.begin()
	}
	c.handle(ev)
	if _, tick := ev.(Tick); tick || c.now >= c.due {
		c.timers()
	}
	return c.effects
}

func (c *Core) begin() {
	c.began, c.startAt = true, c.now
	c.heartbeatDue = c.now + heartbeatMs
	c.digestDue = c.now + c.jitter(digestMs)
	c.due = c.now
}

func (c *Core) handle(ev Event) {
	switch ev := ev.(type) {
	case ClockSet:
		c.clockSet(ev.AheadMs)
	case MemberUp:
		c.memberUp(ev)
	case MemberDown:
		c.memberDown(ev)
	case Connected:
		c.connected(ev)
	case Disconnected:
		c.disconnected(ev.Conn)
	case Received:
		c.received(ev)
	case Writable:
		c.writable(ev.Conn)
	case Ingested:
		c.ingested(ev)
	case LoadChanged:
		c.loadChanged(ev.Urgent)
	case Predicted:
		c.predicted()
	case IntentChanged:
		c.intentChanged()
	case SnapshotCut:
		c.snapshotCut(ev)
	case SnapshotJoined:
		c.snapshotJoined(ev)
	}
}

// NextTick is when the Core wants to be stepped next, ms.
func (c *Core) NextTick() int64 { return c.due }

func (c *Core) emit(e Effect) { c.effects = append(c.effects, e) }

func (c *Core) log(level, msg string, args ...any) {
	c.emit(Log{Level: level, Msg: msg, Args: args})
}

// wake makes timers run at t at the latest.
func (c *Core) wake(t int64) { c.due = min(c.due, t) }

// jitter draws from [ms, 2*ms).
func (c *Core) jitter(ms int64) int64 { return ms + c.cfg.Rand.Int64N(ms) }

// digestOf is the digest of a stream, empty if it is unknown here.
func (c *Core) digestOf(id crdt.StreamID) crdt.Digest {
	d, ok := c.state.Digest(id)
	if !ok {
		return crdt.Digest{}
	}
	return d
}

// insertPeer keeps order sorted by id.
func (c *Core) insertPeer(p *peer) {
	i, _ := slices.BinarySearchFunc(c.order, p, func(a, b *peer) int { return slices.Compare(a.id[:], b.id[:]) })
	c.order = slices.Insert(c.order, i, p)
	c.peers[p.id] = p
}
