package simulation

import (
	"slices"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/gossip"
	"github.com/banyan-llm/banyan/router/ingest"
	"github.com/banyan-llm/banyan/router/kvevents/follow"
)

// follower is one peer's connection to one engine, with the real tracker. The
// sockets between them are events of the agenda.
type follower struct {
	peer   *faultPeer
	engine *faultEngine
	track  *follow.Tracker
	began  int64 // the tracker's time 0, as in kvevents.Subscriber
	hold   ingest.Hold
	knew   uint64 // highest epoch that its peer knew when the tracker took the present one

	up     bool
	conn   int   // numbers connections; what an old one carries is gone
	replay int   // numbers replays
	lastAt int64 // latest arrival planned
}

// owners are those of a stream as this peer sees it.
func (p *faultPeer) owners(id crdt.StreamID) []crdt.PeerID {
	var peers []crdt.PeerID
	for _, info := range p.core.Peers() {
		if info.Member && ingest.Counts(info.Ready, info.Draining, info.ViewAge) {
			peers = append(peers, info.ID)
		}
	}
	return ingest.Owners(id, peers, ingest.Self{ID: p.id, Joined: p.joined, Draining: p.draining}, 2)
}

// reconcile follows what is owned and lets go of the rest.
func (p *faultPeer) reconcile(now int64) {
	for _, e := range p.run.engines {
		rank := slices.Index(p.owners(e.stream), p.id)
		f := p.follows[e.stream]
		if !p.lists[e.stream] {
			if f != nil {
				f.end()
			}
			continue
		}
		if f != nil {
			f.hold.Look(rank, f.track.LastSeq(), now)
		}
		switch {
		case f == nil && rank >= 0:
			f = &follower{peer: p, engine: e, track: follow.New(e.replay > 0), began: now, hold: ingest.Hold{First: rank == 0}}
			p.follows[e.stream] = f
			f.connect()
		case f == nil:
		case f.hold.Over(false):
			f.end()
		}
	}
}

// end lets go of the engine.
func (f *follower) end() {
	f.conn++
	f.replay++
	delete(f.peer.follows, f.engine.stream)
}

// hears reports whether the engine's bytes reach the peer.
func (f *follower) hears() bool { return f.engine.up && f.engine.cutOff[f.peer.slot] == 0 }

func (f *follower) delay() int64 { return 1 + f.peer.run.net.rng.Int64N(5) }

// connect dials until it succeeds.
func (f *follower) connect() {
	f.conn++
	conn := f.conn
	f.peer.run.after(f.delay()+f.peer.run.net.rng.Int64N(100), func() {
		if f.conn != conn || !f.peer.alive {
			return
		}
		if !f.hears() {
			f.peer.run.after(200, f.connectAgain(conn))
			return
		}
		f.up = true
		f.peer.do(func() { f.step(follow.Connected{}) })
		f.identify(conn)
	})
}

// identify asks the engine when it started, until it answers. What it answers
// counts while the connection stands.
func (f *follower) identify(conn int) {
	f.peer.run.after(2*f.delay()+f.peer.run.net.rng.Int64N(30), func() {
		switch {
		case f.conn != conn || !f.peer.alive:
		case !f.hears():
			f.peer.run.after(200, func() { f.identify(conn) })
		default:
			told := follow.Identified{}
			if f.engine.tells {
				told.Start = f.engine.starts[f.engine.life-1]
			}
			f.peer.do(func() {
				if f.conn == conn {
					f.step(told)
				}
			})
		}
	})
}

func (f *follower) connectAgain(conn int) func() {
	return func() {
		if f.conn == conn {
			f.connect()
		}
	}
}

// disconnect ends the connection; what was on its way is lost.
func (f *follower) disconnect() {
	if f.up {
		f.up = false
		f.peer.do(func() { f.step(follow.Disconnected{}) })
	}
	f.connect()
}

// publish sends one live batch, in order; some are missed, some come twice.
func (f *follower) publish(s crdt.Slot) {
	rng := f.peer.run.net.rng
	if !f.up || !f.hears() || rng.Float64() < f.engine.dropped {
		return
	}
	f.arrive(s, 0)
	if rng.Float64() < f.engine.repeated {
		f.arrive(s, rng.Int64N(500))
	}
}

func (f *follower) arrive(s crdt.Slot, late int64) {
	r, conn := f.peer.run, f.conn
	at := max(f.lastAt, r.now+f.delay())
	if late == 0 {
		f.lastAt = at
	}
	r.after(at-r.now+late, func() {
		f.peer.do(func() {
			if f.conn == conn {
				f.step(follow.Live{Slot: s})
			}
		})
	})
}

func (f *follower) tick() { f.step(follow.Tick{}) }

