package console

import (
	"cmp"
	"slices"
)

// Branch is a stretch of the shared tree, all of whose tokens the same replicas
// hold. Positions are shares of the drawing, 0 to 1.
type Branch struct {
	Key     string   `json:"key"`   // of its last block; "" for a bundle of small ones
	Level   int      `json:"level"` // 1 for those at the root
	Bundled int      `json:"bundled"`
	From    int      `json:"from"` // tokens from the root to its begin
	To      int      `json:"to"`
	Gap     int      `json:"gap"`   // tokens before From that belong to pieces not listed
	Share   float64  `json:"share"` // what its height stands for, with what grows on it
	Holders []string `json:"holders"`
	Model   string   `json:"-"`
	Tenant  string   `json:"-"`
	X       float64  `json:"x"`
	Y       float64  `json:"y"`
	Width   float64  `json:"w"`
	Height  float64  `json:"h"`
}

// smallBranch is the least height that is drawn; of the siblings that would be
// smaller, only those among the first largest few stand by themselves, and only
// where there is room.
const (
	smallBranch = 0.015
	largestFew  = 6
)

// sprout is a Branch while the tree is being put together.
type sprout struct {
	Branch
	parent   string  // key of the block before its first
	hits     float64 // share of prompts that found it cached
	blocks   float64 // blocks times holders, with all that grows on it
	weight   float64 // hits or blocks
	children []*sprout
}

// Forest puts prefixes together to the tree they are pieces of and lays it out
// as an icicle: x is the depth in tokens, height the share of prompts that
// found a piece cached; byHits is false if none did, and height is then the
// share of cached blocks. Pieces that continue one another with the same
// holders become one branch; a piece out of whose midst another one forks
// becomes two. grid is the tokens of a block.
func Forest(prefixes []Prefix, grid int) (branches []Branch, byHits bool) {
	roots := plant(prefixes, max(1, grid))
	for _, s := range roots {
		byHits = byHits || s.hits > 0
	}
	l := layout{branches: []Branch{}, byHits: byHits}
	for _, s := range roots {
		s.weigh(byHits)
		l.total += s.weight
	}
	l.place(roots, 1, 0, 1, l.total)
	deepest := 1
	for i := range l.branches {
		deepest = max(deepest, l.branches[i].To)
	}
	for i := range l.branches {
		b := &l.branches[i]
		b.X, b.Width = float64(b.From)/float64(deepest), float64(b.To-b.From)/float64(deepest)
	}
	return l.branches, byHits
}

// plant links the pieces: to the one they say they are under, else to the one
// that ends with their parent block.
func plant(prefixes []Prefix, grid int) []*sprout {
	byKey := make(map[string]*sprout, len(prefixes))
	order := make([]*sprout, 0, len(prefixes))
	under := make([]string, 0, len(prefixes))
	for _, p := range prefixes {
		if p.Blocks <= 0 || p.Tokens <= 0 || byKey[p.Key] != nil {
			continue
		}
		s := &sprout{blocks: float64(p.Blocks * len(p.Holders)), parent: p.Parent}
		s.Key, s.From, s.To, s.Holders = p.Key, max(0, p.Tokens-p.Blocks*grid), p.Tokens, p.Holders
		s.Model, s.Tenant = p.Model, p.Tenant
		if p.HitShare != nil {
			s.hits = min(1, max(0, *p.HitShare))
		}
		byKey[p.Key] = s
		order, under = append(order, s), append(under, cmp.Or(p.Under, p.Parent))
	}
	var roots []*sprout
	for i, s := range order {
		if above := byKey[under[i]]; above != nil && above.From < s.From { // so there is no cycle
			above.children = append(above.children, s)
		} else {
			roots = append(roots, s)
		}
	}
	for _, s := range roots {
		s.Gap = s.From
		s.grow()
	}
	return roots
}

