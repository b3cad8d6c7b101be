package crdttest

import (
	"cmp"
	"slices"

	"github.com/banyan-llm/banyan/crdt"
)

// Entry names one fact of a store.
type Entry struct{ Handle, Space uint64 }

// Fact is what a store holds for one entry.
type Fact struct {
	Meta   crdt.Meta
	Hashes []uint64 // token hashes of the page's grid blocks
	Keys   []uint64 // block keys, if linked; then Hashes may be empty
	// Parent is the handle the page hangs below, meaningful if it is not linked
	// and has hashes.
	Parent uint64
	Before uint64 // key before the page, if linked
}

// MapBlocks implements crdt.Blocks with a map.
type MapBlocks struct {
	Epoch   uint64
	Facts   map[Entry]Fact
	Shown   bool
	Dropped bool
	// OnShow, if not nil, is called by Show, so that a test can flip its view.
	OnShow func(*MapBlocks)

	undo  map[Entry]*Fact // base values of what the overlay touched; nil value: absent
	order []Entry         // entries of the running scan
	sum   crdt.Sum
	loose uint64 // facts with hashes and without keys
}

var _ crdt.Blocks = (*MapBlocks)(nil)

// NewMapBlocks makes an empty store.
func NewMapBlocks(epoch uint64) *MapBlocks {
	return &MapBlocks{Epoch: epoch, Facts: make(map[Entry]Fact)}
}

// Chain derives a block key from the key before it and a token hash.
func Chain(parent, hash uint64) uint64 { return crdt.KeyHash(parent, hash) | 1 }

// Get returns a visible fact's meta; 0 if there is none.
func (b *MapBlocks) Get(handle, space uint64) crdt.Meta { return b.Facts[Entry{handle, space}].Meta }

// Metas returns the visible facts.
func (b *MapBlocks) Metas() map[Entry]crdt.Meta {
	out := make(map[Entry]crdt.Meta, len(b.Facts))
	for e, f := range b.Facts {
		out[e] = f.Meta
	}
	return out
}

// Fold applies a slot's ops or a part of them.
func (b *MapBlocks) Fold(s *crdt.Slot, from crdt.Place, above bool, max int) (next crdt.Place, cost int) {
	if b.Dropped {
		panic("invariant: a dropped store is not used")
	}
	if above && b.undo == nil {
		b.undo = make(map[Entry]*Fact)
	}
	next, cost, err := s.Part(new(crdt.Op), from, max, func(op *crdt.Op) {
		switch {
		case op.Kind == crdt.OpClear:
			b.clear()
		case !op.Main:
		case op.Kind == crdt.OpStore:
			b.store(op, s.Seq)
		default:
			b.remove(op)
		}
	})
	if err != nil {
		panic("invariant: a slot was validated before it was folded: " + err.Error())
	}
	return next, cost
}

func (b *MapBlocks) clear() {
	for e := range b.Facts {
		b.set(e, Fact{})
	}
}

func (b *MapBlocks) store(op *crdt.Op, seq uint64) {
	parent := op.Parent
	for i := range op.Handles.Len() {
		e := Entry{op.Handles.At(i), op.Space}
		f := b.Facts[e]
		f.Meta = op.Put(f.Meta, seq)
		if op.PerPage > 0 {
			f.Hashes = nil
			for j := range op.PerPage {
				f.Hashes = append(f.Hashes, op.Hashes.At(i*op.PerPage+j))
			}
			before, ok := op.Root, true
			if op.HasParent || i > 0 {
				before, ok = b.lastKey(Entry{parent, op.Space})
			}
			f.Parent, f.Keys, f.Before = parent, nil, 0
			if ok {
				f.link(before)
			}
		}
		b.set(e, f)
		b.linkBelow(e)
		parent = e.Handle
	}
}

// link derives the page's keys.
func (f *Fact) link(before uint64) {
	f.Before = before
	f.Keys = make([]uint64, 0, len(f.Hashes))
	for _, h := range f.Hashes {
		before = Chain(before, h)
		f.Keys = append(f.Keys, before)
	}
}

// lastKey is the key of the last grid block of a linked page.
func (b *MapBlocks) lastKey(e Entry) (uint64, bool) {
	keys := b.Facts[e].Keys
	if len(keys) == 0 {
		return 0, false
	}
	return keys[len(keys)-1], true
}

// linkBelow links what waits for e. O(facts).
func (b *MapBlocks) linkBelow(e Entry) {
	key, ok := b.lastKey(e)
	if !ok || b.loose == 0 {
		return
	}
	for c, f := range b.Facts {
		if f.Parent == e.Handle && c.Space == e.Space && len(f.Keys) == 0 && len(f.Hashes) > 0 {
			f.link(key)
			b.set(c, f)
			b.linkBelow(c)
		}
	}
}

func (b *MapBlocks) remove(op *crdt.Op) {
	for i := range op.Handles.Len() {
		h := op.Handles.At(i)
		if !op.AnySpace {
			b.removeOne(Entry{h, op.Space}, op)
			continue
		}
		for e := range b.Facts {
			if e.Handle == h {
				b.removeOne(e, op)
			}
		}
	}
}

func (b *MapBlocks) removeOne(e Entry, op *crdt.Op) {
	if f, ok := b.Facts[e]; ok {
		f.Meta = f.Meta.Remove(op.Mode, op.Tier)
		b.set(e, f)
	}
}

// set writes a fact, or deletes one without copies, keeping undo and sum.
func (b *MapBlocks) set(e Entry, f Fact) {
	old, had := b.Facts[e]
	if _, saved := b.undo[e]; b.undo != nil && !saved {
		b.undo[e] = nil
		if had {
			b.undo[e] = &old
		}
	}
	b.put(e, f)
}

