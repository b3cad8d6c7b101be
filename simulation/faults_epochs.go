package simulation

import (
	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/router/kvevents/follow"
)

// account is what owners delivered under one epoch.
type account struct {
	life int // process whose slots came
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
// older one, and a lower one than every newer one (EpochOrder). Only where the
// engine's clock was set back between them must the owner have known.
func (r *faultRun) orderEpochs(f *follower, epoch uint64, life int) {
	for other, a := range f.engine.said {
		setBack := a.life != 0 && f.engine.starts[max(a.life, life)-1] < f.engine.starts[min(a.life, life)-1]
		if setBack && f.knew < other {
			continue // it knew nothing of the other one; they have yet to meet
		}
		if a.life != 0 && (a.life > life && other < epoch || a.life < life && other > epoch) {
			r.violate("EpochOrder", f.peer, "process %d of %s is epoch %d, and process %d is %d", life, f.engine.name, epoch, a.life, other)
		}
	}
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
	for _, e := range r.engines {
		for _, p := range r.live() {
			d, ok := p.index.Digest(e.stream)
			if a := e.said[d.Context.Epoch]; ok && a != nil && a.life == e.life {
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

// nothingLost checks that the mesh knows of the running process at least as many
// slots as anybody did when the faults ended (EpochOrder). Where two met it
// apart, the base that knows more stays, and what the other one had folded and
// no ring keeps is lost: never more than that, declared lost or not.
func (r *faultRun) nothingLost(e *faultEngine) {
	p := r.live()[0]
	if p.index.Quarantined(e.stream) {
		return
	}
	d, _ := p.index.Digest(e.stream)
	r.checked("EpochOrder")
	for _, k := range e.known {
		if had, have := knownOf(&k.ctx), knownOf(&d.Context); have < had {
			r.violate("EpochOrder", p, "%s knew %d slots of %s under epoch %d, and all that is left under %d is %d: %+v, %+v", k.peer, had, e.name, k.ctx.Epoch, d.Context.Epoch, have, k.ctx, d.Context)
		}
	}
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
