package gossip

import (
	"github.com/banyan-llm/banyan/crdt"
)

// Core is the replication protocol of one peer: a state machine without
// clock, goroutine or socket. It is not safe for concurrent use. It takes events
// and runs the timers; its parts do the work.
type Core struct {
	*base
	began bool

	clock       *clockJudge
	neighbours  *neighbours
	acks        *acks
	loads       *loads
	predictions *predictions
	intents     *intents
	digests     *digests
	summaries   *summaries
	cursor      *cursor
	serving     *serving
	repair      *repair
	keys        *keyRepair
	readiness   *readiness
}

// New checks the configuration and makes a Core. Nothing happens before the
// first Step.
func New(cfg Config) (*Core, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	b := &base{
		cfg:   cfg,
		lim:   cfg.Limits,
		state: cfg.State,
		peers: make(map[crdt.PeerID]*peer),
		conns: make(map[Conn]*conn),
		stats: newStats(),
	}
	return assemble(b), nil
}

// assemble makes the parts and tells each of those it works with.
func assemble(b *base) *Core {
	c := &Core{
		base: b, clock: &clockJudge{base: b}, neighbours: &neighbours{base: b, gone: make(map[crdt.PeerID]gone), refused: make(map[refusal]string)},
		acks: &acks{base: b}, loads: &loads{base: b}, predictions: &predictions{base: b}, intents: &intents{base: b},
		digests: &digests{base: b, divergent: make(map[crdt.StreamID]map[crdt.PeerID]bool)}, summaries: &summaries{base: b},
		cursor:  &cursor{base: b, streams: make(map[crdt.StreamID]*local), cache: make(map[crdt.StreamID]*batch)},
		serving: &serving{base: b}, repair: &repair{base: b, pulls: make(map[crdt.StreamID]*pull)}, keys: &keyRepair{base: b}, readiness: &readiness{base: b},
	}
	c.acks.cursor, c.acks.loads, c.acks.repair = c.cursor, c.loads, c.repair
	c.cursor.digests, c.cursor.serving, c.cursor.readiness, c.cursor.repair = c.digests, c.serving, c.readiness, c.repair
	c.digests.cursor, c.digests.intents, c.digests.keys, c.digests.loads = c.cursor, c.intents, c.keys, c.loads
	c.digests.predictions, c.digests.readiness, c.digests.repair, c.digests.summaries = c.predictions, c.readiness, c.repair, c.summaries
	c.serving.cursor, c.keys.serving, c.loads.acks = c.cursor, c.serving, c.acks
	n := c.neighbours
	n.acks, n.cursor, n.digests, n.serving, n.intents, n.loads, n.repair = c.acks, c.cursor, c.digests, c.serving, c.intents, c.loads, c.repair
	c.readiness.cursor, c.readiness.digests, c.readiness.repair = c.cursor, c.digests, c.repair
	c.repair.cursor, c.repair.readiness = c.cursor, c.readiness
	t := c.summaries
	t.digests, t.intents, t.loads, t.predictions = c.digests, c.intents, c.loads, c.predictions
	return c
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
	clear(c.cursor.cache)
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
	c.loads.heartbeatDue = c.now + heartbeatMs
	c.digests.digestDue = c.now + c.jitter(digestMs)
	c.due = c.now
}

func (c *Core) handle(ev Event) {
	switch ev := ev.(type) {
	case ClockSet:
		c.clock.clockSet(ev.AheadMs)
	case MemberUp:
		c.neighbours.memberUp(ev)
	case MemberDown:
		c.neighbours.memberDown(ev)
	case Connected:
		c.neighbours.connected(ev)
	case Disconnected:
		c.neighbours.disconnected(ev.Conn)
	case Received:
		c.received(ev)
	case Writable:
		c.writable(ev.Conn)
	case Ingested:
		c.cursor.ingested(ev)
	case LoadChanged:
		c.loads.loadChanged(ev.Urgent)
	case Predicted:
		c.predictions.predicted()
	case IntentChanged:
		c.intents.intentChanged()
	case SnapshotCut:
		c.serving.snapshotCut(ev)
	case SnapshotJoined:
		c.repair.snapshotJoined(ev)
	}
}

// NextTick is when the Core wants to be stepped next, ms.
func (c *Core) NextTick() int64 { return c.due }
