package index

import (
	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/radix"
)

// scanRest marks a cursor that has left the tree and walks the rest list.
const scanRest = uint64(1) << 63

// Scan appends at most about max facts of the base: first what lies in the
// tree, then loose facts and those that the overlay removed.
func (b *blocks) Scan(dst *crdt.Rows, cursor uint64, max int) (next uint64) {
	if cursor&scanRest == 0 {
		next = b.x.tree.Runs(b.holder, cursor, max, func(run radix.Run) { b.scanRun(dst, run) })
		if next != 0 {
			return next
		}
		if b.others() == 0 {
			return 0
		}
		return scanRest
	}
	from, small := int(cursor&^scanRest), b.smallPages.used
	to := min(from+max, b.others())
	b.scanSmall(dst, min(from, small), min(to, small))
	for i := from; i < to; i++ {
		if i >= small {
			b.scanOther(dst, i-small)
		}
	}
	if to == b.others() {
		return 0
	}
	return scanRest | uint64(to)
}

// others is how much a scan looks at that is not in the tree: records of small
// pages, loose facts and what the overlay touched.
func (b *blocks) others() int { return b.smallPages.used + len(b.list) + len(b.order) }

// scanOther appends base fact i of those that may not be in the tree now:
// first the loose ones, then what the overlay touched.
func (b *blocks) scanOther(dst *crdt.Rows, i int) {
	if i >= len(b.list) {
		h := b.order[i-len(b.list)]
		if s := b.undo[h]; s.exists {
			b.emit(dst, h, s)
		}
		return
	}
	h := b.list[i]
	if _, touched := b.undo[h]; !touched {
		b.emit(dst, h, b.state(h))
	}
}

// scanRun appends the pages of one tree run that are as they were at the
// floor; the others come from the rest list.
func (b *blocks) scanRun(dst *crdt.Rows, run radix.Run) {
	if len(b.undo) == 0 && len(b.spaced) == 0 && !b.smallPages.any() {
		appendLinked(dst, 0, run.Parent, run.PerPage, run.Handles, run.Metas, run.Keys)
		return
	}
	parent := run.Parent
	for i, h := range run.Handles {
		keys := run.Keys[i*run.PerPage : (i+1)*run.PerPage]
		_, touched := b.undo[h]
		_, small := b.smallPages.present(h) // then the block is worked out, no fact
		if !touched && !small {
			s := b.spaced[h]
			handle := h
			if s.space != 0 {
				handle = s.base
			}
			appendLinked(dst, s.space, parent, run.PerPage, []uint64{handle}, run.Metas[i:i+1], keys)
		}
		parent = keys[len(keys)-1]
	}
}

func appendLinked(dst *crdt.Rows, space uint64, parent radix.Key, perPage int, handles []uint64, metas []radix.Meta, keys []radix.Key) {
	dst.Runs = append(dst.Runs, crdt.RunHead{Pages: len(handles), PerPage: perPage, Space: space, Linked: true, Parent: uint64(parent)})
	dst.Handle = append(dst.Handle, handles...)
	for _, m := range metas {
		dst.Meta = append(dst.Meta, crdt.Meta(m))
	}
	for _, k := range keys {
		dst.Value = append(dst.Value, uint64(k))
	}
}

// emit appends one saved fact.
func (b *blocks) emit(dst *crdt.Rows, h uint64, s *saved) {
	handle := h
	if s.space.space != 0 {
		handle = s.space.base
	}
	if s.small != nil {
		b.appendSmall(dst, handle, s.space.space, s.meta, s.small)
		return
	}
	if s.loose == nil {
		appendLinked(dst, s.space.space, s.parent, len(s.keys), []uint64{handle}, []radix.Meta{radix.Meta(s.meta)}, s.keys)
		return
	}
	dst.Runs = append(dst.Runs, crdt.RunHead{Pages: 1, PerPage: len(s.loose.hashes), Space: s.space.space, Parent: s.loose.parent})
	dst.Handle = append(dst.Handle, handle)
	dst.Meta = append(dst.Meta, s.meta)
	dst.Value = append(dst.Value, s.loose.hashes...)
}

// Expect makes room in the tree.
func (b *blocks) Expect(linked int) (more bool) { return b.x.tree.Expect(b.holder, linked) }

// Load adds the facts of a snapshot's rows. The rows were checked when they
// were decoded: the columns have the lengths that the runs say.
func (b *blocks) Load(rows *crdt.Rows) {
	b.x.held += len(rows.Handle)
	page, value := 0, 0
	for _, run := range rows.Runs {
		base := rows.Handle[page : page+run.Pages]
		handles := base
		if run.Space != 0 {
			handles = b.effectives(handles, run.Space)
		}
		metas := rows.Meta[page : page+run.Pages]
		values := rows.Value[value : value+run.Pages*run.PerPage]
		page += run.Pages
		value += run.Pages * run.PerPage
		if run.Small > 0 {
			b.loadSmall(run, base, handles, metas, values)
			continue
		}
		if run.Linked && run.PerPage > 0 {
			b.loadLinked(run, handles, metas, values)
			continue
		}
		b.loadLoose(run, handles, metas, values)
	}
}

// effectives adopts the entries of handles in a space and returns their names.
// They are valid until the next call.
func (b *blocks) effectives(handles []uint64, space uint64) []uint64 {
	b.handles = b.handles[:0]
	for _, base := range handles {
		h := b.effective(base, space)
		b.adopt(h, base, space)
		b.handles = append(b.handles, h)
	}
	return b.handles
}

func (b *blocks) loadLinked(run crdt.RunHead, handles []uint64, metas []crdt.Meta, values []uint64) {
	b.keys = b.keys[:0]
	for _, v := range values {
		b.keys = append(b.keys, radix.Key(v))
	}
	keys := b.keys
	i := 0
	b.place(radix.Key(run.Parent), run.PerPage, keys, handles, func(crdt.Meta) crdt.Meta {
		i++
		return metas[i-1]
	})
	if len(b.waiting) > 0 {
		for i, h := range handles {
			b.link(h, keys[(i+1)*run.PerPage-1])
		}
	}
}

func (b *blocks) loadLoose(run crdt.RunHead, handles []uint64, metas []crdt.Meta, values []uint64) {
	parent := run.Parent
	for i, h := range handles {
		l := b.looseAt(h)
		l.meta = b.change(h, l.meta, metas[i])
		b.hang(h, l, parent, values[i*run.PerPage:(i+1)*run.PerPage])
		if run.PerPage > 0 {
			if key, ok := b.keyOf(parent); ok {
				b.link(parent, key)
			}
		}
		parent = h
	}
}