// grow cuts a piece where another one forks out of it, joins continuations, and
// sums up from the leaves. Each child begins later than its parent does, so
// this ends.
func (s *sprout) grow() {
	s.fork()
	for len(s.children) == 1 && s.children[0].From == s.To && slices.Equal(s.Holders, s.children[0].Holders) {
		c := s.children[0]
		c.fork()
		s.Key, s.To, s.children = c.Key, c.To, c.children
		s.blocks += c.blocks
	}
	along := 0.0
	for _, c := range s.children {
		c.Gap = c.From - s.To
		c.grow()
		s.blocks += c.blocks
		along += c.hits
	}
	s.hits = max(s.hits, min(1, along)) // who found a child found its parent
}

// fork cuts s where the first child begins, if that is inside of s; what is
// left of s, with the other children, becomes a child.
func (s *sprout) fork() {
	if len(s.children) == 0 {
		return
	}
	first := slices.MinFunc(s.children, func(a, b *sprout) int { return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.Key, b.Key)) })
	if first.From >= s.To {
		return
	}
	rest := &sprout{Branch: s.Branch, hits: s.hits} // at most: some took the fork
	rest.From, rest.blocks = first.From, s.blocks*float64(s.To-first.From)/float64(s.To-s.From)
	kept := []*sprout{rest}
	for _, c := range s.children {
		if c.From == first.From {
			kept = append(kept, c)
			rest.hits = max(0, rest.hits-c.hits)
		} else {
			rest.children = append(rest.children, c)
		}
	}
	s.Key, s.To, s.blocks, s.children = cmp.Or(first.parent, s.Key), first.From, s.blocks-rest.blocks, kept
}

func (s *sprout) weigh(byHits bool) {
	s.weight = s.blocks
	if byHits {
		s.weight = s.hits
	}
	for _, c := range s.children {
		c.weigh(byHits)
	}
}

// pieces counts s and all that grows on it.
func (s *sprout) pieces() int {
	n := 1
	for _, c := range s.children {
		n += c.pieces()
	}
	return n
}

// layout collects branches in pre-order.
type layout struct {
	branches []Branch
	byHits   bool
	total    float64
}

// place lays out siblings, largest first, between y and y+height, and what
// grows on them. unit is the weight that has all of the height: that of the
// parent by hits, so that what stays free are prompts that went no further.
func (l *layout) place(siblings []*sprout, level int, y, height, unit float64) {
	slices.SortStableFunc(siblings, func(a, b *sprout) int {
		return cmp.Or(cmp.Compare(b.weight, a.weight), cmp.Compare(b.blocks, a.blocks), cmp.Compare(a.Key, b.Key))
	})
	sum := 0.0
	for _, s := range siblings {
		sum += s.weight
	}
	if unit = max(unit, sum); !l.byHits {
		unit = sum
	}
	end := y + height
	if len(siblings) > 0 && height*siblings[len(siblings)-1].weight < smallBranch*unit {
		height -= min(smallBranch, height/4) // room for the small ones
	}
	for i, s := range siblings {
		part := 0.0
		if unit > 0 {
			part = height * s.weight / unit
		}
		few := i < largestFew && height > 3*largestFew*smallBranch
		if part < smallBranch && !few && i < len(siblings)-1 {
			l.branches = append(l.branches, l.bundle(siblings[i:], level, y, end, height/max(unit, 1e-9)))
			return
		}
		b := s.Branch
		b.Level, b.Y, b.Height = level, y, min(max(part, smallBranch), max(0, end-y))
		if b.Height < 1e-6 {
			return
		}
		b.Share = l.share(s.weight)
		l.branches = append(l.branches, b)
		l.place(s.children, level+1, y, b.Height, s.weight)
		y += b.Height
	}
}

// share is what a weight is called in words.
func (l *layout) share(weight float64) float64 {
	if l.byHits {
		return min(weight, 1) // some prompts found several of a bundle's pieces
	}
	return weight / max(l.total, 1)
}

// bundle draws the small rest of siblings as one.
func (l *layout) bundle(rest []*sprout, level int, y, end, scale float64) Branch {
	b := Branch{Level: level, Y: y, From: rest[0].From, To: rest[0].To, Holders: []string{}}
	weight := 0.0
	for _, s := range rest {
		weight += s.weight
		b.From, b.To = min(b.From, s.From), max(b.To, s.To)
		b.Bundled += s.pieces()
	}
	b.Share, b.Height = l.share(weight), min(max(scale*weight, smallBranch), max(0, end-y))
	return b
}
