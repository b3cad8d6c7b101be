package simulation

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/router/kvevents/follow"
)

// reached counts a corner in FaultReport.Reached.
func (r *faultRun) reached(corner string) { r.corners[corner]++ }

// habitNames is what an engine can become.
var habitNames = []string{"pages", "salts", "same-handles", "disk"}

// corners draws what random faults seldom bring about.
func (g *faultDraw) corners(rng *rand.Rand) (out []Fault) {
	g.rng = rng
	one := func(f Fault) {
		if f.Verb != "become" || rng.IntN(3) == 0 {
			f.At = g.within(g.span)
		}
		out = append(out, f)
	}
	for _, habit := range habitNames {
		if rng.IntN(3) == 0 {
			one(Fault{Verb: "become", Target: g.replica(), Habit: habit})
		}
	}
	if g.peers > 1 && rng.IntN(2) == 0 { // from early on, so that much is said meanwhile
		out = append(out, Fault{At: g.within(g.span / 2), Verb: "half", Target: g.replica(), For: g.span/4 + g.within(g.span/4)})
	}
	if rng.IntN(4) == 0 {
		one(Fault{Verb: "clears", Target: g.replica(), Factor: float64(200 + rng.IntN(1_000))})
	}
	for range rng.IntN(3) {
		if g.peers > 1 {
			f := Fault{Verb: "choke", Peer: g.peer(), OneWay: true, For: time.Second + g.within(g.span/3)}
			f.Other = g.other(f.Peer)
			one(f)
		}
	}
	if rng.IntN(4) == 0 {
		for f := (Fault{Verb: "restart", Target: g.replica()}); len(out) == 0 || out[len(out)-1].Verb != "restart"; {
			for range 3 {
				one(f)
			}
		}
	}
	if g.replicas > 1 && rng.IntN(4) == 0 {
		one(Fault{Verb: "twice", Target: "r0", Other: "r1"})
	}
	if g.replicas > 1 && rng.IntN(3) == 0 {
		one(Fault{Verb: "depart", Target: peerlessReplica(g.replicas - 1)})
		if rng.IntN(2) == 0 {
			out = append(out, Fault{At: g.span - 10*time.Millisecond, Verb: "join"})
		}
	}
	return out
}

// outside draws what those around the mesh do to it: its keys, its lists.
func (g *faultDraw) outside(rng *rand.Rand) (out []Fault) {
	g.rng = rng
	if g.peers > 1 && rng.IntN(4) == 0 {
		cut := Fault{At: g.within(g.span / 2), Verb: "cut", Peer: g.peer(), For: g.span/4 + g.within(g.span/4)}
		cut.Other = g.other(cut.Peer)
		out = append(out, cut, Fault{At: cut.At + g.within(g.span/16), Verb: "rotate"})
	}
	if rng.IntN(4) == 0 {
		out = append(out, Fault{At: g.within(g.span), Verb: "relist", Target: g.replica(), For: g.span/4 + g.within(g.span/2)})
	}
	return out
}

func peerlessReplica(i int) string { return fmt.Sprintf("r%d", i) }

// process is whose process an engine's URL leads to.
func (e *faultEngine) process() *faultEngine {
	if e.of != nil {
		return e.of
	}
	return e
}

// halve cuts the mesh in two of which one half does not hear an engine.
func (r *faultRun) halve(e *faultEngine) (undo func()) {
	n := len(r.peers)
	cut := func(by int) {
		for i := range n {
			if i%2 == 0 {
				e.cutOff[i] += by
			}
			for j := range i {
				if i%2 != j%2 {
					r.net.cut(i, j, by)
					r.net.cut(j, i, by)
				}
			}
		}
	}
	cut(1)
	return func() {
		r.noteRolled(e)
		cut(-1)
		for i := 0; i < n; i += 2 {
			if f := r.peers[i].follows[e.stream]; f != nil && e.cutOff[i] == 0 {
				f.disconnect()
			}
		}
	}
}

// noteRolled counts if no ring can tell some peer the next slot it lacks.
func (r *faultRun) noteRolled(e *faultEngine) {
	for _, deaf := range r.live() {
		d, _ := deaf.index.Digest(e.stream)
		next := crdt.Span{From: d.Context.Floor + 1, To: d.Context.Floor + 1}
		for _, p := range r.live() {
			has, _ := p.index.Digest(e.stream)
			if deaf.slot%2 == 0 && p.slot%2 == 1 && d.Context.Epoch != 0 && d.Context.Epoch == has.Context.Epoch && has.Context.Floor >= next.From &&
				len(p.index.Slots(e.stream, has.Context.Epoch, []crdt.Span{next}, 1<<20)) == 0 {
				r.reached("half-heard, and a ring rolled over")
				return
			}
		}
	}
}

// clearAgain says many batches at once that each clear a thousand times.
func (e *faultEngine) clearAgain(batches int) {
	life := e.life
	e.run.check(e.stream)
	e.run.every(1, func() bool {
		for range min(batches, 5) {
			if !e.up || e.life != life {
				return false
			}
			var b crdt.Builder
			for range 1_000 {
				b.Clear()
			}
			e.empty()
			e.serve(&b, &e.run.library.prompts[e.rng.IntN(len(e.run.library.prompts))])
			e.say(&b)
			e.run.reached("clears")
			batches--
		}
		return batches > 0
	})
}

