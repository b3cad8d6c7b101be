package radix

import (
	"cmp"
	"math/bits"
	"slices"
)

// Prefix is one much-shared piece of the tree.
type Prefix struct {
	Key     Key // last block
	Head    Key // first block
	Parent  Key // the block before this piece; 0 if unknown
	Under   Key // Key of the nearest listed piece that this one continues, at its end, inside or later; 0 if none
	Depth   int // blocks from the first known one up to Key
	Blocks  int // blocks of this piece
	Holders []Holder
}

// Ranking looks for the most shared prefixes in steps, so that a writer can
// work in between. Pieces are ranked by holders times blocks.
type Ranking struct {
	t    *Tree
	n    int
	next uint32
	best []ranked // ascending by score, at most n

	// Of a description in progress.
	listed map[uint32]Key // line -> key of its piece
	at     int            // of best, what is to be described next
	found  []Prefix
	up     Key // where the last of found is climbed from
	climbs int // lines that may be climbed yet
}

type ranked struct {
	score  int
	line   uint32
	head   Key // tells whether line is still the same
	blocks int
}

// Rank begins a search for the n most shared prefixes.
func (t *Tree) Rank(n int) *Ranking { return &Ranking{t: t, n: n, next: 1} }

// Step looks at about maxLines lines of 16 blocks, some 5 ns each, and reports
// whether all have been seen.
func (r *Ranking) Step(maxLines int) (done bool) {
	end := min(r.t.lines.edge, r.next+uint32(max(maxLines, 1)))
	for ; r.next < end; r.next++ {
		w := r.t.lines.hot.at(r.next).w.Load()
		if w == 0 {
			continue
		}
		set, blocks := uint32(w), wCount(w)
		if w&wMixed != 0 {
			rec := r.t.mixed.at(set)
			set = rec[0].Load()
			n := 1
			for n < blocks && rec[n].Load() == set {
				n++
			}
			blocks = n
		}
		r.add(r.next, blocks, r.t.sets.size(set)*blocks)
	}
	return r.next >= r.t.lines.edge
}

func (r *Ranking) add(line uint32, blocks, score int) {
	if score == 0 || r.n <= 0 || len(r.best) == r.n && score <= r.best[0].score {
		return
	}
	at, _ := slices.BinarySearchFunc(r.best, score, func(e ranked, s int) int { return cmp.Compare(e.score, s) })
	r.best = slices.Insert(r.best, at, ranked{score, line, r.t.lines.keys.at(line)[0], blocks})
	if len(r.best) > r.n {
		r.best = r.best[1:]
	}
}

// Describe describes in steps what has been found, best first; what has gone
// since is left out. It climbs about maxLines lines, some 0.5 us each, and
// reports whether it is done and out complete. It climbs at most maxClimb
// lines for each depth.
func (r *Ranking) Describe(maxLines int) (out []Prefix, done bool) {
	if r.listed == nil {
		r.list()
	}
	for left := max(maxLines, 1); ; {
		if r.climbs > 0 {
			if left <= 0 {
				return nil, false
			}
			left--
			r.climb()
			continue
		}
		if r.at == 0 {
			out, r.found, r.listed = r.found, nil, nil
			return out, true
		}
		r.at--
		r.begin(r.best[r.at])
	}
}

// list notes the keys of the pieces that are to be described.
func (r *Ranking) list() {
	r.listed, r.at = make(map[uint32]Key, len(r.best)), len(r.best)
	for _, e := range r.best {
		if r.stands(e) {
			r.listed[e.line] = r.t.lines.keys.at(e.line)[e.blocks-1]
		}
	}
}

// begin describes all of a piece but where it hangs.
func (r *Ranking) begin(e ranked) {
	if _, ok := r.listed[e.line]; !ok || !r.stands(e) {
		return
	}
	w := r.t.lines.hot.at(e.line).w.Load()
	set := uint32(w)
	if w&wMixed != 0 {
		set = r.t.mixed.at(set)[0].Load()
	}
	p := Prefix{
		Key: r.listed[e.line], Head: e.head, Parent: r.t.lines.cold.at(e.line).parent,
		Depth: e.blocks, Blocks: e.blocks, Holders: r.t.sets.list(set),
	}
	r.found = append(r.found, p)
	r.up, r.climbs = p.Parent, maxClimb
}

const maxClimb = 4096

// climb goes one line up from the piece in hand: it counts the known blocks
// there and looks whether the line is listed.
func (r *Ranking) climb() {
	loc := r.t.lookup(r.up, r.t.hash(uint64(r.up)))
	if r.climbs--; r.up == 0 || loc == 0 {
		r.climbs = 0
		return
	}
	p, line := &r.found[len(r.found)-1], loc>>lineShift
	if p.Under == 0 {
		p.Under = r.listed[line]
	}
	p.Depth += int(loc&lineMask) + 1
	r.up = r.t.lines.cold.at(line).parent
}

// stands reports whether the line that was ranked is still the same.
func (r *Ranking) stands(e ranked) bool {
	w := r.t.lines.hot.at(e.line).w.Load()
	return w != 0 && r.t.lines.keys.at(e.line)[0] == e.head && wCount(w) >= e.blocks
}

// Prefixes is Describe in one step.
func (r *Ranking) Prefixes() []Prefix {
	r.listed, r.found, r.climbs = nil, nil, 0
	for {
		if out, done := r.Describe(1 << 20); done {
			return out
		}
	}
}

// Top lists the n most shared prefixes in one step; O(lines).
func (t *Tree) Top(n int) []Prefix {
	r := t.Rank(n)
	for !r.Step(1 << 16) {
	}
	return r.Prefixes()
}

// size counts the holders of a set.
func (s *sets) size(id uint32) int {
	planes, width := s.planes(id)
	n := 0
	for _, w := range planes[2*width:] {
		n += bits.OnesCount64(w)
	}
	return n
}

// list names the holders of a set.
func (s *sets) list(id uint32) []Holder {
	planes, width := s.planes(id)
	var out []Holder
	for i, w := range planes[2*width:] {
		for ; w != 0; w &= w - 1 {
			out = append(out, Holder(i*64+bits.TrailingZeros64(w)))
		}
	}
	return out
}
