package simulation

import (
	"fmt"
	"maps"
	"slices"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/gossip"
)

// Times of a healed mesh, ms.
const (
	lastWordMs   = 7_000 // from the end of the faults to the engines' last batch
	askedEveryMs = 50
	quietMs      = 6_000
	guessesMs    = 600_000 // the longest that a prediction lives
)

// heal ends all faults but severed links. Engines say one thing more, so that what was missed at
// the very end shows as a hole, and then nothing.
func (r *faultRun) heal() {
	r.healed = true
	r.trace("----", "healed")
	for _, undo := range r.undo {
		undo()
	}
	r.undo = nil
	r.mend()
	r.rememberKnown()
	for _, e := range r.engines {
		e.calm, e.dropped, e.repeated = true, 0, 0
		r.after(3_500, func() { e.up = !e.gone || len(e.also) > 0 })
		r.after(lastWordMs-1_000, e.lastWord)
		r.after(lastWordMs, e.lastWord)
	}
}

// converge runs until all live peers are equal, ready and at rest. The time it
// took counts from the end of the faults to equality; the bound counts from
// the engines' last word.
func (r *faultRun) converge() (tookMs int64, ok bool) {
	healed := r.now
	unequal := healed
	for r.now < healed+lastWordMs-1_000 {
		if r.difference() != "" {
			unequal = r.now
		}
		r.noteKept()
		r.runUntil(r.now + askedEveryMs)
	}
	if unequal+askedEveryMs >= r.now {
		unequal = 0 // not yet
	}
	r.runUntil(healed + lastWordMs)
	r.outlast()
	for from := r.now; ; r.runUntil(r.now + askedEveryMs) {
		r.noteKept()
		why := r.untold()
		if why == "" {
			why = r.difference()
		}
		if why == "" && unequal == 0 {
			unequal = r.now
		}
		if why == "" {
			why = r.notReady()
		}
		if why == "" {
			why = r.unrest()
		}
		switch late := r.now-from > r.cfg.Bound.Milliseconds(); {
		case late:
			r.violate("ConvergenceBound", nil, "%v after the engines' last word: %s", r.cfg.Bound, why)
			r.blame()
			return r.now - healed, false
		case why == "":
			r.trace("----", "converged")
			return unequal - healed, true
		}
	}
}

// blame names all that did not come in time by the properties it belongs to.
func (r *faultRun) blame() {
	for _, p := range r.live() {
		if why := r.apart(p); why != "" {
			r.violate("HealAfterReap", p, "%s", why)
		}
		if why := r.wrongLoads(p); why != "" {
			r.violate("Cleanup", p, "%s", why)
		}
		if why := r.unequal(r.live()[0], p); why != "" {
			r.violate("StrongEventualConsistency", p, "%s", why)
			if len(r.severed) > 0 {
				r.violate("NonTransitiveLink", p, "with %v severed: %s", r.severed, why)
			}
		}
	}
}

// difference names the first thing in which a live peer differs from another
// or from the truth; "" if there is none (properties 10 and 13).
func (r *faultRun) difference() string {
	live := r.live()
	r.checked("StrongEventualConsistency", "Cleanup")
	for _, p := range live {
		if why := r.lingers(p); why != "" {
			return why
		}
		if n := p.core.Stats().Divergent; n > 0 {
			return fmt.Sprintf("%s holds %d streams for divergent", p.name, n)
		}
		if why := r.unequal(live[0], p); why != "" {
			return why
		}
		if why := r.wrongLoads(p); why != "" {
			return why
		}
	}
	return ""
}

// apart names a live peer that this one has no connection to, though nothing
// is in the way (property 24).
func (r *faultRun) apart(p *faultPeer) string {
	infos := p.core.Peers()
	for _, q := range r.live() {
		if q == p || !r.net.both(p.slot, q.slot) {
			continue
		}
		i := slices.IndexFunc(infos, func(i gossip.PeerInfo) bool { return i.ID == q.id })
		if i < 0 || !infos[i].Member || infos[i].Connected != [gossip.Classes]bool{true, true} {
			return fmt.Sprintf("%s and %s are not connected", p.name, q.name)
		}
	}
	return ""
}

// untold names a stream whose engine said more than the mesh knows.
func (r *faultRun) untold() string {
	p := r.live()[0]
	for _, e := range r.listed() {
		d, _ := p.index.Digest(e.stream)
		top, life := max(d.Context.Floor, topOf(d.Context.Above)), 0
		if a := e.said[d.Context.Epoch]; a != nil {
			life = a.life
		}
		if life != e.life || top != uint64(len(e.log())) {
			return fmt.Sprintf("%s: process %d is at slot %d, %s knows process %v to slot %d", e.name, e.life, len(e.log()), p.name, life, top)
		}
	}
	return ""
}

