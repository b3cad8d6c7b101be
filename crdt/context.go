package crdt

import "slices"

// Span is the closed range [From, To] of slot numbers.
type Span struct{ From, To uint64 }

// Context says which slots of a stream a peer knows, inside one epoch. Equal
// contexts must mean equal facts and equal digests.
type Context struct {
	Epoch  uint64 // ms, from the engine's own bytes; higher wins whole; 0: nothing known
	Anchor uint64 // first slot obtainable when the mesh first met the stream
	Floor  uint64 // every slot in [Anchor, Floor] is folded or voided
	Voids  []Span // slots <= Floor that were declared lost, ascending, disjoint
	Above  []Span // slots > Floor known (T)
	Lost   []Span // slots > Floor declared lost (U)
	LastTS int64  // engine time of the highest known slot; not part of equality
}

// Sum is what a store of facts adds up to: the value part of a digest.
type Sum struct {
	Count  uint64 // facts
	Facts  uint64 // XOR of FactHash over them
	Linked uint64 // facts whose block key is known
	KeyXOR uint64 // XOR over linked facts of KeyHash(handle, key)
}

// Digest is a stream's context with the sum of its base at the floor.
type Digest struct {
	Context Context
	Base    Sum
}

// Delta is a join-able piece of one stream's state.
type Delta struct {
	Stream StreamID
	Epoch  uint64
	Anchor uint64
	Slots  []Slot // whole slots, ascending
	Lost   []Span // slots declared lost
	Hints  []Hint // keys of parents, optional

	inspected []inspection // of Slots, by Inspect; else Apply does it
}

// inspection is what was found out about a slot's body.
type inspection struct {
	clears bool
	err    error
}

// Inspect looks through the slots ahead of Apply, which need not then: O(ops),
// for who applies under a lock. Slots is not replaced after it.
func (d *Delta) Inspect() {
	d.inspected = make([]inspection, len(d.Slots))
	for i := range d.Slots {
		clears, err := d.Slots[i].inspect()
		d.inspected[i] = inspection{clears, err}
	}
}

// inspect is what is known of slot i, or found out now.
func (d *Delta) inspect(i int) (clears bool, err error) {
	if len(d.inspected) == len(d.Slots) {
		return d.inspected[i].clears, d.inspected[i].err
	}
	return d.Slots[i].inspect()
}

// hasValid reports whether any slot may be folded.
func (d *Delta) hasValid() bool {
	for i := range d.Slots {
		if _, err := d.inspect(i); err == nil {
			return true
		}
	}
	return false
}

// Hint tells the block key behind a parent handle that the receiver may have
// never seen. It is never part of a digest.
type Hint struct{ Handle, Key uint64 }

// Keyed tells where a linked fact lies. Handle names the fact as its store
// does: one word for (handle, space).
type Keyed struct {
	Handle uint64
	Parent uint64   // key before the page
	Keys   []uint64 // of the page's grid blocks
}

// Equal reports whether two contexts name the same state. LastTS is not part
// of it.
func (c *Context) Equal(o *Context) bool {
	return c.Epoch == o.Epoch && c.Anchor == o.Anchor && c.Floor == o.Floor &&
		slices.Equal(c.Voids, o.Voids) && slices.Equal(c.Above, o.Above) && slices.Equal(c.Lost, o.Lost)
}

// Knows reports whether slot seq is known: folded or held, not declared lost.
// O(log spans).
func (c *Context) Knows(seq uint64) bool {
	if seq <= c.Floor {
		return seq >= c.Anchor && !Spans(c.Voids).Has(seq)
	}
	return Spans(c.Above).Has(seq)
}
