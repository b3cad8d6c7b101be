package crdt

import "slices"

// MaxPieceBytes bounds one encoded piece of a snapshot.
const MaxPieceBytes = 64 << 10

const (
	rowsHeadBytes = 12
	runHeadBytes  = 22
	pageBytes     = 16 // handle and meta, without values
)

// Reset empties the columns and keeps their memory.
func (r *Rows) Reset() {
	r.Runs, r.Handle, r.Meta, r.Value = r.Runs[:0], r.Handle[:0], r.Meta[:0], r.Value[:0]
}

// AppendRows appends a batch of facts: 12 bytes, 22 a run, 16 a page and 8 a
// grid block.
func AppendRows(dst []byte, rows *Rows) []byte {
	dst = le.AppendUint32(dst, uint32(len(rows.Runs)))
	dst = le.AppendUint32(dst, uint32(len(rows.Handle)))
	dst = le.AppendUint32(dst, uint32(len(rows.Value)))
	for _, run := range rows.Runs {
		dst = le.AppendUint32(dst, uint32(run.Pages))
		dst = appendFlag(append(dst, pageByte(run.PerPage, run.Small)), run.Linked)
		dst = le.AppendUint64(le.AppendUint64(dst, run.Space), run.Parent)
	}
	for _, v := range rows.Handle {
		dst = le.AppendUint64(dst, v)
	}
	for _, v := range rows.Meta {
		dst = le.AppendUint64(dst, uint64(v))
	}
	for _, v := range rows.Value {
		dst = le.AppendUint64(dst, v)
	}
	return dst
}

// decode decodes a batch of facts, whose columns have the lengths that the runs
// say, into the memory of rows. After an error their content means nothing.
func (rows *Rows) decode(b []byte) (rest []byte, err error) {
	r := reader{b: b}
	runs, pages, values := r.count(runHeadBytes), r.count(pageBytes), r.count(8)
	if int64(runs)*runHeadBytes+int64(pages)*pageBytes+int64(values)*8 > int64(len(r.b)) {
		r.fail("rows cut short")
	}
	if r.err != nil {
		return nil, r.err
	}
	rows.Runs = slices.Grow(rows.Runs[:0], runs)[:runs]
	left, free := pages, values
	for i := range rows.Runs {
		run := &rows.Runs[i]
		*run = RunHead{Pages: int(r.u32())}
		var ok bool
		run.PerPage, run.Small, ok = pageOf(r.u8())
		run.Linked, run.Space, run.Parent = r.flag(), r.u64(), r.u64()
		if run.Pages == 0 || run.Pages > left || !ok ||
			run.Pages*run.PerPage > free || run.Linked && run.PerPage == 0 {
			r.fail("run of %d pages of %d", run.Pages, run.PerPage)
		}
		left -= run.Pages
		free -= run.Pages * run.PerPage
	}
	if left != 0 || free != 0 {
		r.fail("rows without runs")
	}
	if r.err != nil {
		return nil, r.err
	}
	rows.Handle = words(&r, rows.Handle, pages)
	rows.Meta = words(&r, rows.Meta, pages)
	rows.Value = words(&r, rows.Value, values)
	return r.rest()
}

// check reports facts that a base at floor cannot hold.
func (r *Rows) check(floor uint64) error {
	for _, m := range r.Meta {
		if !m.Present() || m.Seq() > floor {
			return corrupt("fact without copies or stored above the floor")
		}
	}
	return nil
}

// AppendPieces encodes rows into pieces of at most MaxPieceBytes, splitting
// runs between pages.
func AppendPieces(dst [][]byte, rows *Rows) [][]byte {
	var part Rows
	size, page, value := rowsHeadBytes, 0, 0
	flush := func() {
		if len(part.Runs) > 0 {
			dst = append(dst, AppendRows(make([]byte, 0, size), &part))
		}
		part.Reset()
		size = rowsHeadBytes
	}
	for _, run := range rows.Runs {
		for left := run.Pages; left > 0; {
			each := pageBytes + 8*run.PerPage
			n := min(left, (MaxPieceBytes-size-runHeadBytes)/each)
			if n <= 0 {
				flush()
				continue
			}
			head := run
			head.Pages = n
			head.Linked = run.Linked && (run.Small == 0 || left == run.Pages)
			head.Parent = run.parentAt(rows, run.Pages-left, page, value)
			part.Runs = append(part.Runs, head)
			part.Handle = append(part.Handle, rows.Handle[page:page+n]...)
			part.Meta = append(part.Meta, rows.Meta[page:page+n]...)
			part.Value = append(part.Value, rows.Value[value:value+n*run.PerPage]...)
			size += runHeadBytes + n*each
			page, value, left = page+n, value+n*run.PerPage, left-n
		}
	}
	flush()
	return dst
}

// parentAt is what page i of a run hangs below; page and value are where it
// stands in the columns.
func (h *RunHead) parentAt(rows *Rows, i, page, value int) uint64 {
	switch {
	case i == 0:
		return h.Parent
	case h.Linked && h.Small == 0:
		return rows.Value[value-1]
	}
	return rows.Handle[page-1]
}

// AppendSnapshot appends a snapshot without its pieces.
func AppendSnapshot(dst []byte, s *Snapshot) []byte {
	dst = appendString(dst, string(s.Stream))
	dst = appendSum(AppendContext(dst, &s.Context), &s.Base)
	return AppendSlots(dst, s.Above)
}

// DecodeSnapshot decodes a snapshot without its pieces.
func DecodeSnapshot(b []byte) (s Snapshot, rest []byte, err error) {
	r := reader{b: b}
	s = Snapshot{Stream: r.stream(), Context: r.context(), Base: r.sum(), Above: r.slots(0)}
	rest, err = r.rest()
	if err != nil {
		s = Snapshot{}
	}
	return s, rest, err
}
