package simulation

import (
	"cmp"
	"slices"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/router/kvevents"
)

// account is what owners delivered under one epoch.
type account struct {
	lives []int // processes whose slots came, the one that was named first
	slots map[uint64]crdt.Slot
	// twofold: two slots came by one number. Which one a peer folded depends on
	// which it met first, so facts cannot be held against the account.
	twofold bool
}

func (a *account) take(s *crdt.Slot) {
	have, ok := a.slots[s.Seq]
	a.twofold = a.twofold || ok && have.TS != s.TS
	a.slots[s.Seq] = *s
}

// add takes over another account's slots.
func (a *account) add(b *account) {
	for _, s := range b.slots {
		a.take(&s)
	}
	a.twofold = a.twofold || b.twofold
}

// proof names what a follower was told that tells a process from an epoch's.
type proof struct {
	epoch uint64
	life  int
}

// unite makes one account of what was said under several epochs.
func (e *faultEngine) unite(epoch uint64, others ...uint64) {
	all := &account{slots: map[uint64]crdt.Slot{}}
	for _, other := range append([]uint64{epoch}, others...) {
		a := e.said[other]
		if a == nil {
			continue
		}
		for _, life := range a.lives {
			if !slices.Contains(all.lives, life) {
				all.lives = append(all.lives, life)
			}
		}
		all.add(a)
	}
	e.said[epoch] = all
}

// witness remembers what a slot proves to the follower that is given it: its
// number is not above the highest one known of the epoch followed, and it is of
// another process, so its time gives it away. Of an older process any slot does.
func (f *follower) witness(s *crdt.Slot, prior *kvevents.Prior) {
	e, epoch, top := f.engine, f.track.Epoch(), f.known(prior)
	a := e.said[epoch]
	if a == nil {
		return
	}
	life := e.lifeOf(s)
	if life != ghostLife && !slices.Contains(a.lives, ghostLife) && !slices.Contains(a.lives, life) && (s.Seq <= top || life < a.lives[0]) {
		f.proofs[proof{epoch, life}] = true
	}
}

// known is the highest slot known of the epoch followed, by the follower or by
// its peer.
func (f *follower) known(prior *kvevents.Prior) uint64 {
	if prior.Epoch == f.track.Epoch() {
		return max(f.track.LastSeq(), prior.LastSeq)
	}
	return f.track.LastSeq()
}

// noteEpoch holds what a tracker delivers against what it could know (EpochFence
// and EpochOrder). One epoch must never name two processes, as long as there
// was a way to know: a peer that missed a restart and everything up to a slot
// above the last one known, of an engine whose replay does not reach back to that
// one, cannot tell it from a gap. That is counted, and what is folded then is still
// held against what was delivered.
func (r *faultRun) noteEpoch(f *follower, out *kvevents.Output) {
	e := f.engine
	r.checked("EpochFence", "EpochOrder")
	for i := range out.Deliver {
		s := &out.Deliver[i]
		life := e.lifeOf(s)
		if life == 0 {
			r.violate("NoPhantom", f.peer, "slot %d came of %s, which never said it", s.Seq, e.name)
			continue
		}
		a := e.said[out.Epoch]
		if a == nil {
			a = &account{lives: []int{life}, slots: map[uint64]crdt.Slot{}}
			r.orderEpochs(f, out.Epoch, life)
			e.said[out.Epoch] = a
		}
		a.take(s)
		if slices.Contains(a.lives, life) {
			continue
		}
		a.lives = append(a.lives, life)
		if slices.Contains(a.lives, ghostLife) {
			continue // the false restart is to be undone, see recovered
		}
		if len(e.log()) < f.top+e.replay && e.dropped == 0 && len(a.lives) == 2 || f.proofs[proof{out.Epoch, life}] {
			r.violate("EpochFence", f.peer, "epoch %d of %s is process %d, and slot %d of process %d came under it", out.Epoch, e.name, a.lives[0], s.Seq, life)
			continue
		}
		r.trace(f.peer.name, "cannot tell process %d of %s from %d: nothing it heard does", life, e.name, a.lives[0])
	}
}