// notReady names a peer that is not caught up with the mesh. One that took three
// snapshots of a stream says so for a minute.
func (r *faultRun) notReady() string {
	for _, p := range r.live() {
		if !p.caught && !p.draining {
			return fmt.Sprintf("%s is not ready: %s", p.name, p.reason)
		}
	}
	return ""
}

// unrest names a hole that is neither filled nor given up, a pair of live peers
// that is not connected, or slots that are not acknowledged yet.
func (r *faultRun) unrest() string {
	for _, p := range r.live() {
		for _, e := range r.listed() {
			if h := p.index.Holes(e.stream); len(h) > 0 {
				return fmt.Sprintf("%s misses %v of %s", p.name, h, e.name)
			}
		}
		if why := r.apart(p); why != "" {
			return why
		}
		for _, info := range p.core.Peers() {
			if q := r.byID(info.ID); q != nil && r.net.both(p.slot, q.slot) && (info.Owed > 0 || info.AckAge > 0) {
				return fmt.Sprintf("%s and %s are not at rest: %+v", p.name, info.Name, info)
			}
		}
	}
	return ""
}

// unequal compares two peers: contexts, sums, matches, intents.
func (r *faultRun) unequal(a, b *faultPeer) string {
	for _, e := range r.listed() {
		da, _ := a.index.Digest(e.stream)
		db, _ := b.index.Digest(e.stream)
		da.Context.LastTS, db.Context.LastTS = 0, 0
		if !da.Context.Equal(&db.Context) || da.Base != db.Base {
			return fmt.Sprintf("%s: %s has %+v, %s %+v", e.name, a.name, da, b.name, db)
		}
		for space := range e.spaces(e.life) {
			for i := range r.library.prompts {
				ga, gb := r.depth(a, e, i, space), r.depth(b, e, i, space)
				if ga != gb {
					return fmt.Sprintf("%s prompt %d in %d: %s shows %v, %s %v", e.name, i, space, a.name, ga, b.name, gb)
				}
			}
		}
	}
	if ia, ib := a.loads.Intents(), b.loads.Intents(); !maps.Equal(ia, ib) {
		return fmt.Sprintf("intents: %s has %v, %s %v", a.name, ia, b.name, ib)
	}
	return ""
}

// depth is the confirmed part of a match.
func (r *faultRun) depth(p *faultPeer, e *faultEngine, prompt, space int) [3]int {
	p.index.Match(r.library.prompts[prompt].keysIn(space), &r.view)
	return wholePages(r.view.Depth(p.index.Ref(e.stream)), e.habit().perPage)
}

// wrongLoads compares a peer's load sums with what the live peers wrote: the
// dead ones' parts left exactly (property 13).
func (r *faultRun) wrongLoads(p *faultPeer) string {
	for _, e := range r.listed() {
		var waiting, streams int32
		for _, q := range r.live() {
			own := q.ownLoad(e)
			waiting += own.Waiting
			streams += own.Streams
		}
		if s := p.load(e); s.Waiting != waiting || s.Streams != streams {
			return fmt.Sprintf("%s sums %d waiting and %d streams at %s, the peers' own are %d and %d", p.name, s.Waiting, s.Streams, e.name, waiting, streams)
		}
	}
	return ""
}

// load is what the peer knows of all peers' requests at an engine.
func (p *faultPeer) load(e *faultEngine) crdt.Load {
	sum, _, _ := p.loads.Totals(e.stream)
	return sum
}

// ownLoad is the peer's own register of an engine.
func (p *faultPeer) ownLoad(e *faultEngine) crdt.Load {
	for _, l := range p.loads.OwnLoads(nil, false) {
		if l.Replica == e.stream {
			return l.Load
		}
	}
	return crdt.Load{}
}

