package simulation

import (
	"fmt"
	"math/rand/v2"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/gossip"
	"github.com/banyan-llm/banyan/router/fleet"
	realindex "github.com/banyan-llm/banyan/router/index"
	"github.com/banyan-llm/banyan/router/ingest"
	"github.com/banyan-llm/banyan/router/load"
	"github.com/banyan-llm/banyan/router/pick"
	"github.com/banyan-llm/banyan/router/workingset"
)

// faultPeer is one router as far as replication goes: the real core, the real
// index, the real trackers, and between them what router does.
type faultPeer struct {
	run   *faultRun
	slot  int
	name  string
	id    crdt.PeerID
	core  *gossip.Core
	index *realindex.Index
	loads *load.Table
	used  *workingset.Set // nil: nobody asks
	clock peerClock
	pipes map[gossip.Conn]*pipeEnd
	wake  int64 // true time of the next tick planned; 0 none

	alive    bool
	died     int64 // when
	left     bool  // drained and gone: a goodbye, no failure
	draining bool
	stalled  bool
	backlog  []func() // what came while stalled
	caught   bool     // it is caught up with the mesh
	joined   bool     // it was once
	ready    bool     // GET /readyz would say so
	reason   string
	requests int  // under way
	ingests  bool // told the mesh of an engine's log as its owner, ever
	ring     ring

	sees    map[int]*sight
	buried  map[crdt.PeerID]bool // whom membership called dead, and not alive since
	elders  elders
	follows map[crdt.StreamID]*follower
	losses  gossip.Losses
	entries map[*faultEngine]entries // how discovery lists them
	fleet   *fleet.Fleet
	lists   map[crdt.StreamID]bool // replicas
	leaving ingest.Departures
	checked map[crdt.StreamID]*checkedStream
}

// boot starts a peer in a slot, with nothing.
func (r *faultRun) boot(slot int) {
	r.births++
	rng := rand.New(rand.NewPCG(r.cfg.Seed, 0xb007<<16|uint64(r.births)))
	p := &faultPeer{
		run: r, slot: slot, name: peerName(slot), alive: true, pipes: map[gossip.Conn]*pipeEnd{},
		sees: map[int]*sight{}, buried: map[crdt.PeerID]bool{}, follows: map[crdt.StreamID]*follower{},
		checked: map[crdt.StreamID]*checkedStream{}, clock: peerClock{r.skews[slot], r.skews[slot]},
		ring: r.ring, entries: map[*faultEngine]entries{}, fleet: fleet.New(fleet.Config{Changed: func() {}}),
	}
	for i := range p.id {
		p.id[i] = byte(rng.Uint32())
	}
	if r.cfg.grid > 0 {
		p.used = workingset.New(r.cfg.grid)
	}
	p.index = realindex.New(realindex.Config{Hasher: r.library.hasher, RingBytes: r.cfg.RingBytes, Predictions: r.cfg.predictions, Used: p.use})
	p.loads = load.New(p.id, p.now)
	p.list(func(e *faultEngine) bool { return !e.gone })
	grace := int64(0)
	if len(r.peers) == 0 {
		grace = 1 // it founds the mesh
	}
	core, err := gossip.New(gossip.Config{
		Self: p.id, Name: p.name, Label: "faults", Fingerprint: r.library.hasher.Fingerprint(), State: pick.State{Index: p.index, Table: p.loads, Wants: p.leaving.Wants}, Wants: p.leaving.Wants, Rand: rng, JoinGrace: grace,
	})
	if err != nil {
		panic(fmt.Sprintf("invariant: %v", err))
	}
	p.core = core
	if slot == len(r.peers) {
		r.peers = append(r.peers, p)
	} else {
		r.peers[slot] = p
	}
	r.trace(p.name, "starts, empty, as %v", p.id)
	r.meetElders(p)
	p.step(gossip.Tick{})
	r.every(houseMs, func() bool {
		p.do(p.house)
		return p.alive
	})
}

