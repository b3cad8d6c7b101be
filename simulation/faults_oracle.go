package simulation

import (
	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/radix"
)

// oracle folds an engine's log in the dumbest way: a map, from the first slot
// on, leaving out what a context does not know. It shares no code with crdt's
// streams or the index, but the packed form of a slot.
type oracle struct {
	h     *radix.Hasher
	facts map[entry]*oracleFact
	ever  map[entry]bool        // what some known slot stored
	loose map[entry]*oracleFact // told and not linked; may hold facts that are gone
}

type oracleFact struct {
	copies [crdt.Tiers]uint8
	seq    uint64
	told   bool              // its tokens and parent are known
	hash   []radix.TokenHash // of its blocks
	parent entry
	linked bool
	key    radix.Key
}

// foldKnown folds the slots of a log that a context knows, up to a slot.
func (l *library) foldKnown(log []crdt.Slot, c *crdt.Context, upTo uint64) *oracle {
	o := &oracle{h: l.hasher, facts: map[entry]*oracleFact{}, ever: map[entry]bool{}, loose: map[entry]*oracleFact{}}
	for i := range log {
		if log[i].Seq <= upTo && c.Knows(log[i].Seq) {
			o.fold(&log[i])
		}
	}
	return o
}

func (o *oracle) fold(s *crdt.Slot) {
	err := s.Ops(func(op *crdt.Op) bool {
		switch {
		case op.Kind == crdt.OpClear:
			clear(o.facts)
		case !op.Main:
		case op.Kind == crdt.OpRemove:
			for i := range op.Handles.Len() {
				o.removeAll(op, op.Handles.At(i))
			}
		default:
			o.store(op, s.Seq)
		}
		return true
	})
	if err != nil {
		panic("invariant: " + err.Error())
	}
}

// removeAll removes what an op means by a handle: one entry or those of all
// spaces.
func (o *oracle) removeAll(op *crdt.Op, handle uint64) {
	if !op.AnySpace {
		o.remove(op, entry{handle, op.Space})
		return
	}
	for at := range o.facts {
		if at.handle == handle {
			o.remove(op, at)
		}
	}
}

func (o *oracle) remove(op *crdt.Op, h entry) {
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
	parent, rooted := entry{op.Parent, op.Space}, !op.HasParent
	for i := range op.Handles.Len() {
		h := entry{op.Handles.At(i), op.Space}
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
		if op.PerPage > 0 {
			f.told, f.parent, f.hash = true, parent, nil
			for k := range op.PerPage {
				f.hash = append(f.hash, radix.TokenHash(op.Hashes.At(i*op.PerPage+k)))
			}
			if rooted {
				o.link(h, f, radix.Key(op.Root))
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
func (o *oracle) link(h entry, f *oracleFact, parent radix.Key) {
	if f.linked {
		return
	}
	f.linked, f.key = true, parent
	for _, t := range f.hash {
		f.key = o.h.Chain(f.key, t)
	}
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
		facts ^= crdt.FactHash(h.handle, h.space, crdt.NewMeta(f.seq, f.copies[0], f.copies[1], f.copies[2]))
	}
	return uint64(len(o.facts)), facts
}

// depths are how many blocks of a prompt are held from its start on, per class
// of tiers, page by page of a process. With strict only those count whose key can
// be known.
func (o *oracle) depths(pages []entry, perPage int, strict bool) (out [crdt.Tiers]int) {
	for class := range out {
		for _, at := range pages {
			f := o.facts[at]
			if f == nil || strict && !f.linked || !o.anyOf(f, class) {
				break
			}
			out[class] += perPage
		}
	}
	return out
}

// stored reports whether some known slot stored the page of a block.
func (o *oracle) stored(pages []entry, perPage, block int) bool {
	return block/perPage < len(pages) && o.ever[pages[block/perPage]]
}

func (o *oracle) anyOf(f *oracleFact, class int) bool {
	for t := range class + 1 {
		if f.copies[t] > 0 {
			return true
		}
	}
	return false
}
