package index

import (
	"slices"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/radix"
)

// maxAnchors bounds the keys of unknown blocks remembered for one
// incarnation; the oldest go first.
const maxAnchors = 4096

// anchors are keys of blocks that are no facts: their stores were never seen,
// but an answer or a peer told the key. What hangs below them is linked. They
// are in no digest: peers may differ, and tell each other (Hints).
type anchors struct {
	anchored map[uint64]radix.Key // by handle
	came     []uint64             // the same handles, oldest first
}

// keyOf is the block key of a handle, from its fact or an anchor.
func (b *blocks) keyOf(handle uint64) (radix.Key, bool) {
	if end := b.end(handle); end.handle == handle && end.key != 0 {
		return end.key, true
	}
	if f, ok := b.x.tree.Get(b.holder, handle); ok {
		return f.Key, true
	}
	k, ok := b.anchored[handle]
	return k, ok
}

// anchor learns the key of a block that is no fact, and links what waits for
// it. What is known already wins. It reports whether it was news.
func (b *blocks) anchor(handle uint64, key radix.Key) bool {
	if _, ok := b.keyOf(handle); ok || b.loose[handle] != nil {
		return false
	}
	if b.anchored == nil {
		b.anchored = map[uint64]radix.Key{}
	}
	if len(b.came) == maxAnchors {
		delete(b.anchored, b.came[0])
		b.came = slices.Delete(b.came, 0, 1)
	}
	b.anchored[handle] = key
	b.came = append(b.came, handle)
	b.mark()
	if !b.cutting {
		b.link(handle, key)
	}
	return true
}

// known drops an anchor: its block is a fact now.
func (b *blocks) known(handle uint64) {
	if len(b.anchored) == 0 {
		return
	}
	if _, ok := b.anchored[handle]; ok {
		delete(b.anchored, handle)
		b.came = slices.DeleteFunc(b.came, func(h uint64) bool { return h == handle })
	}
}

// relink links what waited for anchors learned while a snapshot was cut.
func (b *blocks) relink() {
	for _, h := range slices.Clone(b.came) {
		b.link(h, b.anchored[h])
	}
}

// Hint takes anchors that another peer learned.
func (b *blocks) Hint(hints []crdt.Hint) {
	for _, h := range hints {
		b.anchor(h.Handle, radix.Key(h.Key))
	}
}

var _ crdt.Hinter = (*blocks)(nil)

// maxHints bounds the anchors told at a time, 64 KiB.
const maxHints = 4096

// Hints lists the anchors of a stream, for peers whose linked facts differ
// though their facts do not. O(anchors), at most maxHints.
func (x *Index) Hints(id crdt.StreamID, epoch uint64) (out []crdt.Hint) {
	x.locked(func() {
		if s := x.streams[id]; s != nil && s.Epoch() == epoch && epoch != 0 {
			out = s.Blocks().(*blocks).hints(maxHints)
		}
	})
	return out
}

// hints lists at most max anchors, the newest.
func (b *blocks) hints(max int) (out []crdt.Hint) {
	for _, h := range b.came[len(b.came)-min(max, len(b.came)):] {
		out = append(out, crdt.Hint{Handle: h, Key: uint64(b.anchored[h])})
	}
	return out
}

// tie looks for the orphans of an answered prompt: the engine had n of its
// blocks cached, of which the events vouch for confirmed. A run of loose facts
// is the prompt's if its token hashes equal the prompt's from one place on
// without a gap as far as the engine must have told (all cached blocks behind
// the place, or the whole prompt if the run begins where the cache ended), and
// if neither another place nor another run fits. Its parent then is the
// prompt's block before. O(n), and only where there are loose facts.
func (b *blocks) tie(c *Chain, confirmed, n int) bool {
	if len(b.heads) == 0 || len(c.Hashes) != len(c.Keys) {
		return false
	}
	var parent uint64
	var key radix.Key
	found := false
	b.x.held += n - confirmed + 1
	for i := confirmed; i <= n && i < len(c.Hashes); i++ {
		for _, h := range b.heads[uint64(c.Hashes[i])] {
			l := b.loose[h]
			if b.loose[l.parent] != nil || i%len(l.hashes) != 0 {
				continue // not a head, or no page begins here
			}
			to := n
			if i == n {
				to = len(c.Hashes)
			}
			if !b.follows(h, c.Hashes[i:], (to-i)/len(l.hashes)) {
				continue
			}
			if found && (parent != l.parent || key != c.before(i)) {
				return false // not the only one
			}
			found, parent, key = true, l.parent, c.before(i)
		}
	}
	return found && b.anchor(parent, key)
}

// before is the key that block i hangs below.
func (c *Chain) before(i int) radix.Key {
	if i == 0 {
		return c.Root
	}
	return c.Keys[i-1]
}

// follows reports whether the run of loose facts from h on has these token
// hashes, pages pages at least.
func (b *blocks) follows(h uint64, hashes []radix.TokenHash, pages int) bool {
	for n := 0; ; {
		l := b.loose[h]
		if l == nil || len(l.hashes) == 0 || len(l.hashes) > len(hashes) {
			return false
		}
		for j, t := range l.hashes {
			if uint64(hashes[j]) != t {
				return false
			}
		}
		if n++; n >= pages {
			return true
		}
		hashes = hashes[len(l.hashes):]
		next, ok := uint64(0), false
		for _, child := range b.waiting[h] {
			if len(hashes) > 0 && b.loose[child].hashes[0] == uint64(hashes[0]) {
				next, ok = child, true
				break
			}
		}
		if !ok {
			return false
		}
		h = next
	}
}
