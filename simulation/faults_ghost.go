package simulation

import (
	"slices"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/router/kvevents"
)

// ghostLife is the process of a ghost's batch.
const ghostLife = -1

// youngBatches is up to how many batches of an engine without a replay a false
// restart cannot be told from one after which just those were missed: all that
// is heard then is slot n of one process, slot 1 of another and slot n+1.
const youngBatches = 4

// ghost lets one listener hear a first batch of another process on an engine's
// stream: by all that can be told it has restarted. Then the engine goes on as
// if nothing had been, and whoever can prove that brings back what was
// outranked (property 23).
func (r *faultRun) ghost(e *faultEngine) {
	for _, p := range r.live() {
		f := p.follows[e.stream]
		if f == nil || !f.up || p.stalled || !f.hears() {
			continue
		}
		e.lastTS = max(e.lastTS+1, r.now*1000)
		prompt := &r.library.prompts[0]
		var handles, hashes []uint64
		for i, node := range prompt.nodes {
			handles, hashes = append(handles, handleIn(ghostLife, node)), append(hashes, uint64(prompt.hash[i]))
		}
		var b crdt.Builder
		b.Store(crdt.Op{Mode: e.mode, Tier: crdt.TierGPU, PerPage: 1, Main: true, Root: uint64(r.library.root)}, handles, hashes)
		slot, err := b.Slot(1, e.lastTS)
		if err != nil {
			panic("invariant: " + err.Error())
		}
		e.ghosts = append(e.ghosts, slot)
		e.young = e.replay == 0 && len(e.log()) <= youngBatches
		f.step(kvevents.Live{Slot: slot})
		return
	}
}

// ghostEpoch is the name that the engine's last ghost gave its stream.
func (e *faultEngine) ghostEpoch() uint64 { return uint64(e.ghosts[len(e.ghosts)-1].TS / 1000) }

// isGhost reports whether a slot is of a process that never served.
func (e *faultEngine) isGhost(s *crdt.Slot) bool {
	return slices.ContainsFunc(e.ghosts, func(g crdt.Slot) bool { return g.TS == s.TS && g.Hash() == s.Hash() })
}

// recovered checks that a ghost left nothing behind and took nothing away: the
// mesh shows the fold of what it knows of the engine's own log, which is what
// the engine holds if it knows all.
func (r *faultRun) recovered(e *faultEngine) {
	p := r.live()[0]
	d, _ := p.index.Digest(e.stream)
	c := &d.Context
	if len(e.ghosts) == 0 || p.index.Quarantined(e.stream) {
		return
	}
	if _, lives, _ := e.logUnder(c.Epoch); slices.ContainsFunc(lives, func(life int) bool { return life != ghostLife && life != e.life }) {
		return // another restart could not be noticed
	}
	r.checked("ShadowRecovery")
	if count, facts := r.library.foldKnown(e.log(), c, crdt.MaxSeq).sum(); count != d.Base.Count || facts != d.Base.Facts {
		if e.young && c.Epoch == e.ghostEpoch() {
			r.undecided++
			return
		}
		r.violate("ShadowRecovery", p, "%s: %d facts (%x), the engine's log says %d (%x)", e.name, d.Base.Count, d.Base.Facts, count, facts)
		return
	}
	if len(c.Voids) > 0 || c.Anchor != 1 {
		return
	}
	if why := r.untrue(p, e, &d); why != "" {
		r.violate("ShadowRecovery", p, "%s", why)
	}
}
