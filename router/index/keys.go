package index

import (
	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/radix"
)

// Bounds of one exchange of keys.
const (
	maxAsked = 1024 // facts
	maxTold  = 8192 // keys
)

// Unlinked lists facts of an incarnation whose key is unknown, some at a time:
// each call goes on where the last one ended. O(facts listed).
func (x *Index) Unlinked(id crdt.StreamID, epoch uint64) (out []uint64) {
	x.locked(func() {
		b := x.incarnation(id, epoch)
		if b == nil || len(b.list) == 0 {
			return
		}
		for range min(len(b.list), maxAsked) {
			b.asked %= len(b.list)
			if h := b.list[b.asked]; !b.loose[h].ofSide() {
				out = append(out, h)
			}
			b.asked++
		}
	})
	return out
}

// Keys tells where facts lie, as far as they are linked here. O(handles).
func (x *Index) Keys(id crdt.StreamID, epoch uint64, handles []uint64) (out []crdt.Keyed) {
	x.locked(func() {
		b := x.incarnation(id, epoch)
		if b == nil {
			return
		}
		left := maxTold
		for _, h := range handles[:min(len(handles), maxAsked)] {
			x.held++
			parent, keys, _, ok := b.x.tree.Page(b.holder, h, b.keys[:0])
			b.keys = keys
			if !ok {
				continue
			}
			if left -= len(keys); left < 0 {
				return
			}
			k := crdt.Keyed{Handle: h, Parent: uint64(parent), Keys: make([]uint64, len(keys))}
			for i, key := range keys {
				k.Keys[i] = uint64(key)
			}
			out = append(out, k)
		}
	})
	return out
}

// Link takes keys that another peer told and reports how many were news. What
// has a key keeps it, and what the tokens of a fact contradict is refused.
func (x *Index) Link(id crdt.StreamID, epoch uint64, told []crdt.Keyed, nowMs int64) (linked int) {
	x.on(id, nowMs, func(*crdt.Stream) {
		b := x.incarnation(id, epoch)
		if b == nil || b.cutting {
			return // no fact may move now: it is asked for again
		}
		for i := range told[:min(len(told), maxAsked)] {
			x.held++
			if b.learn(&told[i]) {
				linked++
			}
		}
	})
	return linked
}

// incarnation is a stream's store if epoch is its present one. Called with mu
// held.
func (x *Index) incarnation(id crdt.StreamID, epoch uint64) *blocks {
	if s := x.streams[id]; s != nil && epoch != 0 && s.Epoch() == epoch {
		return blocksOf(s)
	}
	return nil
}

// learn links one loose fact where another peer has it. The key of an unseen
// parent is remembered, so that what else hangs below it is linked too.
func (b *blocks) learn(k *crdt.Keyed) bool {
	l := b.loose[k.Handle]
	if l == nil || len(k.Keys) == 0 || len(l.hashes) > 0 && !b.derives(l, k) {
		return false
	}
	if len(l.hashes) > 0 && b.anchor(l.parent, radix.Key(k.Parent)) {
		return true
	}
	keys := make([]radix.Key, len(k.Keys))
	for i, key := range k.Keys {
		keys[i] = radix.Key(key)
	}
	b.place(radix.Key(k.Parent), len(keys), keys, []uint64{k.Handle}, func(old crdt.Meta) crdt.Meta { return old })
	b.link(k.Handle, keys[len(keys)-1])
	return true
}

// derives reports whether a fact's tokens below the told parent give the told
// keys, and whether that parent is the one known here, if one is.
func (b *blocks) derives(l *loose, k *crdt.Keyed) bool {
	if key, ok := b.keyOf(l.parent); ok && uint64(key) != k.Parent || len(k.Keys) != len(l.hashes) {
		return false
	}
	key := radix.Key(k.Parent)
	for i, t := range l.hashes {
		if key = b.x.hasher.Chain(key, radix.TokenHash(t)); uint64(key) != k.Keys[i] {
			return false
		}
	}
	return true
}
