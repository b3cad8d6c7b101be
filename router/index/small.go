package index

import (
	"slices"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/radix"
)

// smallPages are the pages of one incarnation that are shorter than a grid
// block: SGLang's default page is one token. Each is a fact of its own (handle,
// copies, last store), for each is stored and removed by itself. Where a page
// stands in its grid block follows from the page before it, so a chain from a
// root up to it makes places known. A grid block is in the tree while all pages
// of it are present, under the handle of its last page: it is worked out from
// the pages (settle), never a fact, and in no digest.
//
//	root key - page - page - ... - page | page - ...
//	           off 0    1          15 ^    0
//	                                  a block, if all sixteen are present
//
// Why so. The packer cannot make grid blocks: where a run begins in its block
// depends on pages of other batches, and a slot is a pure function of its bytes
// (I1 of kvevents). The loose facts could hold pages, at 250 bytes a token
// (a Go map entry, a struct and three lists), 4 KB a grid block. Here it is 81
// bytes a token, 1.3 KB a grid block, where pages of 16 take 48 bytes; a token is
// stored or removed in 0.3 us, a block of 16 in 0.2 (BenchmarkSmallPages, workload
// B's shape; a replica of 500,000 tokens is 40 MB at each peer). Runs of tokens
// with their handles in lines, as the tree has them, would need half and splits
// where prompts fork and where a page in the middle is removed.
//
// Records are never moved. A page that is removed while others hang below it
// stays as a record without copies until they are gone: their places stay known,
// and the block is back when the page is. A page's place is what was told first.
type smallPages struct {
	chunks [][]smallPage
	used   int      // records ever made; 0 is none
	free   []uint32 // records to be used again
	at     map[uint64]uint32
	roots  map[radix.Key]uint32
	ends   map[uint32]radix.Key // keys of the grid blocks that end with a record
	wide   map[uint32][]uint32  // tokens of pages of more than one
	held   int                  // pages present
	tokens int                  // of them
	look   []uint32             // whose blocks are to be worked out

	touched []uint32 // scratch
	block   []uint32 // scratch: tokens of a grid block
	words   []uint64 // scratch: tokens of a page
}

// smallPage is one record, 40 bytes.
type smallPage struct {
	handle uint64    // effective; a root's key
	meta   crdt.Meta // copies; none: it is only what others hang below
	parent uint32    // records; 0: none
	child  uint32    // first of those below it
	next   uint32    // of the same parent
	prev   uint32
	token  uint32
	off    uint8 // tokens of its grid block before it, or adrift
	size   uint8 // tokens; 0: nobody told them (a root, a parent of another kind)
}

const (
	smallChunk = 1 << 12 // records
	maxGrid    = 128     // tokens of a grid block that small pages may make up
	adrift     = 255     // what a page hangs below has no place yet, or it would straddle two blocks
	isRoot     = 254     // off of a root, and of a page of whole grid blocks
)

func (s *smallPages) rec(i uint32) *smallPage { return &s.chunks[i/smallChunk][i%smallChunk] }

// any reports whether there are records at all: most engines have none.
func (s *smallPages) any() bool { return s.used > 0 }

// present returns the record of a handle that is a small page now.
func (s *smallPages) present(h uint64) (i uint32, ok bool) {
	if s.used == 0 {
		return 0, false
	}
	i = s.at[h]
	return i, i != 0 && s.rec(i).meta.Present()
}

func (s *smallPages) bytes() int64 {
	return int64(len(s.chunks))*smallChunk*40 + int64(len(s.at)+len(s.ends))*20 + int64(len(s.wide))*64
}

// make takes a record into use.
func (s *smallPages) make(handle uint64, off uint8) uint32 {
	if s.at == nil {
		s.at, s.roots, s.ends = map[uint64]uint32{}, map[radix.Key]uint32{}, map[uint32]radix.Key{}
		s.used = 1 // record 0 is none
	}
	var i uint32
	if n := len(s.free); n > 0 {
		i, s.free = s.free[n-1], s.free[:n-1]
	} else {
		i = uint32(s.used)
		s.used++
	}
	for int(i/smallChunk) >= len(s.chunks) {
		s.chunks = append(s.chunks, make([]smallPage, smallChunk))
	}
	*s.rec(i) = smallPage{handle: handle, off: off}
	return i
}