// finish checks what must hold of a mesh at rest: it equals the engines, says
// nothing more of slots, and stays so.
func (r *faultRun) finish() {
	r.checked("ConvergenceBound", "HealAfterReap", "HastyLoss")
	if len(r.severed) > 0 {
		r.checked("NonTransitiveLink")
	}
	for _, e := range r.listed() {
		r.check(e.stream)
		r.equalsTruth(e)
		r.noHastyLoss(e)
		r.nothingLost(e)
	}
	r.noEcho()
	r.runUntil(r.now + 2*askedEveryMs) // a second owner sends up to 50 ms later what a first one did not
	before := r.slotFrames()
	r.runUntil(r.now + quietMs)
	r.checked("NoEcho")
	if n := r.slotFrames() - before; n != 0 {
		r.violate("NoEcho", nil, "%d frames that carry or ask for slots in %d ms at rest", n, quietMs)
	}
	if why := r.difference(); why != "" {
		r.violate("StrongEventualConsistency", nil, "after convergence: %s", why)
	}
	for end := r.now + guessesMs; r.unequalGuesses() != ""; r.runUntil(r.now + quietMs) {
		if r.now > end {
			r.violate("StrongEventualConsistency", nil, "%d ms after the last prediction: %s", guessesMs, r.unequalGuesses())
			return
		}
	}
}

// slotFrames counts frames that carry slots or keys, or ask for them.
func (r *faultRun) slotFrames() (n uint64) {
	for _, p := range r.live() {
		sent := p.core.Stats().Sent
		n += sent["slots"].Frames + sent["snapshot"].Frames + sent["want"].Frames + sent["keys"].Frames
	}
	return n
}

// unequalGuesses compares what is predicted. What a peer rejected, because a
// clock was ahead, comes with the sums of its bucket of 16 s.
func (r *faultRun) unequalGuesses() string {
	live := r.live()
	for _, p := range live[1:] {
		for _, e := range r.listed() {
			for i := range r.library.prompts {
				if x, y := r.guessed(live[0], e, i), r.guessed(p, e, i); x != y {
					return fmt.Sprintf("%s prompt %d: %s expects %d blocks, %s %d", e.name, i, live[0].name, x, p.name, y)
				}
			}
		}
	}
	return ""
}

// guessed is the predicted part of a match.
func (r *faultRun) guessed(p *faultPeer, e *faultEngine, prompt int) int {
	p.index.Match(r.library.prompts[prompt].keys, &r.view)
	return r.view.Depth(p.index.Ref(e.stream)).Predicted
}

// equalsTruth compares the mesh with an engine's cache: exactly, if no batch of
// the process is missing (property 12). Which may be, nothingLost says; of
// those that are not, checkFacts holds the fold.
func (r *faultRun) equalsTruth(e *faultEngine) {
	p := r.live()[0]
	d, _ := p.index.Digest(e.stream)
	c := &d.Context
	for seq := range uint64(len(e.log())) {
		if !c.Knows(seq + 1) {
			return
		}
	}
	r.checked("EqualsTruth")
	if why := r.untrue(p, e, &d); why != "" {
		r.violate("EqualsTruth", p, "%s", why)
	}
}

// untrue compares what a peer shows with an engine's cache.
func (r *faultRun) untrue(p *faultPeer, e *faultEngine, d *crdt.Digest) string {
	if d.Base.Count != uint64(len(e.cache())) {
		return fmt.Sprintf("%s: %d facts, the engine holds %d blocks", e.name, d.Base.Count, len(e.cache()))
	}
	for space := range e.spaces(e.life) {
		for i := range r.library.prompts {
			if got, want := r.depth(p, e, i, space), e.depth(&r.library.prompts[i], space); got != want {
				return fmt.Sprintf("%s shows %v blocks of prompt %d in %d, the engine holds %v", e.name, got, i, space, want)
			}
		}
	}
	return ""
}

// depth is how many blocks of a prompt the engine holds from its start on.
func (e *faultEngine) depth(p *prompt, space int) (out [3]int) {
	for class := range out {
		for _, at := range e.pagesOf(e.life, p, space) {
			copies := 0
			for tier, n := range e.cache()[at] {
				if tier <= class {
					copies += n
				}
			}
			if copies == 0 {
				break
			}
			out[class] += e.habit().perPage
		}
	}
	return out
}

// cache is what the process holds.
func (e *faultEngine) cache() map[entry][crdt.Tiers]int {
	if e.of != nil {
		return e.of.held
	}
	return e.held
}

// noHastyLoss checks that what stayed lost is in no live peer's ring
// (property 21).
func (r *faultRun) noHastyLoss(e *faultEngine) {
	for _, p := range r.live() {
		d, _ := p.index.Digest(e.stream)
		if len(d.Context.Voids) == 0 {
			continue
		}
		for _, q := range r.live() {
			for _, s := range q.index.Slots(e.stream, d.Context.Epoch, d.Context.Voids, 1<<20) {
				r.violate("HastyLoss", p, "slot %d of %s is void, and %s still has it", s.Seq, e.name, q.name)
			}
		}
	}
}