// use hears of every prompt that this peer sends or is told of.
func (p *faultPeer) use(at crdt.StreamID, blocks []uint64, atMs int64) {
	if p.used != nil {
		p.used.Use(at, blocks, atMs, p.now())
	}
}

// houseMs is how often a peer looks after its streams and memory.
const houseMs = 250

// do lets the peer do something, now or when it is no longer stalled.
func (p *faultPeer) do(f func()) {
	switch {
	case !p.alive:
	case p.stalled:
		p.backlog = append(p.backlog, f)
	default:
		f()
	}
}

// resume works off what came while the peer was stalled.
func (p *faultPeer) resume() {
	p.stalled = false
	todo := p.backlog
	p.backlog = nil
	for _, f := range todo {
		p.do(f)
	}
}

// step gives the core one event.
func (p *faultPeer) step(ev gossip.Event) {
	p.do(func() {
		now := p.now()
		effects := p.core.Step(now, ev)
		for _, e := range effects {
			p.effect(e)
		}
		p.plan(p.core.NextTick() - now)
	})
}

// plan sees to it that the core is stepped ms from now.
func (p *faultPeer) plan(ms int64) {
	at := p.run.now + max(ms, 1)
	if p.wake != 0 && p.wake <= at && p.wake > p.run.now {
		return
	}
	p.wake = at
	p.run.after(at-p.run.now, func() {
		if p.wake == at {
			p.wake = 0
			p.step(gossip.Tick{})
		}
	})
}

// effect carries out what the core wants. Nothing comes back to any core
// within the same step.
func (p *faultPeer) effect(e gossip.Effect) {
	r := p.run
	switch e := e.(type) {
	case gossip.Send:
		if !r.cfg.terse && (e.Kind == "slots" || e.Kind == "want" || e.Kind == "snapshot") {
			r.traceFrame(p, e)
		}
		r.net.send(p, e)
	case gossip.Dial:
		if y := r.byID(e.Peer); y != nil {
			r.net.dial(p, y, e.Class)
		}
	case gossip.Hangup:
		r.trace(p.name, "hangs up: %s", e.Reason)
		r.net.hangup(p, e.Conn)
	case gossip.Refused:
		r.violate("Refused", p, "refused a peer of its own mesh: %s", e.Reason)
	case gossip.CutSnapshot:
		r.after(r.net.rng.Int64N(20), func() { p.do(func() { p.cutSnapshot(e.Stream) }) })
	case gossip.JoinSnapshot:
		r.after(r.net.rng.Int64N(20), func() { p.do(func() { p.joinSnapshot(e.Snapshot) }) })
	case gossip.Missing:
		r.after(0, func() { p.do(func() { p.missing(e.Stream, e.Spans) }) })
	case gossip.Caught:
		p.caught, p.reason = e.Ready, e.Reason
		p.joined = p.joined || e.Ready
		p.ready = p.joined && !p.draining // as in package router: who is behind stays ready
		r.trace(p.name, "ready %v: %s", e.Ready, e.Reason)
	}
}

func (p *faultPeer) cutSnapshot(id crdt.StreamID) {
	p.step(gossip.SnapshotCut{Stream: id, Snapshot: p.index.Cut(id)})
}

func (p *faultPeer) joinSnapshot(s *crdt.Snapshot) {
	err := p.index.Join(s, p.now())
	p.run.trace(p.name, "joins a snapshot of %s at floor %d: %v", s.Stream, s.Context.Floor, err)
	p.step(gossip.SnapshotJoined{Stream: s.Stream, Err: err})
}

// house is what router's housekeeping and ingest do now and then.
func (p *faultPeer) house() {
	now := p.now()
	for p.index.Maintain(now, 4096) {
	}
	p.loads.Decay(now)
	p.forgetDeparted(now)
	p.reconcile(now)
	p.declare(now)
	for _, e := range p.run.engines {
		if f := p.follows[e.stream]; f != nil {
			f.tick()
		}
	}
}