// Times of departures, ms. Routers wait ten minutes instead of 8 s.
const (
	staggerMs = 6_000
	forgetMs  = 8_000
)

// depart takes a replica off the peers' lists, each at a time of its own; then it
// ends.
func (r *faultRun) depart(e *faultEngine) {
	if e.gone || len(r.listed()) < 2 {
		return
	}
	e.gone = true
	for _, p := range r.peers {
		for _, s := range p.sees {
			s.loaded = false // of registers that go with it nobody asks
		}
		r.after(r.news.Int64N(staggerMs), func() { p.list(func(o *faultEngine) bool { return p.lists[o.stream] && o != e }) })
	}
	r.after(staggerMs, func() { e.up = e.up && len(e.also) > 0 })
}

// listed are the engines that have not left.
func (r *faultRun) listed() (out []*faultEngine) {
	for _, e := range r.engines {
		if !e.gone {
			out = append(out, e)
		}
	}
	return out
}

// forgetDeparted is router's: what left long ago is dropped.
func (p *faultPeer) forgetDeparted(now int64) {
	for _, id := range p.leaving.Due(p.loads.Held(p.index.Streams(nil)), now, forgetMs) {
		if p.loads.InFlight(id) > 0 {
			continue
		}
		p.run.trace(p.name, "forgets %s", id)
		p.run.reached("departed and forgotten")
		p.index.Remove(id)
		p.loads.ForgetReplica(id)
	}
	p.index.Sweep(p.leaving.Wants)
}

// lingers names a replica that left and that a peer still knows.
func (r *faultRun) lingers(p *faultPeer) string {
	held := p.loads.Held(p.index.Streams(nil))
	for _, id := range held {
		if r.engineOf(id).gone {
			return fmt.Sprintf("%s still knows %s, which left", p.name, id)
		}
	}
	return ""
}

// twice makes an engine another URL of a process, which begins anew.
func (r *faultRun) twice(e, twin *faultEngine) {
	if twin.of != nil || len(twin.also) > 0 || e == twin || e.gone || twin.gone {
		return
	}
	r.restarts++
	twin.of, twin.mode, twin.tells = e, e.mode, e.tells
	e.also = append(e.also, twin)
	e.restart(0)
}

// Times of a slow reader, ms.
const (
	chokedMs     = 150 // a frame
	chokedLateMs = 1_000
)

// choke lets one peer read slowly what another one sends. Afterwards what still
// waits comes, or is torn off with the connection.
func (r *faultRun) choke(from, to int) (undo func()) {
	k, over := [2]int{from, to}, false
	r.net.choked[k]++
	r.every(chokedMs, func() bool {
		r.net.sip(from, to)
		return !over
	})
	return func() {
		over = true
		if r.net.rng.IntN(2) == 0 {
			r.net.breakPipes(func(x, y *faultPeer) bool { return x.slot == from && y.slot == to })
		}
		r.net.choked[k]--
		r.net.release()
	}
}

// lastWord is a batch that shows what was missed before it.
func (e *faultEngine) lastWord() {
	if e.of == nil && (!e.gone || len(e.also) > 0) {
		e.emit()
	}
}

// lateNameMs is how long after a quarantine a name can come late: a peer that
// ignored an engine asks nobody about it for 30 s. A late name is another process
// to whoever knew a lower one, and what came before it is nobody's.
const lateNameMs = 35_000

// unprovedMs is how long a process that tells no start time may wait for its name
// after its first batch: so much later a quarantine begins.
const unprovedMs = 5_000

// outlast lets engines talk on until nobody holds them in quarantine any more.
func (r *faultRun) outlast() {
	const most = 300_000
	if slices.ContainsFunc(r.engines, func(e *faultEngine) bool { return !e.tells }) {
		for end := r.now + unprovedMs; r.now < end; r.runUntil(r.now + askedEveryMs) {
			r.noteKept()
		}
	}
	waited := false
	for end := r.now + most; r.inQuarantine() && r.now < end; {
		waited = true
		r.runUntil(r.now + 2_000)
		r.noteKept()
		for _, e := range r.listed() {
			e.process().lastWord()
		}
	}
	if !waited {
		return
	}
	r.runUntil(r.now + lateNameMs)
	for range 2 {
		for _, e := range r.engines {
			e.lastWord()
		}
		r.runUntil(r.now + 1_000)
	}
}

// inQuarantine reports whether some peer ignores an engine that changed too often.
func (r *faultRun) inQuarantine() (any bool) {
	for _, p := range r.live() {
		for _, e := range r.listed() {
			f := p.follows[e.stream]
			if p.index.Quarantined(e.stream) || f != nil && f.track.Phase() == follow.Quarantined {
				any, e.wild = true, true
				r.reached("a quarantine")
			}
		}
	}
	return any
}
