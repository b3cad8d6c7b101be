package index

import (
	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/radix"
)

// looseFacts are the facts of one incarnation whose block key is unknown.
type looseFacts struct {
	loose   map[uint64]*loose   // by handle
	list    []uint64            // the same handles, for work in steps
	waiting map[uint64][]uint64 // parent handle -> handles of loose facts with hashes
	todo    []known             // whose waiting ones are to be linked
	heads   map[uint64][]uint64 // first token hash of a page -> handles of loose facts
	sides   map[uint64]*side    // groups besides the main one, by space
	asked   int                 // in list: whose keys other peers are asked for next
}

// loose is a fact whose block key is unknown: its parent was never seen, or
// nobody told its tokens (no hashes).
type loose struct {
	parent uint64   // handle
	hashes []uint64 // token hashes of the page's grid blocks
	meta   crdt.Meta
	at     int // in list
	wait   int // in waiting[parent], if it has hashes
	head   int // in heads[hashes[0]], if it has
}

// storeLoose keeps pages whose parent is unknown until it comes. Pages that
// are linked already (a repeated store) anchor the rest of the run.
func (b *blocks) storeLoose(parent uint64, perPage int, handles []uint64, hashes crdt.Words, put func(crdt.Meta) crdt.Meta) {
	var page []uint64
	for i, h := range handles {
		if f, ok := b.x.tree.Get(b.holder, h); ok {
			b.retouch(h, put)
			if rest := handles[i+1:]; len(rest) > 0 {
				b.storeRun(f.Key, perPage, rest, hashes[8*perPage*(i+1):], put)
			}
			return
		}
		page = page[:0]
		for j := range perPage {
			page = append(page, hashes.At(i*perPage+j))
		}
		l := b.looseAt(h)
		l.meta = b.change(h, l.meta, put(l.meta))
		b.hang(h, l, parent, page)
		parent = h
	}
}

// looseAt returns the loose fact of a handle, made if need be.
func (b *blocks) looseAt(h uint64) *loose {
	if b.loose == nil {
		b.loose = map[uint64]*loose{}
	}
	l := b.loose[h]
	if l == nil {
		l = &loose{at: len(b.list)}
		b.list = append(b.list, h)
		b.loose[h] = l
	}
	return l
}

// hang says what a loose fact hangs below and what its tokens are. A page
// without hashes says nothing: it stays a bare fact.
func (b *blocks) hang(h uint64, l *loose, parent uint64, hashes []uint64) {
	b.unhang(l)
	if l.ofSide() {
		b.noteSide(h, l.parent, -1)
	}
	l.parent, l.hashes = parent, append(l.hashes[:0], hashes...)
	if l.ofSide() {
		b.noteSide(h, l.parent, 1)
	}
	if len(hashes) == 0 {
		return
	}
	if b.waiting == nil {
		b.waiting, b.heads = map[uint64][]uint64{}, map[uint64][]uint64{}
	}
	l.wait, l.head = len(b.waiting[parent]), len(b.heads[hashes[0]])
	b.waiting[parent] = append(b.waiting[parent], h)
	b.heads[hashes[0]] = append(b.heads[hashes[0]], h)
}

// noteSide counts a fact of a side group, or takes it away.
func (b *blocks) noteSide(h, checkpoint uint64, by int) {
	groups := len(b.sides)
	b.note(b.spaced[h].space, checkpoint, by)
	if len(b.sides) != groups {
		b.mark()
	}
}

// unhang takes a fact out of waiting and heads. O(1).
func (b *blocks) unhang(l *loose) {
	if len(l.hashes) == 0 {
		return
	}
	if moved, ok := takeOut(b.waiting, l.parent, l.wait); ok {
		b.loose[moved].wait = l.wait
	}
	if moved, ok := takeOut(b.heads, l.hashes[0], l.head); ok {
		b.loose[moved].head = l.head
	}
}

// takeOut removes element i of a list by moving the last one there; moved is
// that one, ok whether any moved.
func takeOut(lists map[uint64][]uint64, at uint64, i int) (moved uint64, ok bool) {
	list := lists[at]
	last := len(list) - 1
	if last == 0 {
		delete(lists, at)
		return 0, false
	}
	moved, list[i] = list[last], list[last]
	lists[at] = list[:last]
	return moved, i < last
}

// dropLoose forgets a loose fact: it is linked now or no fact any more.
func (b *blocks) dropLoose(h uint64) {
	l := b.loose[h]
	if l == nil {
		return
	}
	b.unhang(l)
	if l.ofSide() {
		b.noteSide(h, l.parent, -1)
	}
	last := b.list[len(b.list)-1]
	b.list[l.at] = last
	b.loose[last].at = l.at
	b.list = b.list[:len(b.list)-1]
	delete(b.loose, h)
}

// known is a block whose key has just become known.
type known struct {
	handle uint64
	key    radix.Key
}

// link gives the loose facts that wait for a handle their keys, and those
// that wait for them in turn: some at once, the rest in further holds (I6).
func (b *blocks) link(handle uint64, key radix.Key) {
	b.todo = append(b.todo, known{handle, key})
	b.links()
}

// links links what is to be linked while the hold lasts.
func (b *blocks) links() {
	for len(b.todo) > 0 && b.x.held < b.x.hold {
		at := b.todo[len(b.todo)-1]
		b.todo = b.todo[:len(b.todo)-1]
		for children := b.waiting[at.handle]; len(children) > 0; children = b.waiting[at.handle] {
			if b.x.held >= b.x.hold {
				b.todo = append(b.todo, at)
				return
			}
			child := children[len(children)-1]
			b.todo = append(b.todo, known{child, b.linkOne(child, b.loose[child], at.key)})
		}
	}
}

// linkOne links a loose fact below a key and returns its own. It is no loose
// fact then.
func (b *blocks) linkOne(handle uint64, l *loose, parent radix.Key) radix.Key {
	b.x.held++
	k := parent
	keys := make([]radix.Key, 0, len(l.hashes))
	for _, t := range l.hashes {
		k = b.x.hasher.Chain(k, radix.TokenHash(t))
		keys = append(keys, k)
	}
	b.place(parent, len(keys), keys, []uint64{handle}, func(old crdt.Meta) crdt.Meta { return old })
	return k
}
