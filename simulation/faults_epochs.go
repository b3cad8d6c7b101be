package simulation

import (
	"fmt"
	"slices"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/router/kvevents/follow"
)

// account is what owners delivered under one epoch.
type account struct {
	life  int  // process whose slots came
	apart bool // others had another name for it, who could not be asked
}

// noteEpoch holds what a tracker delivers against the truth: one epoch names one
// process (EpochFence), which said it (NoPhantom).
func (r *faultRun) noteEpoch(f *follower, out *follow.Output) {
	e := f.engine
	r.checked("EpochFence", "EpochOrder")
	a := e.said[out.Epoch]
	if a == nil {
		a = &account{}
		e.said[out.Epoch] = a
	}
	for i := range out.Deliver {
		s := &out.Deliver[i]
		life := e.lifeOf(s)
		switch {
		case life == 0:
			r.violate("NoPhantom", f.peer, "slot %d came of %s, which never said it", s.Seq, e.name)
		case a.life == 0:
			a.life = life
			r.orderEpochs(f, out.Epoch, life)
		case a.life != life:
			r.violate("EpochFence", f.peer, "epoch %d of %s is process %d, and slot %d of process %d came under it", out.Epoch, e.name, a.life, s.Seq, life)
		}
	}
}

// orderEpochs checks that a newly named process has a higher epoch than every
// older one, and a lower one than every newer one (EpochOrder). Where the times
// that name processes may go back, than those that the owner knew when it gave
// the name: the others it has yet to meet.
func (r *faultRun) orderEpochs(f *follower, epoch uint64, life int) {
	for other, a := range f.engine.said {
		if f.knew < other && f.engine.mayGoBack(max(a.life, life)) {
			continue
		}
		if a.life != 0 && (a.life > life && other < epoch || a.life < life && other > epoch) {
			r.violate("EpochOrder", f.peer, "process %d of %s is epoch %d, and process %d is %d", life, f.engine.name, epoch, a.life, other)
		}
	}
}

// mayGoBack reports whether the times by which the first processes are named may
// go back: the clock was set back, or they are those of batches, of which one
// owner hears an earlier one than another did.
func (e *faultEngine) mayGoBack(lives int) bool {
	return !e.tells || !slices.IsSorted(e.starts[:lives])
}

// lifeOf finds the process that made a slot; 0 if none did.
func (e *faultEngine) lifeOf(s *crdt.Slot) int {
	for life := e.life; life > 0; life-- {
		log := e.logs[life-1]
		if s.Seq <= uint64(len(log)) && log[s.Seq-1].TS == s.TS && log[s.Seq-1].Hash() == s.Hash() {
			return life
		}
	}
	return 0
}

// logUnder is the log of the process that an epoch names; nil if none of its
// batches came.
func (e *faultEngine) logUnder(epoch uint64) (log []crdt.Slot, life int) {
	if life = e.said[epoch].life; life > 0 {
		log = e.logs[life-1]
	}
	return log, life
}

// rememberKnown notes what each live peer knows of the running processes when
// the faults end: none of it may be lost after that.
func (r *faultRun) rememberKnown() {
	r.inQuarantine()
	for _, e := range r.engines {
		for _, p := range r.live() {
			d, ok := p.index.Digest(e.stream)
			c := d.Context
			if a := e.said[c.Epoch]; !ok || a == nil || a.life != e.life {
				continue
			}
			e.known = append(e.known, knowledge{peer: p.name, ctx: c, kept: p.keeps(e, c.Epoch)})
		}
		e.still = map[uint64]map[uint64][]*faultPeer{}
		for _, k := range e.known {
			if e.still[k.ctx.Epoch] == nil {
				e.still[k.ctx.Epoch] = r.keepers(e, k.ctx.Epoch)
			}
		}
	}
}

func (p *faultPeer) seesUp(q *faultPeer) bool {
	s := p.sees[q.slot]
	return s != nil && s.up && s.id == q.id
}

// namedApart marks the names that a process is given by peers who do not see each
// other: when they meet, the higher one stays and what only the lower one's base
// had is lost.
func (r *faultRun) namedApart(f *follower, epoch uint64) {
	e := f.engine
	for _, q := range r.live() {
		k, _ := q.index.Prior(e.stream)
		other := e.said[k.Epoch]
		if k.Epoch == epoch || other == nil || other.life != e.life || f.peer.seesUp(q) && q.seesUp(f.peer) {
			continue
		}
		if e.said[epoch] == nil {
			e.said[epoch] = &account{}
		}
		e.said[epoch].apart, other.apart = true, true
	}
}

// keepers are the live peers that can send a slot of an engine and count, by slot.
func (r *faultRun) keepers(e *faultEngine, epoch uint64) map[uint64][]*faultPeer {
	out := map[uint64][]*faultPeer{}
	for _, p := range r.live() {
		if p.draining {
			continue
		}
		for seq := range p.keeps(e, epoch) {
			out[seq] = append(out[seq], p)
		}
	}
	return out
}

// keeps are the slots of an engine that a peer can send.
func (p *faultPeer) keeps(e *faultEngine, epoch uint64) map[uint64]bool {
	out := map[uint64]bool{}
	for _, s := range p.index.Slots(e.stream, epoch, []crdt.Span{{From: 1, To: crdt.MaxSeq}}, 1<<30) {
		out[s.Seq] = true
	}
	return out
}