// dropSmall forgets records without copies and without pages below, from i
// upwards.
func (b *blocks) dropSmall(i uint32) {
	s := &b.smallPages
	for i != 0 {
		p := s.rec(i)
		if p.meta.Present() || p.child != 0 {
			return
		}
		up := p.parent
		switch {
		case p.prev != 0:
			s.rec(p.prev).next = p.next
		case up != 0:
			s.rec(up).child = p.next
		}
		if p.next != 0 {
			s.rec(p.next).prev = p.prev
		}
		if s.roots[radix.Key(p.handle)] == i {
			delete(s.roots, radix.Key(p.handle))
		}
		if s.at[p.handle] == i {
			delete(s.at, p.handle)
			if _, linked := b.x.tree.Get(b.holder, p.handle); !linked && b.loose[p.handle] == nil {
				b.release(p.handle)
			}
		}
		delete(s.ends, i)
		delete(s.wide, i)
		*p = smallPage{off: adrift}
		s.free = append(s.free, i)
		i = up
	}
}

// hang puts a page below another.
func (s *smallPages) hang(i, parent uint32) {
	p, up := s.rec(i), s.rec(parent)
	p.parent, p.prev, p.next = parent, 0, up.child
	if up.child != 0 {
		s.rec(up.child).prev = i
	}
	up.child = i
}

// tokensOf appends the tokens of a page.
func (s *smallPages) tokensOf(dst []uint32, i uint32) []uint32 {
	if p := s.rec(i); p.size == 1 {
		return append(dst, p.token)
	}
	return append(dst, s.wide[i]...)
}

// smallBelow is the record that pages hang below: of a root key, or of an
// effective handle, which is one of base in a space.
func (b *blocks) smallBelow(linked bool, parent, base, space uint64) uint32 {
	s := &b.smallPages
	if linked {
		if i := s.roots[radix.Key(parent)]; i != 0 {
			return i
		}
		i := s.make(parent, isRoot)
		s.roots[radix.Key(parent)] = i
		return i
	}
	if i := s.at[parent]; i != 0 {
		return i
	}
	i := s.make(parent, adrift)
	s.at[parent] = i
	b.adopt(parent, base, space)
	if key, ok := b.keyOf(parent); ok { // a page of whole grid blocks
		s.rec(i).off, s.ends[i] = isRoot, key
	}
	return i
}

// storeSmall folds a run of small pages. handles are effective.
func (b *blocks) storeSmall(op *crdt.Op, handles []uint64, put func(crdt.Meta) crdt.Meta) {
	if b.x.grid%op.Small != 0 || b.x.grid > maxGrid {
		return // no packer of this mesh makes it
	}
	s := &b.smallPages
	parent := op.Root
	if op.HasParent {
		parent = b.effective(op.Parent, op.Space)
	}
	at := b.smallBelow(!op.HasParent, parent, op.Parent, op.Space)
	above := at
	s.touched = s.touched[:0]
	for i, h := range handles {
		s.words = s.words[:0]
		for j := range op.PerPage {
			s.words = append(s.words, op.Hashes.At(i*op.PerPage+j)^b.x.hasher.Mask(op.Handles.At(i), j))
		}
		at = b.putSmall(h, at, op.Small, put)
	}
	b.dropSmall(above) // if nothing came to hang there
	b.dropSmall(at)
	b.settleSmall()
}

// putSmall changes one page below a record, of the tokens in words, and returns
// its record. A handle that is another kind of fact stays one.
func (b *blocks) putSmall(h uint64, parent uint32, size int, put func(crdt.Meta) crdt.Meta) uint32 {
	s := &b.smallPages
	i := s.at[h]
	var bare *loose
	if i == 0 || !s.rec(i).meta.Present() {
		bare = b.loose[h]
		_, linked := b.x.tree.Get(b.holder, h)
		if linked || bare != nil && len(bare.hashes) > 0 || i != 0 && (s.rec(i).off == isRoot || b.above(parent, i)) {
			b.touch(h, put)
			return b.smallBelow(false, h, h, 0)
		}
	}
	if i == 0 {
		i = s.make(h, adrift)
		s.at[h] = i
	}
	p := s.rec(i)
	if p.size == 0 {
		b.tellSmall(i, size)
		s.hang(i, parent)
		if b.placeSmall(i) {
			b.lookBelow(i) // what waited for it
		}
	}
	if bare != nil { // nobody had told what it holds
		p.meta = bare.meta
		b.dropLoose(h)
		s.held++
		s.tokens += int(p.size)
	}
	b.changeSmall(i, put(p.meta))
	s.touched = append(s.touched, i)
	return i
}

