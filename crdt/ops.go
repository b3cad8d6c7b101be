package crdt

import (
	"encoding/binary"
	"errors"
	"fmt"
)

var (
	errSlotShort = errors.New("slot: op cut short")
	errSlotFlags = errors.New("slot: flags not canonical")
	errSlotClear = errors.New("slot: something before a clear")
)

// Ops decodes the slot's ops in the engine's order and calls fn for each until
// fn returns false. The Op and its columns are valid during the call only and
// alias the body. Any bytes are safe: nothing is allocated, no count is
// believed before it is checked against what is left. O(ops).
func (s *Slot) Ops(fn func(*Op) bool) error { return s.OpsInto(new(Op), fn) }

// OpsInto is Ops with the caller's Op to decode into, so that a slot of one op
// costs no allocation.
func (s *Slot) OpsInto(op *Op, fn func(*Op) bool) error {
	b := s.Body
	for len(b) > 0 {
		n, err := op.parse(b)
		if err != nil {
			return err
		}
		if !fn(op) {
			return nil
		}
		b = b[n:]
	}
	return nil
}

// First decodes the slot's first op, of any bytes; ok is false if there is
// none, or none with handles. It is a hint for whoever wants to look up early
// what the fold will need.
func (s *Slot) First(op *Op) (ok bool) {
	_, err := op.parse(s.Body)
	return err == nil && op.Handles.Len() > 0
}

// Clears reports whether the slot empties the cache first.
func (s *Slot) Clears() bool {
	return len(s.Body) >= opHeaderBytes && OpKind(s.Body[0]) == OpClear
}

// Place is how far a slot is folded: the op at a byte and a page of it.
type Place uint64

const placeOp = 32 // bits 0-31 are the page

// Part is OpsInto for a part of the ops: from a place on until about max
// blocks were told; an op or page is told whatever max is. It returns where the
// next part begins, 0 if there is none, and how many blocks were told, an op
// counting as one more. A run that is cut goes on as one below its last handle
// told, with Inside set: parts are told as the whole would be. O(ops told).
func (s *Slot) Part(op *Op, from Place, max int, fn func(*Op)) (next Place, told int, err error) {
	at, page := int(from>>placeOp), int(from&(1<<placeOp-1))
	for at < len(s.Body) {
		if told > 0 && told >= max {
			return Place(at)<<placeOp | Place(page), told, nil
		}
		size, err := op.parse(s.Body[at:])
		if err != nil {
			return 0, told, err
		}
		pages, each := op.Handles.Len(), op.Blocks()
		n := pages - page
		if room := (max - told) / each; room < n {
			n = room
			if n < 1 {
				n = 1
			}
		}
		if n < pages {
			op.cut(page, n)
		}
		fn(op)
		told += 1 + n*each
		if page += n; page == pages {
			at, page = at+size, 0
		}
	}
	return 0, told, nil
}

// Blocks is how many blocks a page of the op stands for: one at least.
func (op *Op) Blocks() int { return max(op.PerPage, 1) }

// cut leaves n pages of an op, from page on.
func (op *Op) cut(page, n int) {
	if page > 0 && op.Kind == OpStore {
		op.HasParent, op.Parent, op.Root, op.Inside = true, op.Handles.At(page-1), 0, true
	}
	op.Handles = op.Handles[8*page : 8*(page+n) : 8*(page+n)]
	if op.PerPage > 0 {
		from, to := 8*page*op.PerPage, 8*(page+n)*op.PerPage
		op.Hashes = op.Hashes[from:to:to]
	}
}

// Validate reports whether the slot may be folded: its number fits a Meta and
// its body is whole, bounded and in the form Builder writes. O(ops), not
// O(blocks).
func (s *Slot) Validate() error {
	_, err := s.inspect()
	return err
}

// inspect validates the slot and reports whether it contains a clear.
func (s *Slot) inspect() (clears bool, err error) {
	if s.Seq == 0 || s.Seq > MaxSeq {
		return false, fmt.Errorf("slot number %d out of range", s.Seq)
	}
	if len(s.Body) > MaxSlotBytes {
		return false, ErrSlotTooLarge
	}
	var op Op // not through Ops: there it would be allocated
	for b := s.Body; len(b) > 0; {
		n, err := op.parse(b)
		if err != nil {
			return false, err
		}
		if op.Kind == OpClear {
			if len(b) < len(s.Body) {
				return false, errSlotClear
			}
			clears = true
		}
		b = b[n:]
	}
	return clears, nil
}

// parse decodes the op at the start of b and returns its size.
func (op *Op) parse(b []byte) (size int, err error) {
	if len(b) < opHeaderBytes {
		return 0, errSlotShort
	}
	flags := b[1]
	n := uint64(binary.LittleEndian.Uint32(b[4:]))
	*op = Op{
		Kind: OpKind(b[0]), Mode: Mode(flags & flagFlagged), Tier: Tier(b[2]),
		HasParent: flags&flagHasParent != 0, Main: flags&flagMain != 0, AnySpace: flags&flagAnySpace != 0,
		Reuse: flags&flagReuse != 0,
	}
	var ok bool
	if op.PerPage, op.Small, ok = pageOf(b[3]); !ok {
		return 0, errSlotFlags
	}
	if err := op.check(flags, n); err != nil {
		return 0, err
	}
	rest := b[opHeaderBytes:]
	if flags&flagSpace != 0 {
		if len(rest) < 8 {
			return 0, errSlotShort
		}
		if op.Space, rest = binary.LittleEndian.Uint64(rest), rest[8:]; op.Space == 0 {
			return 0, errSlotFlags
		}
	}
	if flags&flagGroup != 0 {
		if len(rest) < 4 {
			return 0, errSlotShort
		}
		if op.Group, rest = int32(binary.LittleEndian.Uint32(rest)), rest[4:]; op.Group == 0 {
			return 0, errSlotFlags
		}
	}
	if op.Kind == OpStore {
		if len(rest) < 8 {
			return 0, errSlotShort
		}
		if op.HasParent {
			op.Parent = binary.LittleEndian.Uint64(rest)
		} else {
			op.Root = binary.LittleEndian.Uint64(rest)
		}
		rest = rest[8:]
	}
	pages := uint64(len(rest)) / 8
	if n > pages || n*uint64(op.PerPage) > pages-n {
		return 0, errSlotShort
	}
	op.Handles = Words(rest[: 8*n : 8*n])
	rest = rest[8*n:]
	hashes := 8 * n * uint64(op.PerPage)
	op.Hashes = Words(rest[:hashes:hashes])
	return len(b) - len(rest) + int(hashes), nil
}

// check refuses headers that Builder never writes.
func (op *Op) check(flags byte, n uint64) error {
	if flags&^flagsAll != 0 || op.Tier >= Tiers {
		return errSlotFlags
	}
	switch op.Kind {
	case OpStore:
		if n == 0 || op.AnySpace || op.Reuse && op.Mode != Counted {
			return errSlotFlags
		}
	case OpRemove:
		if n == 0 || op.PerPage != 0 || op.HasParent || op.Reuse || op.AnySpace && flags&flagSpace != 0 {
			return errSlotFlags
		}
	case OpClear:
		if n != 0 || flags != 0 || op.Tier != 0 || op.PerPage != 0 {
			return errSlotFlags
		}
	default:
		return fmt.Errorf("slot: unknown op kind %d", op.Kind)
	}
	return nil
}