// noteKept takes what rings had no room for any more off what is still kept: a
// hole was filled, and what was folded then pushed it out. So who kept it last
// has folded it. What is neither kept nor known any more was thrown away, and is
// still asked for.
func (r *faultRun) noteKept() {
	for _, e := range r.engines {
		for epoch, still := range e.still {
			now := r.keepers(e, epoch)
			for seq, by := range still {
				switch {
				case now[seq] != nil:
					still[seq] = now[seq]
				case !slices.ContainsFunc(by, func(p *faultPeer) bool { return p.threwAway(e, epoch, seq) }):
					delete(still, seq)
				}
			}
		}
	}
}

// threwAway reports whether a peer that counts and kept a slot does not know it.
func (p *faultPeer) threwAway(e *faultEngine, epoch, seq uint64) bool {
	d, _ := p.index.Digest(e.stream)
	return p.alive && !p.draining && d.Context.Epoch == epoch && !d.Context.Knows(seq)
}

// knowledge is what a peer knew.
type knowledge struct {
	peer string
	ctx  crdt.Context
	kept map[uint64]bool // slots that it could send
}

// nothingLost checks, slot by slot, that the mesh knows what it could have
// (EpochOrder), but for what was known under another name that was given apart.
// The rule: at rest every slot of the running process is known that,
// when the faults ended, the base with which most slots are known had folded, or
// that lay above that base's floor and was kept by a live peer until rings had no
// room for it or, unless an owner had given it up after asking in vain, is in the
// replay. Nobody can have
// another one: what is folded is no slot any more, and nothing is folded below a
// floor.
func (r *faultRun) nothingLost(e *faultEngine) {
	p := r.live()[0]
	d, _ := p.index.Digest(e.stream)
	c := &d.Context
	if e.wild {
		return // a quarantine forgets: what came before it is nobody's
	}
	r.checked("EpochOrder")
	kept := map[uint64]bool{}
	for seq := range e.still[c.Epoch] {
		kept[seq] = true
	}
	for _, k := range e.known {
		if had, have := knownOf(&k.ctx), knownOf(c); have < had && (k.ctx.Epoch == c.Epoch || !e.said[k.ctx.Epoch].apart) {
			r.violate("EpochOrder", p, "%s knew %d slots of %s under epoch %d, and all that is left under %d is %d: %+v, %+v", k.peer, had, e.name, k.ctx.Epoch, c.Epoch, have, k.ctx, *c)
		}
	}
	for at := max(1, len(e.log())-e.replay+1); at <= len(e.log()); at++ {
		seq := uint64(at)
		if !slices.ContainsFunc(e.known, func(k knowledge) bool { return k.ctx.Epoch == c.Epoch && k.gaveUp(seq) }) {
			kept[seq] = true
		}
	}
	bases := e.bestBases(c.Epoch)
	if len(bases) == 0 {
		bases = append(bases, &crdt.Context{}) // nobody knew anything
	}
	for seq := uint64(1); seq <= uint64(len(e.log())); seq++ {
		had := func(b *crdt.Context) bool { return seq <= b.Floor && b.Knows(seq) || seq > b.Floor && kept[seq] }
		if !c.Knows(seq) && !slices.ContainsFunc(bases, func(b *crdt.Context) bool { return !had(b) }) {
			r.violate("EpochOrder", p, "slot %d of %s is missing, and could be had: %+v, known then %s", seq, e.name, *c, e.knowledges())
			return
		}
	}
}

// gaveUp reports whether the peer held a slot for lost.
func (k *knowledge) gaveUp(seq uint64) bool {
	is := func(s crdt.Span) bool { return s.From <= seq && seq <= s.To }
	return slices.ContainsFunc(k.ctx.Voids, is) || slices.ContainsFunc(k.ctx.Lost, is)
}

// bestBases are the bases with which most slots are known, with all that peers
// kept, when the faults ended.
func (e *faultEngine) bestBases(epoch uint64) (out []*crdt.Context) {
	most := 0
	for _, known := range e.known {
		b := &known.ctx
		if b.Epoch != epoch {
			continue
		}
		with := map[uint64]bool{}
		for seq := b.Anchor; seq <= b.Floor; seq++ {
			if b.Knows(seq) {
				with[seq] = true
			}
		}
		for _, k := range e.known {
			for seq := range k.kept {
				if k.ctx.Epoch == epoch && seq > b.Floor {
					with[seq] = true
				}
			}
		}
		if len(with) > most {
			most, out = len(with), nil
		}
		if len(with) >= most {
			out = append(out, b)
		}
	}
	return out
}

// knowledges tells what was known when the faults ended.
func (e *faultEngine) knowledges() (out string) {
	for _, k := range e.known {
		out += fmt.Sprintf("; %s %+v keeps %d", k.peer, k.ctx, len(k.kept))
	}
	return out
}

// knownOf is how many slots a context knows.
func knownOf(c *crdt.Context) (n uint64) {
	for seq := c.Anchor; seq <= max(c.Floor, topOf(c.Above)); seq++ {
		if c.Knows(seq) {
			n++
		}
	}
	return n
}
