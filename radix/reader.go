package radix

// Reader matches queries. It takes no lock, never waits and never makes the
// writer wait. It is safe for concurrent use; one per worker is fastest.
type Reader struct {
	t         *Tree
	favourite uint32 // epoch slot
}

// NewReader returns a reader of the tree; it needs no closing.
func (t *Tree) NewReader() *Reader {
	return &Reader{t: t, favourite: t.hint.Add(1) % slotsPerBlock}
}

// Match finds how deep every holder holds the chain keys, whose first key is
// the first block below a namespace root; as keys are chained, equal keys mean
// equal prefixes, and it relies on that. It is exact: every block counts, and
// a fact that is not being changed is always seen; a match during a change may
// see one block before it and another after it. It costs about 0.5 us for 256
// blocks and allocates only when m has to grow.
func (r *Reader) Match(keys []Key, m *Match) {
	t := r.t
	m.reset(int(t.words.Load()))
	if len(keys) == 0 {
		return
	}
	s := t.epochs.enter(r.favourite)
	walk := walk{t: t, m: m, set: noSet}
	walk.run(keys)
	s.leave()
}

// walk is one match in progress.
type walk struct {
	t   *Tree
	m   *Match
	set uint32 // the set applied last
}

func (k *walk) run(keys []Key) {
	pos, line := 0, noLine
	for pos < len(keys) {
		w, n := k.next(line, keys[pos:])
		if n == 0 {
			next, hw, hn := k.head(keys[pos:])
			if hn == 0 {
				break
			}
			line, w, n = next, hw, hn
		} else {
			line++
		}
		if !k.take(w, pos, n) {
			return
		}
		pos += n
	}
	k.end(uint32(pos))
}

// next tries the line that follows in memory; only a whole line is accepted,
// for the price of one cache line that is often at hand.
func (k *walk) next(line uint32, keys []Key) (w uint64, n int) {
	if line++; line == noLine+1 || line&chunkMask == 0 {
		return 0, 0
	}
	hot := k.t.lines.hot.at(line)
	w = hot.w.Load()
	if n = wCount(w); n == 0 || n > len(keys) || hot.last.Load() != uint64(keys[n-1]) {
		return 0, 0
	}
	return w, n
}

// head finds the line that begins with keys[0] and how many blocks of it the
// query shares.
func (k *walk) head(keys []Key) (line uint32, w uint64, n int) {
	hash := k.t.hash(uint64(keys[0]))
	p := k.t.heads.parts[hash>>24].Load()
	if p == nil {
		return 0, 0, 0
	}
	for at := p.home(hash); ; at = p.next(at) {
		e := p.slots[at].Load()
		if e == 0 {
			return 0, 0, 0
		}
		if uint32(e>>32) != hash || e&headLive == 0 {
			continue
		}
		line = uint32(e) &^ headLive
		hot := k.t.lines.hot.at(line)
		w = hot.w.Load()
		n = wCount(w)
		if n > 0 && n <= len(keys) && hot.last.Load() == uint64(keys[n-1]) {
			return line, w, n
		}
		if n = shared(k.t.lines.keys.at(line)[:n], keys); n > 0 {
			return line, w, n
		}
	}
}

// shared counts the leading keys that are equal.
func shared(line, keys []Key) int {
	n := min(len(line), len(keys))
	for i := range n {
		if line[i] != keys[i] {
			return i
		}
	}
	return n
}

// take applies n blocks of a line with word w at pos of the query. It reports
// false when no holder is left.
func (k *walk) take(w uint64, pos, n int) bool {
	if w&wMixed == 0 {
		return k.apply(uint32(w), uint32(pos))
	}
	rec := k.t.mixed.at(uint32(w))
	for i := range n {
		if !k.apply(rec[i].Load(), uint32(pos+i)) {
			return false
		}
	}
	return true
}

// apply drops the holders that set id lacks; pos is their depth.
func (k *walk) apply(id, pos uint32) bool {
	if id == k.set {
		return true
	}
	planes, width := k.t.sets.planes(id)
	first := k.set == noSet
	k.set = id
	m := k.m
	left := uint64(0)
	for i := range m.words {
		var set [Classes]uint64
		if i < width {
			set = [Classes]uint64{planes[i], planes[width+i], planes[2*width+i]}
		}
		w := &m.words[i]
		if first {
			w.begin(&set, m.depth[i*64:])
		} else if w.alive[ClassAny] != 0 {
			w.keep(&set, m.depth[i*64:], pos)
		}
		left |= w.alive[ClassAny]
	}
	return left != 0
}

// end gives everybody who is still there the full depth.
func (k *walk) end(pos uint32) {
	if k.set == noSet {
		return
	}
	for i := range k.m.words {
		k.m.words[i].keep(&[Classes]uint64{}, k.m.depth[i*64:], pos)
	}
}
