package index

import (
	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/radix"
)

// suspectMs is how long facts stay suspect after a loss: until then traffic
// has confirmed or replaced what matters.
const suspectMs = 10 * 60 * 1000

// doubt is what a loss does to one incarnation: facts whose last store is
// older than the highest slot declared lost may be gone. They stay facts (I2)
// and only weigh less. Ends for one fact when it is stored again or confirmed
// by an answer, for all after suspectMs or at a clear.
type doubt struct {
	void     uint64              // facts stored last before it are suspect; 0: none is
	noticed  uint64              // highest loss ever noticed here
	lostAt   int64               // ms, when it was
	suspects int                 // I7: so many facts are suspect, once counted
	sure     map[uint64]struct{} // handles confirmed since
	counting bool                // the facts are being counted; nothing changes meanwhile
	cursor   uint64              // of the count
	loosely  int                 // loose facts still to count
	smally   int                 // records of small pages still to count
}

// suspect reports whether a fact is.
func (b *blocks) suspect(handle uint64, m crdt.Meta) bool {
	if !m.Present() || m.Seq() >= b.void {
		return false
	}
	_, sure := b.sure[handle]
	return !sure
}

// weigh keeps the count when a fact changes.
func (b *blocks) weigh(handle uint64, old, now crdt.Meta) {
	was, is := b.suspect(handle, old), b.suspect(handle, now)
	switch {
	case was && !is:
		if b.suspects--; b.suspects == 0 {
			b.mark()
		}
	case is && !was:
		b.suspects++
	}
	if !now.Present() {
		delete(b.sure, handle)
	}
}

// notice compares with the highest slot lost. A new loss begins a count, which
// is to be finished by count before anything else is done with the stream.
func (b *blocks) notice(void uint64, nowMs int64) {
	if void <= b.noticed {
		return
	}
	b.doubt = doubt{void: void, noticed: void, lostAt: nowMs, counting: true, loosely: len(b.list), smally: b.smallPages.used}
	b.mark()
}

// trust ends all doubt.
func (b *blocks) trust() {
	b.doubt = doubt{noticed: b.noticed}
	b.mark()
}

// mark tells readers whether the shown facts need a closer look.
func (b *blocks) mark() {
	if !b.ref.shows(b.holder) {
		return
	}
	flags := uint32(0)
	if b.counting || b.suspects > 0 {
		flags |= flagSuspect
	}
	if len(b.anchored) > 0 {
		flags |= flagAnchored
	}
	if len(b.sides) > 0 {
		flags |= flagHybrid
	}
	if b.records > 0 {
		flags |= flagAhead
	}
	b.ref.flags.Store(flags)
}

// count counts about max facts more.
func (b *blocks) count(max int) {
	b.x.held += max
	if b.loosely > 0 {
		for ; b.loosely > 0 && max > 0; max-- {
			b.loosely--
			h := b.list[b.loosely]
			if b.suspect(h, b.loose[h].meta) {
				b.suspects++
			}
		}
		return
	}
	if b.smally > 0 {
		for ; b.smally > 0 && max > 0; max-- {
			b.smally--
			if p := b.smallPages.rec(uint32(b.smally)); b.suspect(p.handle, p.meta) {
				b.suspects++
			}
		}
		return
	}
	b.cursor = b.x.tree.Runs(b.holder, b.cursor, max, func(run radix.Run) {
		for i, h := range run.Handles {
			if _, small := b.smallPages.present(h); !small && b.suspect(h, crdt.Meta(run.Metas[i])) {
				b.suspects++
			}
		}
	})
	if b.cursor == 0 {
		b.counting = false
		b.mark()
	}
}

// doubted returns those of the facts behind a block that are suspect: the page,
// or those of the small pages that the block is made of. Good until the next
// use of b.handles.
func (b *blocks) doubted(f radix.Fact) []uint64 {
	out := b.handles[:0]
	add := func(h uint64, m crdt.Meta) {
		if b.suspect(h, m) {
			out = append(out, h)
		}
	}
	if i, small := b.smallPages.present(f.Handle); small {
		b.pagesOf(i, func(p *smallPage) { add(p.handle, p.meta) })
	} else {
		add(f.Handle, crdt.Meta(f.Meta))
	}
	b.handles = out
	return out
}

// confirm takes the doubt from the first blocks of a prompt that an answer
// told to be cached.
func (b *blocks) confirm(keys []radix.Key) {
	for _, k := range keys {
		f, _, ok := b.x.tree.Covering(b.holder, k)
		if !ok {
			continue
		}
		for _, h := range b.doubted(f) {
			if b.sure == nil {
				b.sure = map[uint64]struct{}{}
			}
			b.sure[h] = struct{}{}
			b.suspects--
		}
	}
	b.x.held += len(keys)
	b.mark()
}

// doubtful counts the blocks that only suspect facts vouch for. Where several
// pages cover one block, it is believed.
func (b *blocks) doubtful(keys []radix.Key) (n int) {
	for _, k := range keys {
		if f, pages, ok := b.x.tree.Covering(b.holder, k); ok && pages == 1 && f.Blocks > 0 && len(b.doubted(f)) > 0 {
			n++
		}
	}
	b.x.held += len(keys)
	return n
}

// heldKeys counts the leading keys that the incarnation has facts about.
func (b *blocks) heldKeys(keys []radix.Key) int {
	for i, k := range keys {
		if f, _, ok := b.x.tree.Covering(b.holder, k); !ok || f.Meta != 0 && crdt.Meta(f.Meta).Copies(crdt.TierGPU) == 0 {
			b.x.held += i
			return i
		}
	}
	b.x.held += len(keys)
	return len(keys)
}
