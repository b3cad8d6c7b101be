package crdt

import (
	"cmp"
	"slices"
)

// Constants of the predictions. All peers of a mesh must share them.
const (
	PredictionKeys     = 1 << 16        // K: keys of one (namespace, replica)
	PredictionSpaces   = 1 << 14        // (namespace, replica) pairs
	PredictionAheadMs  = 2_000          // a time further ahead is rejected, never clamped
	PredictionBucketMs = 16_000         // of anti-entropy sums
	PredictionMaxTTL   = 60 * 60 * 1000 // ms
)

// PredictionSink hears which keys become visible and invisible, so that a tree
// can mirror them. Calls happen inside Join, Expire and Drop.
type PredictionSink interface {
	// Show tells a run of consecutive keys of one chain; parent is the key
	// before it (0 unknown). keys is valid during the call.
	Show(space PredictionSpace, parent uint64, keys []uint64, timeMs int64)
	// Hide tells keys in no order. keys is valid during the call.
	Hide(space PredictionSpace, keys []uint64)
}

// PredictionsConfig is what Predictions need; zero numbers take the defaults.
type PredictionsConfig struct {
	Keys   int            // K, the same on every peer
	Spaces int            // bound on spaces
	Sink   PredictionSink // nil: nobody listens
}

// Predictions is the lattice of predicted blocks: per space and key the last
// touch, ordered by (time, absent, TTL), joined by pointwise maximum and cut to
// the K largest; absents take slots of K like any other. Not safe for
// concurrent use.
//
// Touches are kept in groups, one per joined run: a group's keys share their
// touch, so ordering costs per run and not per key.
type Predictions struct {
	cfg    PredictionsConfig
	spaces map[PredictionSpace]*space
	order  []*space  // the same, sorted: the sums are told in this order
	due    groupHeap // all groups, by due

	hide, show, victims []uint64 // scratch
}

// space is the set of one (namespace, replica).
type space struct {
	id   PredictionSpace
	of   map[uint64]*group // key -> the group of its last touch
	rank groupHeap         // by touch: what K cuts first
	sums map[int64]*bucketSum
	told []PredictionSum // sums in order; nil once one of them changed
}

type bucketSum struct {
	bucket int64
	xor    uint64
	count  uint32
}

// NewPredictions makes an empty lattice.
func NewPredictions(cfg PredictionsConfig) *Predictions {
	if cfg.Keys <= 0 {
		cfg.Keys = PredictionKeys
	}
	if cfg.Spaces <= 0 {
		cfg.Spaces = PredictionSpaces
	}
	return &Predictions{
		cfg: cfg, spaces: make(map[PredictionSpace]*space),
		due: groupHeap{less: func(a, b *group) bool { return a.due < b.due }, at: func(g *group) *int { return &g.dueAt }},
	}
}

// Join joins predictions, own or another peer's. rejected counts those whose
// time lies more than 2 s ahead or whose TTL or space is out of bounds; one
// that is over already changes nothing. Cost: about 0.1 us a key.
func (p *Predictions) Join(list []Prediction, nowMs int64) (rejected int) {
	for i := range list {
		if !p.join(&list[i], nowMs) {
			rejected++
		}
	}
	return rejected
}

func (p *Predictions) join(in *Prediction, nowMs int64) bool {
	if in.Time > nowMs+PredictionAheadMs || in.Time < 0 || in.TTL <= 0 || in.TTL > PredictionMaxTTL {
		return false
	}
	t := touch{in.Time, in.Absent, in.TTL}
	if len(in.Keys) == 0 || t.dropAt() <= nowMs {
		return true
	}
	s := p.spaces[in.Space]
	if s == nil {
		if len(p.spaces) >= p.cfg.Spaces {
			return false
		}
		s = newSpace(in.Space)
		p.spaces[in.Space] = s
		p.order = slices.Insert(p.order, p.place(s), s)
	}
	p.take(s, in, t, nowMs)
	p.trim(s)
	return true
}

func newSpace(id PredictionSpace) *space {
	return &space{
		id: id, of: make(map[uint64]*group), sums: make(map[int64]*bucketSum),
		rank: groupHeap{less: func(a, b *group) bool { return a.touch.less(b.touch) }, at: func(g *group) *int { return &g.rankAt }},
	}
}

