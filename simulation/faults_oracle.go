package simulation

import (
	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/radix"
)

// oracle folds an engine's log in the dumbest way: a map, from the first slot
// on, leaving out what a context does not know. It shares no code with crdt's
// streams or the index, but the packed form of a slot.
type oracle struct {
	root  radix.Key
	h     *radix.Hasher
	facts map[uint64]*oracleFact
	ever  map[uint64]bool        // handles some known slot stored
	loose map[uint64]*oracleFact // told and not linked; may hold facts that are gone
}

type oracleFact struct {
	copies [crdt.Tiers]uint8
	seq    uint64
	told   bool // its tokens and parent are known
	hash   radix.TokenHash
	parent uint64
	linked bool
	key    radix.Key
}

// foldKnown folds the slots of a log that a context knows, up to a slot.
func (l *library) foldKnown(log []crdt.Slot, c *crdt.Context, upTo uint64) *oracle {
	o := &oracle{root: l.root, h: l.hasher, facts: map[uint64]*oracleFact{}, ever: map[uint64]bool{}, loose: map[uint64]*oracleFact{}}
	for i := range log {
		if log[i].Seq <= upTo && c.Knows(log[i].Seq) {
			o.fold(&log[i])
		}
	}
	return o
}

func (o *oracle) fold(s *crdt.Slot) {
	err := s.Ops(func(op *crdt.Op) bool {
		switch op.Kind {
		case crdt.OpClear:
			clear(o.facts)
		case crdt.OpRemove:
			for i := range op.Handles.Len() {
				o.remove(op, op.Handles.At(i))
			}
		case crdt.OpStore:
			o.store(op, s.Seq)
		}
		return true
	})
	if err != nil {
		panic("invariant: " + err.Error())
	}
}

func (o *oracle) remove(op *crdt.Op, h uint64) {
	f := o.facts[h]
	if f == nil {
		return
	}
	if op.Mode == crdt.Flagged {
		f.copies[op.Tier] = 0
	} else if f.copies[op.Tier] > 0 {
		f.copies[op.Tier]--
	}
	if f.copies == [crdt.Tiers]uint8{} {
		delete(o.facts, h)
	}
}

func (o *oracle) store(op *crdt.Op, seq uint64) {
	parent, rooted := op.Parent, !op.HasParent
	for i := range op.Handles.Len() {
		h := op.Handles.At(i)
		o.ever[h] = true
		f := o.facts[h]
		if f == nil {
			f = &oracleFact{}
			o.facts[h] = f
		}
		f.seq = seq
		if op.Mode == crdt.Flagged || f.copies[op.Tier] == 0 {
			f.copies[op.Tier] = 1
		} else if !op.Reuse { // a report is no second copy
			f.copies[op.Tier]++
		}
		if op.PerPage == 1 {
			f.told, f.parent, f.hash = true, parent, radix.TokenHash(op.Hashes.At(i))
			if rooted {
				o.link(h, f, o.root)
			} else if p := o.facts[parent]; p != nil && p.linked {
				o.link(h, f, p.key)
			}
			if !f.linked {
				o.loose[h] = f
			}
		}
		parent, rooted = h, false
	}
}

// link gives a fact its key, and then its children.
func (o *oracle) link(h uint64, f *oracleFact, parent radix.Key) {
	if f.linked {
		return
	}
	f.linked, f.key = true, o.h.Chain(parent, f.hash)
	delete(o.loose, h)
	for c, child := range o.loose {
		if child.parent == h && o.facts[c] == child {
			o.link(c, child, f.key)
		}
	}
}

// sum is what crdt.Sum must say of these facts.
func (o *oracle) sum() (count, facts uint64) {
	for h, f := range o.facts {
		facts ^= crdt.FactHash(h, 0, crdt.NewMeta(f.seq, f.copies[0], f.copies[1], f.copies[2]))
	}
	return uint64(len(o.facts)), facts
}

// depths are how many blocks of a prompt are held from its start on, per class
// of tiers, by the handles that a process gives them. With strict
// only those count whose key can be known.
func (o *oracle) depths(life int, p *prompt, strict bool) (gpu, cpu, any int) {
	n := [crdt.Tiers]int{-1, -1, -1}
	for i, node := range p.nodes {
		for class := range n {
			if n[class] < 0 && !o.holds(life, node, class, strict) {
				n[class] = i
			}
		}
	}
	for class := range n {
		if n[class] < 0 {
			n[class] = len(p.nodes)
		}
	}
	return n[0], n[1], n[2]
}

func (o *oracle) holds(life int, node uint64, class int, strict bool) bool {
	f := o.facts[handleIn(life, node)]
	return f != nil && (f.linked || !strict) && o.anyOf(f, class)
}

// stored reports whether some known slot stored a block.
func (o *oracle) stored(life int, node uint64) bool {
	return o.ever[handleIn(life, node)]
}

func (o *oracle) anyOf(f *oracleFact, class int) bool {
	for t := range class + 1 {
		if f.copies[t] > 0 {
			return true
		}
	}
	return false
}