func (b *MapBlocks) put(e Entry, f Fact) {
	if old, had := b.Facts[e]; had {
		b.count(e, &old, ^uint64(0))
	}
	if f.Meta.Present() {
		b.count(e, &f, 1)
		b.Facts[e] = f // in place: callers may be ranging over the map
	} else {
		delete(b.Facts, e)
	}
}

// count adds (by 1) or takes away (by -1) a fact.
func (b *MapBlocks) count(e Entry, f *Fact, by uint64) {
	b.sum.Count += by
	b.sum.Facts ^= crdt.FactHash(e.Handle, e.Space, f.Meta)
	if n := len(f.Keys); n > 0 {
		b.sum.Linked += by
		b.sum.KeyXOR ^= crdt.KeyHash(e.Handle, f.Keys[n-1])
	} else if len(f.Hashes) > 0 {
		b.loose += by
	}
}

// SetKeys links a fact below a key, or unlinks it with none, as a peer would
// that learned more or less than its slots say.
func (b *MapBlocks) SetKeys(e Entry, before uint64, keys []uint64) {
	if f, ok := b.Facts[e]; ok {
		f.Before, f.Keys = before, keys
		b.put(e, f)
	}
}

// Rewind restores some of what the overlay touched.
func (b *MapBlocks) Rewind(max int) (done int) {
	for e, f := range b.undo {
		if done == max {
			return done
		}
		done++
		delete(b.undo, e)
		if f == nil {
			b.put(e, Fact{})
		} else {
			b.put(e, *f)
		}
	}
	b.undo = nil
	return done
}

// Settle makes the overlay part of the base.
func (b *MapBlocks) Settle() { b.undo = nil }

// Sum adds up the visible facts.
func (b *MapBlocks) Sum() crdt.Sum { return b.sum }

// Show makes this the visible store.
func (b *MapBlocks) Show() {
	b.Shown = true
	if b.OnShow != nil {
		b.OnShow(b)
	}
}

// Drop forgets all facts.
func (b *MapBlocks) Drop() {
	*b = MapBlocks{Epoch: b.Epoch, Dropped: true, Facts: make(map[Entry]Fact), OnShow: b.OnShow}
}

// base is a fact as it is without the overlay.
func (b *MapBlocks) base(e Entry) (Fact, bool) {
	if f, touched := b.undo[e]; touched {
		if f == nil {
			return Fact{}, false
		}
		return *f, true
	}
	f, ok := b.Facts[e]
	return f, ok
}

// Scan appends base facts by handle, one run each.
func (b *MapBlocks) Scan(dst *crdt.Rows, cursor uint64, max int) (next uint64) {
	if cursor == 0 {
		b.order = b.order[:0]
		for e := range b.Facts {
			b.order = append(b.order, e)
		}
		for e := range b.undo {
			if _, ok := b.Facts[e]; !ok {
				b.order = append(b.order, e)
			}
		}
		slices.SortFunc(b.order, func(x, y Entry) int {
			return cmp.Or(cmp.Compare(x.Handle, y.Handle), cmp.Compare(x.Space, y.Space))
		})
	}
	end := min(cursor+uint64(max), uint64(len(b.order)))
	for _, e := range b.order[cursor:end] {
		if f, ok := b.base(e); ok {
			appendFact(dst, e, &f)
		}
	}
	if end == uint64(len(b.order)) {
		return 0
	}
	return end
}

func appendFact(dst *crdt.Rows, e Entry, f *Fact) {
	run := crdt.RunHead{Pages: 1, PerPage: len(f.Hashes), Space: e.Space, Parent: f.Parent}
	values := f.Hashes
	if len(f.Keys) > 0 {
		run.PerPage, run.Linked, run.Parent = len(f.Keys), true, f.Before
		values = f.Keys
	}
	dst.Runs = append(dst.Runs, run)
	dst.Handle = append(dst.Handle, e.Handle)
	dst.Meta = append(dst.Meta, f.Meta)
	dst.Value = append(dst.Value, values...)
}

// Expect has nothing to do.
func (b *MapBlocks) Expect(int) (more bool) { return false }

// Load adds the facts of rows.
func (b *MapBlocks) Load(rows *crdt.Rows) {
	page, value := 0, 0
	for _, run := range rows.Runs {
		parent := run.Parent
		for range run.Pages {
			values := append([]uint64(nil), rows.Value[value:value+run.PerPage]...)
			e := Entry{rows.Handle[page], run.Space}
			f := Fact{Meta: rows.Meta[page], Parent: parent}
			if run.Linked {
				f.Keys, f.Before, f.Parent = values, parent, 0
				parent = values[len(values)-1]
			} else {
				f.Hashes = values
				if before, ok := b.lastKey(Entry{parent, run.Space}); ok && len(values) > 0 {
					f.link(before)
				}
				parent = e.Handle
			}
			b.set(e, f)
			b.linkBelow(e)
			page, value = page+1, value+run.PerPage
		}
	}
}

// View follows a stream's stores: which one is shown.
type View struct {
	Shown *MapBlocks
	All   []*MapBlocks
}

// Open makes stores whose Show flips the view; use it as StreamConfig.Open.
func (v *View) Open(epoch uint64) crdt.Blocks {
	b := NewMapBlocks(epoch)
	b.OnShow = func(b *MapBlocks) {
		if v.Shown != nil {
			v.Shown.Shown = false
		}
		v.Shown = b
		b.Shown = true
	}
	v.All = append(v.All, b)
	return b
}

// Metas returns what readers see now.
func (v *View) Metas() map[Entry]crdt.Meta {
	if v.Shown == nil {
		return map[Entry]crdt.Meta{}
	}
	return v.Shown.Metas()
}
