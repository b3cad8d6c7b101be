package crdt

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Bounds of a slot.
const (
	MaxSlotBytes = 8 << 20   // body; a larger batch is a lost slot
	MaxSeq       = 1<<40 - 1 // what a Meta can hold
	MaxPerPage   = 16        // grid blocks a page; the tree takes no longer one
	MaxSmall     = 32        // tokens of a page that is shorter than a grid block
)

// SlotVersion counts the forms and meanings that slots and facts had on the
// wire. Peers of two versions would make different slots, or different facts, of
// the same events: they refuse each other. 2: reports of reused blocks (Op.Reuse).
// 3: pages shorter than a grid block (Op.Small). 4: vLLM's cache groups apart, each
// in a space of its own, and Checkpoint.
const SlotVersion = 4

// smallPage marks the byte of grid blocks a page as the tokens of a small one.
const smallPage = 0x80

// pageByte is that byte of a page.
func pageByte(perPage, small int) byte {
	if small > 0 {
		return smallPage | byte(small)
	}
	return byte(perPage)
}

// pageOf is what the byte says; ok is false if no page is so.
func pageOf(b byte) (perPage, small int, ok bool) {
	if b&smallPage == 0 {
		return int(b), 0, b <= MaxPerPage
	}
	small = int(b &^ smallPage)
	return SmallWords(small), small, small > 0 && small <= MaxSmall
}

// SmallWords is how many words the tokens of a small page take.
func SmallWords(tokens int) int { return (tokens + 1) / 2 }

// maxJoinPages bounds a store run that grew from several events: a joined run
// is searched for repeated handles, which costs up to this many compares.
const maxJoinPages = 64

// ErrSlotTooLarge is returned when a batch does not fit MaxSlotBytes.
var ErrSlotTooLarge = errors.New("slot over 8 MiB")

// The packed form of a body is a sequence of ops, all integers little-endian:
//
//	kind u8 | flags u8 | tier u8 | perPage u8, or 0x80 + tokens of a small page | n u32
//	[space u64] [group u32] [parent or root u64, stores only]
//	n handles u64 | n*perPage token hashes u64
//
// A run of 16 stored blocks costs 16.5 bytes each plus the slot's record of
// 20 bytes, a run of 16 removals 8.5.
const (
	opHeaderBytes = 8

	flagFlagged   = 1 << 0
	flagHasParent = 1 << 1
	flagMain      = 1 << 2
	flagAnySpace  = 1 << 3
	flagSpace     = 1 << 4 // a space that is not 0 follows
	flagGroup     = 1 << 5 // a group that is not 0 follows
	flagReuse     = 1 << 6 // may tell of blocks that were there already
	flagsAll      = 1<<7 - 1
)

// Builder packs the events of one engine batch into a slot's body. The bytes
// are a pure function of the calls: no state of any peer is read (I8). The
// zero value is ready; a Builder may be reused after Reset.
type Builder struct {
	buf  []byte
	last int // offset of the last op; meaningful if ops > 0
	ops  int
	tail uint64 // last handle of the last op
	err  error
}

// Reset forgets everything built so far and keeps the buffer.
func (b *Builder) Reset() {
	b.buf = b.buf[:0]
	b.ops, b.last, b.err = 0, 0, nil
}

// Store appends a run of pages: Mode, Tier, Space, HasParent, Parent or Root,
// PerPage, Small, Reuse, Group and Main are taken from op, Kind and the columns are not.
// len(hashes) must be PerPage*len(handles). A run that hangs below the last
// page of the run just before it, alike in all else, continues that run.
func (b *Builder) Store(op Op, handles, hashes []uint64) {
	if len(handles) == 0 {
		return
	}
	if op.PerPage < 0 || op.PerPage > MaxPerPage || len(hashes) != op.PerPage*len(handles) ||
		op.Small < 0 || op.Small > MaxSmall || op.Small > 0 && op.PerPage != SmallWords(op.Small) {
		b.fail(fmt.Errorf("store of %d pages with %d a page and %d hashes", len(handles), op.PerPage, len(hashes)))
		return
	}
	if b.joinStore(&op, handles, hashes) {
		return
	}
	b.begin(OpStore, &op, len(handles))
	if op.HasParent {
		b.word(op.Parent)
	} else {
		b.word(op.Root)
	}
	b.words(handles)
	b.words(hashes)
	b.tail = handles[len(handles)-1]
}

// Remove appends removals in the engine's order: Mode, Tier, Space or
// AnySpace, Group and Main are taken from op. Removals alike but for their
// handles become one op.
func (b *Builder) Remove(op Op, handles []uint64) {
	if len(handles) == 0 {
		return
	}
	if b.err == nil && b.ops > 0 && b.like(OpRemove, &op) {
		b.grow(len(handles))
		b.words(handles)
		return
	}
	b.begin(OpRemove, &op, len(handles))
	b.words(handles)
}

