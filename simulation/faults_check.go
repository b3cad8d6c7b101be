package simulation

import (
	"fmt"
	"slices"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/gossip"
	realindex "github.com/banyan-llm/banyan/router/index"
	"github.com/banyan-llm/banyan/router/kvevents"
)

// Violation is one property that did not hold.
type Violation struct {
	Property string `json:"property"` // as REPLICATION.md section 6 names it
	AtMs     int64  `json:"at_ms"`
	Peer     string `json:"peer"`
	What     string `json:"what"`
}

func (v Violation) String() string {
	return fmt.Sprintf("%s at %.3fs on %s: %s", v.Property, float64(v.AtMs)/1000, v.Peer, v.What)
}

const maxViolations = 20

func (r *faultRun) violate(property string, p *faultPeer, format string, args ...any) {
	name := "mesh"
	if p != nil {
		name = p.name
	}
	v := Violation{Property: property, AtMs: r.now - faultStart, Peer: name, What: fmt.Sprintf(format, args...)}
	r.trace(name, "VIOLATION %s: %s", property, v.What)
	if len(r.violations) < maxViolations {
		r.violations = append(r.violations, v)
	}
}

// checkedStream remembers what was checked of a stream last.
type checkedStream struct {
	ctx   crdt.Context
	epoch uint64
}

// check holds the safety properties of one stream against every peer.
func (r *faultRun) check(id crdt.StreamID) {
	e := r.engineOf(id)
	for _, p := range r.peers {
		if p.alive && len(r.violations) < maxViolations {
			r.checkPeer(p, e)
		}
	}
}

func (r *faultRun) engineOf(id crdt.StreamID) *faultEngine {
	i := slices.IndexFunc(r.engines, func(e *faultEngine) bool { return e.stream == id })
	return r.engines[i]
}

func (r *faultRun) checkPeer(p *faultPeer, e *faultEngine) {
	d, ok := p.index.Digest(e.stream)
	if !ok {
		return
	}
	last := p.checked[e.stream]
	if last == nil {
		last = &checkedStream{}
		p.checked[e.stream] = last
	}
	if d.Context.Equal(&last.ctx) {
		return
	}
	r.checks++
	last.ctx = d.Context
	if d.Context.Epoch < last.epoch {
		r.violate("EpochFence", p, "%s went back from epoch %d to %d", e.name, last.epoch, d.Context.Epoch)
	}
	last.epoch = d.Context.Epoch
	life, ok := e.epochs[d.Context.Epoch]
	if !ok {
		r.violate("EpochFence", p, "%s has epoch %d, which no owner minted", e.name, d.Context.Epoch)
		return
	}
	r.checkBounds(p, &d.Context)
	if !e.mixed[d.Context.Epoch] {
		r.checkFacts(p, e, e.logs[life-1], &d, life)
	}
}

// checkFacts compares what a peer shows with the fold of what it knows.
func (r *faultRun) checkFacts(p *faultPeer, e *faultEngine, log []crdt.Slot, d *crdt.Digest, life int) {
	c := &d.Context
	if top := max(c.Floor, topOf(c.Above)); top > uint64(len(log)) {
		r.violate("NoPhantom", p, "%s knows slot %d of %d", e.name, top, len(log))
		return
	}
	base := r.library.foldKnown(log, c, c.Floor)
	if count, facts := base.sum(); count != d.Base.Count || facts != d.Base.Facts {
		r.violate("Oracle", p, "%s at floor %d: base of %d facts (%x), the log's are %d (%x)", e.name, c.Floor, d.Base.Count, d.Base.Facts, count, facts)
	}
	all := base
	if len(c.Above) > 0 {
		all = r.library.foldKnown(log, c, crdt.MaxSeq)
	}
	handle := func(node uint64) uint64 { return handleIn(life, node) }
	ref := p.index.Ref(e.stream)
	for i := range r.library.prompts {
		r.checkPrompt(p, e, all, i, handle, ref, c)
	}
}