// step feeds the tracker and does what it says.
func (f *follower) step(ev follow.Event) {
	p, now := f.peer, f.peer.now()
	k, _ := p.index.Prior(f.engine.stream)
	prior := follow.Prior{Epoch: k.Epoch, Anchor: k.Anchor, Floor: k.Floor, LastSeq: k.Last, LastTS: k.LastTS}
	before := f.track.Epoch()
	out := f.track.Step(now-f.began, prior, ev)
	if f.track.Epoch() != before {
		f.knew = k.Epoch
	}
	p.run.oneName(f, before, &prior, &out)
	if out.Opened {
		p.run.namedApart(f, out.Epoch)
		p.run.trace(p.name, "names process %d of %s epoch %d", f.engine.life, f.engine.name, out.Epoch)
	}
	if len(out.Deliver) > 0 || out.Opened {
		f.deliver(&out, now)
	}
	if len(out.Exhausted) > 0 {
		p.losses.Exhausted(f.engine.stream, out.Epoch, out.Exhausted, now)
	}
	if out.StopReplay || out.Replay != nil {
		f.replay++
	}
	if out.Replay != nil {
		f.play(*out.Replay)
	}
	if out.HangUp {
		p.run.trace(p.name, "hangs up on %s", f.engine.name)
		f.up = false
		f.connect()
	}
}

// deliver is the event path: slots -> index -> mesh.
func (f *follower) deliver(out *follow.Output, now int64) {
	p, id := f.peer, f.engine.stream
	p.run.noteEpoch(f, out)
	d := crdt.Delta{Stream: id, Epoch: out.Epoch, Anchor: out.Anchor, Slots: out.Deliver}
	res := p.index.Apply(&d, now)
	if res.Stale || res.Overflow {
		p.run.trace(p.name, "%d slots of %s not taken: stale %v, overflow %v", len(d.Slots), f.engine.name, res.Stale, res.Overflow)
		return
	}
	if !ingest.Relay(&res) {
		return // a repeat, or what another owner told first
	}
	p.ingests = true
	p.run.spread(id, out.Epoch, out.Deliver)
	p.step(gossip.Ingested{Stream: id, Epoch: out.Epoch, Slots: crdt.SpansOf(out.Deliver), ReceivedAt: now, First: f.hold.First})
}

// play answers a replay request: it is lossy, and its end may not be heard.
func (f *follower) play(ask follow.ReplayFrom) {
	r, run, life := f.peer.run, f.replay, f.engine.life
	wait := 2 * f.delay()
	if ask.Again {
		wait += 100 + r.net.rng.Int64N(200)
	}
	r.after(wait, func() {
		if f.replay != run {
			return
		}
		if !f.hears() || f.engine.life != life {
			r.after(500, func() { f.replayed(run, nil, false) })
			return
		}
		log := f.engine.log()
		log = log[max(0, len(log)-f.engine.replay):]
		var got []crdt.Slot
		for _, s := range log {
			if s.Seq >= ask.From && r.net.rng.Float64() >= f.engine.dropped {
				got = append(got, s)
			}
		}
		if r.net.rng.Float64() < f.engine.dropped {
			f.replayed(run, got, false)
			return
		}
		f.replayed(run, got, true)
	})
}

func (f *follower) replayed(run int, slots []crdt.Slot, complete bool) {
	f.peer.do(func() {
		for _, s := range slots {
			if f.replay == run {
				f.step(follow.Replayed{Slot: s})
			}
		}
		if f.replay == run {
			f.step(follow.ReplayEnded{Complete: complete})
		}
	})
}

// missing is the core's word that no live peer has these slots.
func (p *faultPeer) missing(id crdt.StreamID, spans []crdt.Span) {
	prior, ok := p.index.Prior(id)
	if !ok {
		return
	}
	p.losses.Absent(id, prior.Epoch, spans, p.now())
	if f := p.follows[id]; f != nil {
		f.step(follow.Wanted{Spans: spans})
	}
}

// declare gives slots up that neither a peer nor the engine has.
func (p *faultPeer) declare(now int64) {
	due := p.losses.Due(now, func(id crdt.StreamID) bool {
		f := p.follows[id]
		return f != nil && f.hold.Owner()
	})
	for _, l := range due {
		if !slices.Contains(p.owners(l.Stream), p.id) {
			p.run.violate("HastyLoss", p, "declares %v of %s lost and is no owner", l.Spans, l.Stream)
		}
	}
	p.lose(due, now)
}

// lose declares those of the slots lost that are still missing.
func (p *faultPeer) lose(due []gossip.Loss, now int64) {
	for _, lost := range ingest.Declare(due, p.index, now) {
		p.run.trace(p.name, "declares %v of %s lost", lost.Lost, lost.Stream)
		p.ingests = true
		p.step(lost)
	}
}