// take makes a group of the keys that this touch is the last of.
func (p *Predictions) take(s *space, in *Prediction, t touch, nowMs int64) {
	g := &group{touch: t, space: s, shown: !t.absent && nowMs < t.over()}
	first, last, repeated := -1, -1, false
	p.hide, p.show = p.hide[:0], p.show[:0]
	showFrom := 0 // index in in.Keys of the run being shown
	for i, key := range in.Keys {
		old := s.of[key]
		if old != nil && !old.touch.less(t) {
			repeated = repeated || old == g
			continue
		}
		was := old != nil && old.shown
		if old != nil {
			p.leave(s, old, key)
		}
		s.of[key] = g
		s.count(g, key, 1)
		g.live++
		if first < 0 {
			first = i
		}
		last = i
		switch {
		case g.shown && !was:
			if len(p.show) > 0 && showFrom+len(p.show) != i {
				p.flushShow(s, in, showFrom, t.at)
			}
			if len(p.show) == 0 {
				showFrom = i
			}
			p.show = append(p.show, key)
		case was && !g.shown:
			p.hide = append(p.hide, key)
		}
	}
	if g.live == 0 {
		return
	}
	g.keys = slices.Clone(in.Keys[first : last+1])
	if repeated {
		g.keys = unique(g.keys)
	}
	g.parent = in.keyBefore(first)
	g.shrinkAt = len(g.keys) / 2
	g.due = t.dropAt()
	if g.shown {
		g.due = t.over()
	}
	s.rank.push(g)
	p.due.push(g)
	p.flushShow(s, in, showFrom, t.at)
	p.flushHide(s)
}

// unique drops later repetitions, which no chain has.
func unique(keys []uint64) []uint64 {
	seen := make(map[uint64]bool, len(keys))
	return slices.DeleteFunc(keys, func(k uint64) bool {
		was := seen[k]
		seen[k] = true
		return was
	})
}

func (in *Prediction) keyBefore(i int) uint64 {
	if i == 0 {
		return in.Parent
	}
	return in.Keys[i-1]
}

func (p *Predictions) flushShow(s *space, in *Prediction, from int, at int64) {
	if len(p.show) > 0 && p.cfg.Sink != nil {
		p.cfg.Sink.Show(s.id, in.keyBefore(from), p.show, at)
	}
	p.show = p.show[:0]
}

func (p *Predictions) flushHide(s *space) {
	if len(p.hide) > 0 && p.cfg.Sink != nil {
		p.cfg.Sink.Hide(s.id, p.hide)
	}
	p.hide = p.hide[:0]
}

// leave takes a key out of its group.
func (p *Predictions) leave(s *space, g *group, key uint64) {
	s.count(g, key, ^uint32(0))
	if g.live--; g.live == 0 {
		s.rank.remove(g)
		p.due.remove(g)
		g.keys = nil
	} else if g.live < g.shrinkAt {
		g.shrink()
	}
}

// count adds (by 1) or takes away (by -1) a key of g in its bucket's sum.
func (s *space) count(g *group, key uint64, by uint32) {
	s.told = nil
	if g.sum == nil {
		g.sum = s.sumOf(bucketOf(g.touch.at))
	}
	g.sum.xor ^= g.touch.hash(key)
	if g.sum.count += by; g.sum.count == 0 {
		delete(s.sums, g.sum.bucket)
	}
}

func (s *space) sumOf(bucket int64) *bucketSum {
	e := s.sums[bucket]
	if e == nil {
		e = &bucketSum{bucket: bucket}
		s.sums[bucket] = e
	}
	return e
}

// trim cuts a space to its K largest touches; of equal touches the smallest
// keys go.
func (p *Predictions) trim(s *space) {
	for over := len(s.of) - p.cfg.Keys; over > 0; over = len(s.of) - p.cfg.Keys {
		least := s.rank.list[0].touch
		p.victims = p.victims[:0]
		var groups []*group
		for len(s.rank.list) > 0 && s.rank.list[0].touch == least {
			g := s.rank.list[0]
			s.rank.remove(g)
			groups = append(groups, g)
			for _, key := range g.keys {
				if s.of[key] == g {
					p.victims = append(p.victims, key)
				}
			}
		}
		for _, g := range groups {
			s.rank.push(g)
		}
		slices.Sort(p.victims)
		p.victims = slices.Compact(p.victims)
		p.hide = p.hide[:0]
		for _, key := range p.victims[:min(over, len(p.victims))] {
			p.forget(s, key)
		}
		p.flushHide(s)
	}
}

// forget drops a key.
func (p *Predictions) forget(s *space, key uint64) {
	g := s.of[key]
	delete(s.of, key)
	if g.shown {
		p.hide = append(p.hide, key)
	}
	p.leave(s, g, key)
}