// orderEpochs checks that a newly named process has a higher epoch than every
// older one, and a lower one than every newer one (EpochOrder).
func (r *faultRun) orderEpochs(f *follower, epoch uint64, life int) {
	for other, a := range f.engine.said {
		if first := a.lives[0]; first == ghostLife || life == ghostLife {
			continue
		} else if first > life && other < epoch || first < life && other > epoch {
			r.violate("EpochOrder", f.peer, "process %d of %s is epoch %d, and process %d is %d", life, f.engine.name, epoch, first, other)
		}
	}
}

// lifeOf finds the process that made a slot; 0 if none did.
func (e *faultEngine) lifeOf(s *crdt.Slot) int {
	if e.isGhost(s) {
		return ghostLife
	}
	for life := e.life; life > 0; life-- {
		log := e.logs[life-1]
		if s.Seq <= uint64(len(log)) && log[s.Seq-1].TS == s.TS && log[s.Seq-1].Hash() == s.Hash() {
			return life
		}
	}
	return 0
}

// mixed reports whether nobody could tell two processes apart under an epoch, or
// under one that is united with it.
func (e *faultEngine) mixed(epoch uint64) bool {
	if e.said[epoch] == nil {
		return false
	}
	_, lives, ok := e.logUnder(epoch)
	return !ok || len(lives) > 1
}

// logUnder is all that a peer may know under an epoch, and by whose handles: a
// process's log, or, where two could not be told apart, what was delivered of
// both under any of their names: epochs with a slot in common are united. ok is
// false if the same number came twice then.
func (e *faultEngine) logUnder(epoch uint64) (log []crdt.Slot, lives []int, ok bool) {
	lives = slices.Clone(e.said[epoch].lives)
	for grown := true; grown; {
		grown = false
		for _, a := range e.said {
			if !slices.ContainsFunc(a.lives, func(life int) bool { return slices.Contains(lives, life) }) {
				continue
			}
			for _, life := range a.lives {
				if !slices.Contains(lives, life) {
					lives, grown = append(lives, life), true
				}
			}
		}
	}
	if len(lives) == 1 && lives[0] != ghostLife {
		return e.logs[lives[0]-1], lives, true
	}
	slices.Sort(lives)
	all := account{slots: map[uint64]crdt.Slot{}}
	for _, a := range e.said {
		if slices.Contains(lives, a.lives[0]) {
			all.add(a)
		}
	}
	if all.twofold {
		return nil, nil, false
	}
	for _, s := range all.slots {
		log = append(log, s)
	}
	slices.SortFunc(log, func(a, b crdt.Slot) int { return cmp.Compare(a.Seq, b.Seq) })
	return log, lives, true
}

// rememberKnown notes what each live peer knows of the running processes when
// the faults end: none of it may be lost after that.
func (r *faultRun) rememberKnown() {
	for _, e := range r.engines {
		for _, p := range r.live() {
			d, ok := p.index.Digest(e.stream)
			if a := e.said[d.Context.Epoch]; ok && a != nil && !e.mixed(d.Context.Epoch) && a.lives[0] == e.life {
				e.known = append(e.known, knowledge{p.name, d.Context})
			}
		}
	}
}

// knowledge is what a peer knew.
type knowledge struct {
	peer string
	ctx  crdt.Context
}

// nothingLost checks that whatever somebody knew of the running process when
// the faults ended is known to all, or was given up by an owner (EpochOrder:
// concurrent names of one process lose nothing).
func (r *faultRun) nothingLost(e *faultEngine) {
	p := r.live()[0]
	if p.index.Quarantined(e.stream) {
		return
	}
	d, _ := p.index.Digest(e.stream)
	if e.mixed(d.Context.Epoch) {
		return
	}
	r.checked("EpochOrder")
	void := func(seq uint64) bool {
		return slices.ContainsFunc(d.Context.Voids, func(v crdt.Span) bool { return v.From <= seq && seq <= v.To })
	}
	for _, k := range e.known {
		for seq := k.ctx.Anchor; seq <= max(k.ctx.Floor, topOf(k.ctx.Above)); seq++ {
			if k.ctx.Knows(seq) && !d.Context.Knows(seq) && !void(seq) {
				r.violate("EpochOrder", p, "slot %d of %s, which %s knew under epoch %d, is known to nobody under %d", seq, e.name, k.peer, k.ctx.Epoch, d.Context.Epoch)
				break
			}
		}
	}
}