// above reports whether a page with pages below it is above another, or that one
// itself: it cannot hang there. O(depth), only for parents that come late.
func (b *blocks) above(i, page uint32) bool {
	s := &b.smallPages
	for ; i != 0; i = s.rec(i).parent {
		if i == page {
			return true
		}
		if s.rec(page).child == 0 {
			return false
		}
		b.x.held++
	}
	return false
}

// tellSmall notes the tokens in words as a page's.
func (b *blocks) tellSmall(i uint32, size int) {
	s := &b.smallPages
	p := s.rec(i)
	p.size, p.off = uint8(size), adrift
	delete(s.ends, i)
	if size == 1 {
		p.token = uint32(s.words[0])
		return
	}
	if s.wide == nil {
		s.wide = map[uint32][]uint32{}
	}
	tokens := make([]uint32, size)
	for j := range tokens {
		tokens[j] = uint32(s.words[j/2] >> (32 * (j % 2)))
	}
	s.wide[i] = tokens
}

// changeSmall gives a page another meta.
func (b *blocks) changeSmall(i uint32, now crdt.Meta) {
	s := &b.smallPages
	p := s.rec(i)
	was := p.meta.Present()
	p.meta = b.change(p.handle, p.meta, now)
	switch {
	case was && !now.Present():
		b.unblock(i) // now: its handle must not pass for a fact of another kind
		p.meta = 0
		s.held--
		s.tokens -= int(p.size)
	case !was && now.Present():
		s.held++
		s.tokens += int(p.size)
	}
}

// removeSmall takes a copy of a page away; false if the handle is none.
func (b *blocks) removeSmall(h uint64, drop func(crdt.Meta) crdt.Meta) bool {
	i, ok := b.smallPages.present(h)
	if ok {
		b.changeSmall(i, drop(b.smallPages.rec(i).meta))
		b.smallPages.touched = append(b.smallPages.touched, i)
	}
	return ok
}

// unsmall makes a page a bare fact: it is about to be told as another kind.
func (b *blocks) unsmall(h uint64) {
	s := &b.smallPages
	i, ok := s.present(h)
	if !ok {
		return
	}
	p := s.rec(i)
	m := p.meta
	b.unblock(i)
	p.meta = 0
	s.held--
	s.tokens -= int(p.size)
	s.touched = append(s.touched[:0], i)
	space := b.spaced[h]
	b.settleSmall()
	b.adopt(h, space.base, space.space)
	b.looseAt(h).meta = m
}

// arrived tells pages below a block of another kind its key.
func (b *blocks) arrived(h uint64, key radix.Key) {
	s := &b.smallPages
	if i := s.at[h]; i != 0 && s.rec(i).size == 0 && s.rec(i).off == adrift {
		s.rec(i).off, s.ends[i] = isRoot, key
		b.lookBelow(i)
	}
}

// settleSmall works out the blocks of the pages touched, deepest first: one that
// is gone and has nothing below it goes with its record, and of a run only the
// last page in each block need be looked at.
func (b *blocks) settleSmall() {
	s := &b.smallPages
	below := uint32(0)
	for n := len(s.touched) - 1; n >= 0; n-- {
		i := s.touched[n]
		p := s.rec(i)
		switch {
		case p.size == 0: // dropped with another
		case !p.meta.Present() && p.child == 0:
			b.dropSmall(i)
			below = 0
			continue
		case below != 0 && p.child == below && s.rec(below).next == 0 && !b.endsBlock(i):
			// what is below it alone was looked at
		default:
			s.look = append(s.look, i)
		}
		below = i
	}
	s.touched = s.touched[:0]
	b.lookSmall()
}