// Expire hides what is older than its TTL and, a bucket later, forgets it. It
// returns the time at which it should be called again; 0 if nothing is left.
func (p *Predictions) Expire(nowMs int64) (next int64) {
	for len(p.due.list) > 0 && p.due.list[0].due <= nowMs {
		g := p.due.list[0]
		s := g.space
		p.hide = p.hide[:0]
		if g.shown {
			g.eachLive(func(_ int, key uint64) { p.hide = append(p.hide, key) })
			p.flushHide(s)
			g.shown = false
			p.due.remove(g)
			g.due = g.touch.dropAt()
			p.due.push(g)
			continue
		}
		p.victims = p.victims[:0]
		g.eachLive(func(_ int, key uint64) { p.victims = append(p.victims, key) })
		for _, key := range p.victims {
			p.forget(s, key)
		}
		if len(s.of) == 0 {
			p.remove(s)
		}
	}
	if len(p.due.list) == 0 {
		return 0
	}
	return p.due.list[0].due
}

// DropLargest forgets the space that holds most touches; false if there is none.
// O(spaces).
func (p *Predictions) DropLargest() bool {
	var most *space
	for _, s := range p.spaces {
		if most == nil || len(s.of) > len(most.of) || len(s.of) == len(most.of) && compareSpaces(s.id, most.id) < 0 {
			most = s
		}
	}
	if most != nil {
		p.dropSpace(most)
	}
	return most != nil
}

func (p *Predictions) dropSpace(s *space) {
	p.remove(s)
	p.hide = p.hide[:0]
	for _, g := range s.rank.list {
		p.due.remove(g)
		if g.shown {
			g.eachLive(func(_ int, key uint64) { p.hide = append(p.hide, key) })
		}
	}
	p.flushHide(s)
}

// place is where in order a space is, or would be.
func (p *Predictions) place(s *space) int {
	i, _ := slices.BinarySearchFunc(p.order, s, func(a, b *space) int { return compareSpaces(a.id, b.id) })
	return i
}

// remove takes a space out.
func (p *Predictions) remove(s *space) {
	delete(p.spaces, s.id)
	i := p.place(s)
	p.order = slices.Delete(p.order, i, i+1)
}

// Sums returns one XOR per space and bucket of time, sorted, after expiring.
// Two peers with equal touches have equal sums. O(sums), of which those of spaces
// that did not change since the last call are copied: the spaces lie in order.
func (p *Predictions) Sums(nowMs int64) []PredictionSum {
	p.Expire(nowMs)
	n := 0
	for _, s := range p.order {
		n += len(s.sums)
	}
	out := make([]PredictionSum, 0, n)
	for _, s := range p.order {
		out = append(out, s.tell()...)
	}
	return out
}

// tell is the space's sums, by bucket; the slice stays the space's.
func (s *space) tell() []PredictionSum {
	if s.told == nil {
		for b, e := range s.sums {
			s.told = append(s.told, PredictionSum{Space: s.id, Bucket: b, XOR: e.xor, Count: e.count})
		}
		slices.SortFunc(s.told, func(a, b PredictionSum) int { return cmp.Compare(a.Bucket, b.Bucket) })
	}
	return s.told
}

// AppendOf appends the touches of one space and bucket as runs, unsorted and in
// steps: it looks at about max groups and keys, from cursor on, 0 being the
// beginning; next is 0 when all are done. What
// changes between the steps may be told twice or not at all.
func (p *Predictions) AppendOf(dst []Prediction, id PredictionSpace, bucket int64, cursor uint64, max int) (out []Prediction, next uint64) {
	s := p.spaces[id]
	if s == nil {
		return dst, 0
	}
	at, from := int(cursor>>32), int(uint32(cursor))
	for ; at < len(s.rank.list); at, from = at+1, 0 {
		if max <= 0 {
			return dst, uint64(at)<<32 | uint64(from)
		}
		max--
		g := s.rank.list[at]
		if bucketOf(g.touch.at) != bucket || from >= len(g.keys) {
			continue
		}
		to := min(len(g.keys), from+max+1)
		dst = g.appendRuns(dst, from, to)
		max -= to - from
		if to < len(g.keys) {
			return dst, uint64(at)<<32 | uint64(to)
		}
	}
	return dst, 0
}

// SortPredictions orders the touches of one space.
func SortPredictions(list []Prediction) {
	slices.SortFunc(list, func(a, b Prediction) int {
		ta, tb := touch{a.Time, a.Absent, a.TTL}, touch{b.Time, b.Absent, b.TTL}
		switch {
		case ta.less(tb):
			return -1
		case tb.less(ta):
			return 1
		}
		return cmp.Compare(a.Keys[0], b.Keys[0])
	})
}