func (r *faultRun) checkPrompt(p *faultPeer, e *faultEngine, all *oracle, i int, handle func(uint64) uint64, ref *realindex.Ref, c *crdt.Context) {
	chain := &r.library.prompts[i]
	p.index.Match(chain.keys, &r.view)
	got := r.view.Depth(ref)
	var most, least [3]int
	most[0], most[1], most[2] = all.depths(handle, chain, false)
	least[0], least[1], least[2] = all.depths(handle, chain, true)
	for class, depth := range [3]int{got.GPU, got.CPU, got.Any} {
		switch {
		case depth > most[class]:
			property := "NoPhantom"
			if all.ever[handle(chain.nodes[most[class]])] {
				property = "NoResurrection"
			}
			r.violate(property, p, "%s shows %d blocks of prompt %d, class %d; its known slots say %d", e.name, depth, i, class, most[class])
		case depth < least[class]:
			property := "NoLocalDelete"
			if len(c.Above) > 0 {
				property = "GapSafety"
			}
			r.violate(property, p, "%s shows %d blocks of prompt %d, class %d; its known slots say %d", e.name, depth, i, class, least[class])
		}
	}
}

func topOf(s []crdt.Span) uint64 {
	if len(s) == 0 {
		return 0
	}
	return s[len(s)-1].To
}

// checkBounds holds what one peer may make another hold.
func (r *faultRun) checkBounds(p *faultPeer, c *crdt.Context) {
	limits := gossip.DefaultLimits()
	s := p.core.Stats()
	switch {
	case s.StagedBytes > limits.StagedBytes:
		r.violate("Bounded", p, "%d bytes staged", s.StagedBytes)
	case len(c.Above) > crdt.MaxHoles+1 || len(c.Voids) > crdt.MaxVoidSpans:
		r.violate("Bounded", p, "%d spans above the floor, %d voids", len(c.Above), len(c.Voids))
	case s.Pulls > len(r.engines):
		r.violate("Bounded", p, "%d pulls for %d streams", s.Pulls, len(r.engines))
	case len(s.Rejected) > 0:
		r.violate("Codec", p, "rejected frames of correct peers: %v", s.Rejected)
	}
	for _, info := range p.core.Peers() {
		if info.Unacked > 2*(limits.UnackedBytes+limits.FragmentBytes) {
			r.violate("Bounded", p, "%d unacknowledged bytes at %s", info.Unacked, info.Name)
		}
	}
}

// noteEpoch remembers which process an epoch stands for, from the times of the
// slots that a tracker delivers under it. One epoch must never name two, as
// long as there was a way to know: a peer that missed a restart and everything
// up to a slot above the last one known, of an engine whose replay does not
// reach back, cannot tell it from a gap. That is counted.
func (r *faultRun) noteEpoch(f *follower, out *kvevents.Output) {
	e := f.engine
	for i := range out.Deliver {
		life := e.lifeOf(&out.Deliver[i])
		have, ok := e.epochs[out.Epoch]
		if ok && have != life && (e.replay < len(e.log()) || e.dropped > 0 || e.mixed[out.Epoch]) {
			r.trace(f.peer.name, "cannot tell process %d of %s from %d: no replay reaches back", life, e.name, have)
			e.mixed[out.Epoch] = true
			return
		}
		if ok && have != life {
			r.violate("EpochFence", f.peer, "epoch %d of %s is process %d, and slot %d of process %d came under it", out.Epoch, e.name, have, out.Deliver[i].Seq, life)
			return
		}
		e.epochs[out.Epoch] = life
	}
}

// lifeOf finds the process that made a slot.
func (e *faultEngine) lifeOf(s *crdt.Slot) int {
	for life := e.life; life > 0; life-- {
		log := e.logs[life-1]
		if s.Seq <= uint64(len(log)) && log[s.Seq-1].TS == s.TS {
			return life
		}
	}
	return 0
}
