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
	Share   float64  `json:"share"` // of all cached blocks drawn, copies counted, with what grows on it
	Holders []string `json:"holders"`
	X       float64  `json:"x"`
	Y       float64  `json:"y"`
	Width   float64  `json:"w"`
	Height  float64  `json:"h"`
}

// smallBranch is the least height that is drawn by itself.
const smallBranch = 0.015

// sprout is a Branch while the tree is being put together.
type sprout struct {
	Branch
	weight   int // blocks times holders, with all that grows on it
	children []*sprout
}

// Forest puts prefixes together to the tree they are pieces of and lays it out
// as an icicle: x is the depth in tokens, height the share among siblings.
// Pieces that continue one another with the same holders become one branch.
// Pieces that begin deeper and whose parent is not listed cannot be placed:
// they are counted as loose, unless there is nothing else to draw.
// grid is the tokens of a block.
func Forest(prefixes []Prefix, grid int) (branches []Branch, loose int) {
	roots, loose := rooted(plant(prefixes, grid))
	deepest, total := 1, 0
	for _, s := range roots {
		total += s.weight
		s.each(func(s *sprout) { deepest = max(deepest, s.To) })
	}
	branches = []Branch{}
	layOut(&branches, roots, 1, 0, 1, float64(deepest), float64(max(total, 1)))
	return branches, loose
}

// rooted keeps the trees that begin at the root and counts the pieces of the
// others.
func rooted(all []*sprout) (roots []*sprout, loose int) {
	for _, s := range all {
		if s.From == 0 {
			roots = append(roots, s)
			continue
		}
		s.each(func(*sprout) { loose++ })
	}
	if len(roots) == 0 {
		return all, 0
	}
	return roots, loose
}

// plant links the pieces and joins those that continue one another.
func plant(prefixes []Prefix, grid int) []*sprout {
	byKey := make(map[string]*sprout, len(prefixes))
	order := make([]*sprout, 0, len(prefixes))
	parents := make([]string, 0, len(prefixes))
	for _, p := range prefixes {
		if p.Blocks <= 0 || p.Tokens <= 0 || byKey[p.Key] != nil {
			continue
		}
		s := &sprout{weight: p.Blocks * len(p.Holders)}
		s.Key, s.From, s.To, s.Holders = p.Key, max(0, p.Tokens-p.Blocks*grid), p.Tokens, p.Holders
		byKey[p.Key] = s
		order, parents = append(order, s), append(parents, p.Parent)
	}
	var roots []*sprout
	for i, s := range order {
		if parent := byKey[parents[i]]; parent != nil && parent.To <= s.From {
			parent.children = append(parent.children, s)
		} else {
			roots = append(roots, s)
		}
	}
	for _, s := range roots {
		s.grow()
	}
	return roots
}

// grow sums the weights up from the leaves and joins continuations. A child
// begins where its parent ends or later, so this ends.
func (s *sprout) grow() {
	for len(s.children) == 1 && slices.Equal(s.Holders, s.children[0].Holders) && s.children[0].From == s.To {
		c := s.children[0]
		s.Key, s.To, s.children = c.Key, c.To, c.children
		s.weight += c.weight
	}
	for _, c := range s.children {
		c.grow()
		s.weight += c.weight
	}
}

func (s *sprout) each(f func(*sprout)) {
	f(s)
	for _, c := range s.children {
		c.each(f)
	}
}

// layOut appends siblings, largest first, and what grows on them in pre-order.
func layOut(out *[]Branch, siblings []*sprout, level int, y, height, deepest, total float64) {
	slices.SortStableFunc(siblings, func(a, b *sprout) int {
		return cmp.Or(cmp.Compare(b.weight, a.weight), cmp.Compare(a.Key, b.Key))
	})
	sum := 0
	for _, s := range siblings {
		sum += s.weight
	}
	for i, s := range siblings {
		part := height * float64(s.weight) / float64(max(sum, 1))
		if part < smallBranch && i < len(siblings)-1 {
			*out = append(*out, bundle(siblings[i:], level, y, deepest, total, sum, height))
			return
		}
		b := s.Branch
		b.Level, b.Share, b.Y, b.Height = level, float64(s.weight)/total, y, part
		b.X, b.Width = float64(b.From)/deepest, float64(b.To-b.From)/deepest
		*out = append(*out, b)
		layOut(out, s.children, level+1, y, part, deepest, total)
		y += part
	}
}

// bundle draws the small rest of siblings as one.
func bundle(rest []*sprout, level int, y, deepest, total float64, sum int, height float64) Branch {
	b := Branch{Level: level, Y: y, From: rest[0].From, To: rest[0].To, Holders: []string{}}
	weight := 0
	for _, s := range rest {
		weight += s.weight
		b.From = min(b.From, s.From)
		b.To = max(b.To, s.To)
		s.each(func(*sprout) { b.Bundled++ })
	}
	b.Share, b.Height = float64(weight)/total, height*float64(weight)/float64(max(sum, 1))
	b.X, b.Width = float64(b.From)/deepest, float64(b.To-b.From)/deepest
	return b
}