// lookSmall works out blocks while the hold lasts; the rest waits for the next.
func (b *blocks) lookSmall() {
	s := &b.smallPages
	for len(s.look) > 0 && b.x.held < b.x.hold {
		i := s.look[len(s.look)-1]
		s.look = s.look[:len(s.look)-1]
		p := s.rec(i)
		if p.size == 0 {
			continue
		}
		b.x.held++
		fresh := p.off == adrift && b.placeSmall(i)
		switch {
		case p.off == adrift:
		case b.endsBlock(i):
			b.workOut(i)
			if fresh {
				b.lookBelow(i)
			}
		default:
			b.lookBelow(i)
		}
	}
	if len(s.look) == 0 && cap(s.look) > 1<<16 {
		s.look = nil
	}
}

// lookBelow has the pages right below one looked at.
func (b *blocks) lookBelow(i uint32) {
	s := &b.smallPages
	for c := s.rec(i).child; c != 0; c = s.rec(c).next {
		s.look = append(s.look, c)
		b.x.held++
	}
}

// endsBlock reports whether a page is the last of its grid block.
func (b *blocks) endsBlock(i uint32) bool {
	p := b.smallPages.rec(i)
	return p.off < isRoot && int(p.off)+int(p.size) == b.x.grid
}

// placeSmall works out where a page stands, if that of the page before is known.
func (b *blocks) placeSmall(i uint32) bool {
	s := &b.smallPages
	p := s.rec(i)
	up := s.rec(p.parent)
	off := 0
	switch {
	case up.off == adrift:
		return false
	case up.off != isRoot:
		off = (int(up.off) + int(up.size)) % b.x.grid
	}
	if off+int(p.size) > b.x.grid {
		return false // a short last page, and something below it all the same
	}
	p.off = uint8(off)
	if b.endsBlock(i) {
		first, _, _, _ := b.climb(i)
		s.ends[i] = b.x.hasher.Chain(b.before(first), b.x.hasher.Block(s.block))
	}
	return true
}

// climb walks from the last page of a grid block to its first and gathers the
// tokens; present reports whether all pages are, and then on what tier the
// slowest lies and when the oldest was stored.
func (b *blocks) climb(last uint32) (first uint32, present bool, tier crdt.Tier, seq uint64) {
	s := &b.smallPages
	present, seq = true, crdt.MaxSeq
	s.block = slices.Grow(s.block[:0], b.x.grid)[:b.x.grid]
	end := b.x.grid
	for i := last; ; i = s.rec(i).parent {
		p := s.rec(i)
		s.tokensOf(s.block[:end-int(p.size)], i)
		end -= int(p.size)
		if present = present && p.meta.Present(); present {
			best := crdt.TierGPU
			for p.meta.Copies(best) == 0 {
				best++
			}
			tier, seq = max(tier, best), min(seq, p.meta.Seq())
		}
		if p.off == 0 {
			return i, present, tier, seq
		}
	}
}

// pagesOf calls each with the pages of the grid block that ends with one, the
// last first.
func (b *blocks) pagesOf(last uint32, each func(*smallPage)) {
	for i := last; ; {
		p := b.smallPages.rec(i)
		each(p)
		b.x.held++
		if p.off == 0 {
			return
		}
		i = p.parent
	}
}

// before is the key of the grid block before the first page of one.
func (b *blocks) before(first uint32) radix.Key {
	s := &b.smallPages
	up := s.rec(first).parent
	if key, ok := s.ends[up]; ok {
		return key
	}
	return radix.Key(s.rec(up).handle) // a root
}

// workOut has the grid block that ends with a page in the tree while all of it
// is present.
func (b *blocks) workOut(i uint32) {
	p := b.smallPages.rec(i)
	first, present, tier, seq := b.climb(i)
	if !present {
		b.unblock(i)
		return
	}
	var copies [crdt.Tiers]uint8
	copies[tier] = 1
	meta := radix.Meta(crdt.NewMeta(seq, copies[0], copies[1], copies[2]))
	key := b.smallPages.ends[i]
	b.x.tree.Store(b.holder, b.before(first), 1, []radix.Key{key}, []uint64{p.handle}, func(radix.Fact) radix.Meta { return meta })
	if len(b.waiting) > 0 {
		b.link(p.handle, key)
	}
}

// unblock takes the block that ends with a page out of the tree, if it is there.
func (b *blocks) unblock(i uint32) {
	if b.endsBlock(i) {
		b.x.tree.Remove(b.holder, []uint64{b.smallPages.rec(i).handle}, func(radix.Fact) radix.Meta { return 0 })
	}
}