// Clear appends the removal of everything. What was built before does not
// matter then and is dropped: a body has one clear at most, as its first op, so
// that a batch of many costs its readers no more than one.
func (b *Builder) Clear() {
	if b.err == nil || errors.Is(b.err, ErrSlotTooLarge) {
		b.Reset() // a caller's mistake stays one
	}
	b.begin(OpClear, &Op{}, 0)
}

// Bytes returns the packed ops in a slice of their own.
func (b *Builder) Bytes() ([]byte, error) {
	if b.err != nil {
		return nil, b.err
	}
	return append(make([]byte, 0, len(b.buf)), b.buf...), nil
}

// Slot returns the batch as a slot.
func (b *Builder) Slot(seq uint64, ts int64) (Slot, error) {
	if seq == 0 || seq > MaxSeq {
		return Slot{}, fmt.Errorf("slot number %d out of range", seq)
	}
	body, err := b.Bytes()
	return Slot{Seq: seq, TS: ts, Body: body}, err
}

func (b *Builder) fail(err error) {
	if b.err == nil {
		b.err = err
	}
}

// head writes the header and optional fields that op would get.
func head(dst []byte, kind OpKind, op *Op, n int) []byte {
	var flags, perPage byte
	if op.Mode == Flagged {
		flags |= flagFlagged
	}
	if op.Main {
		flags |= flagMain
	}
	if kind == OpStore {
		perPage = pageByte(op.PerPage, op.Small)
		if op.HasParent {
			flags |= flagHasParent
		}
		if op.Reuse {
			flags |= flagReuse
		}
	}
	space := op.Space
	if kind == OpRemove && op.AnySpace {
		flags |= flagAnySpace
		space = 0
	}
	if space != 0 {
		flags |= flagSpace
	}
	if op.Group != 0 {
		flags |= flagGroup
	}
	if kind == OpClear {
		flags, space = 0, 0
	}
	dst = append(dst, byte(kind), flags, byte(op.Tier), perPage)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(n))
	if space != 0 {
		dst = binary.LittleEndian.AppendUint64(dst, space)
	}
	if flags&flagGroup != 0 {
		dst = binary.LittleEndian.AppendUint32(dst, uint32(op.Group))
	}
	return dst
}

func (b *Builder) begin(kind OpKind, op *Op, n int) {
	if op.Tier >= Tiers || op.Mode > Flagged {
		b.fail(fmt.Errorf("op with tier %d and mode %d", op.Tier, op.Mode))
	}
	if len(b.buf)+opHeaderBytes > MaxSlotBytes {
		b.fail(ErrSlotTooLarge)
	}
	if b.err != nil {
		return
	}
	b.last = len(b.buf)
	b.ops++
	b.buf = head(b.buf, kind, op, n)
}

// like reports whether the last op has kind and the attributes of op.
func (b *Builder) like(kind OpKind, op *Op) bool {
	var scratch [opHeaderBytes + 12]byte
	n := binary.LittleEndian.Uint32(b.buf[b.last+4:])
	want := head(scratch[:0], kind, op, int(n))
	got := b.buf[b.last:]
	return len(got) >= len(want) && string(got[:len(want)]) == string(want)
}

func (b *Builder) grow(n int) {
	at := b.buf[b.last+4:]
	binary.LittleEndian.PutUint32(at, binary.LittleEndian.Uint32(at)+uint32(n))
}

// joinStore continues the run before, if op is its next part and repeats none
// of its handles.
func (b *Builder) joinStore(op *Op, handles, hashes []uint64) bool {
	if b.err != nil || b.ops == 0 || !op.HasParent || op.Parent != b.tail || op.PerPage == 0 {
		return false
	}
	before := *op
	before.HasParent = b.buf[b.last+1]&flagHasParent != 0
	if !b.like(OpStore, &before) {
		return false
	}
	n := int(binary.LittleEndian.Uint32(b.buf[b.last+4:]))
	if n+len(handles) > maxJoinPages {
		return false
	}
	end := len(b.buf) - 8*n*op.PerPage // of the handles
	run := Words(b.buf[end-8*n : end])
	for i := range n {
		for _, h := range handles {
			if run.At(i) == h {
				return false
			}
		}
	}
	if len(b.buf)+8*(len(handles)+len(hashes)) > MaxSlotBytes {
		b.fail(ErrSlotTooLarge)
		return true
	}
	b.grow(len(handles))
	b.words(handles) // makes room; the hashes move behind the new handles
	copy(b.buf[end+8*len(handles):], b.buf[end:])
	for i, h := range handles {
		binary.LittleEndian.PutUint64(b.buf[end+8*i:], h)
	}
	b.words(hashes)
	b.tail = handles[len(handles)-1]
	return true
}

func (b *Builder) word(w uint64) {
	if b.err == nil {
		b.buf = binary.LittleEndian.AppendUint64(b.buf, w)
	}
}

func (b *Builder) words(col []uint64) {
	if b.err != nil {
		return
	}
	if len(b.buf)+8*len(col) > MaxSlotBytes {
		b.fail(ErrSlotTooLarge)
		return
	}
	for _, w := range col {
		b.buf = binary.LittleEndian.AppendUint64(b.buf, w)
	}
}
