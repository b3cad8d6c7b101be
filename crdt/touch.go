package crdt

// touch is the value of one predicted key.
type touch struct {
	at     int64 // ms, writer's clock
	absent bool
	ttl    int64 // ms
}

// less orders touches by time, then absent, then TTL.
func (t touch) less(o touch) bool {
	switch {
	case t.at != o.at:
		return t.at < o.at
	case t.absent != o.absent:
		return o.absent
	}
	return t.ttl < o.ttl
}

// over is when the touch stops being visible.
func (t touch) over() int64 { return t.at + t.ttl }

// dropAt is when it is forgotten: one or two buckets later, at a bucket's
// edge, so that peers with slightly different clocks have equal sums nearly
// always.
func (t touch) dropAt() int64 { return (bucketOf(t.over()) + 2) * PredictionBucketMs }

func (t touch) hash(key uint64) uint64 {
	rest := uint64(t.ttl) << 1
	if t.absent {
		rest |= 1
	}
	return FactHash(key, uint64(t.at), Meta(rest))
}

func bucketOf(ms int64) int64 { return ms / PredictionBucketMs }

// group is one joined run. A key belongs to it while space.of says so.
type group struct {
	touch    touch
	space    *space
	parent   uint64 // key before keys[0]
	keys     []uint64
	live     int // keys that belong to it
	shrinkAt int
	shown    bool
	due      int64 // when Expire looks at it
	sum      *bucketSum

	rankAt, dueAt int // index in the heaps
}

// eachLive calls fn for every key that belongs to the group.
func (g *group) eachLive(fn func(i int, key uint64)) {
	for i, key := range g.keys {
		if g.space.of[key] == g {
			fn(i, key)
		}
	}
}

// shrink gives the memory of dead keys at both ends back.
func (g *group) shrink() {
	first, last := len(g.keys), 0
	g.eachLive(func(i int, _ uint64) { first, last = min(first, i), max(last, i) })
	g.shrinkAt = g.live / 2
	if first > last || last-first+1 > len(g.keys)/2 {
		return
	}
	if first > 0 {
		g.parent = g.keys[first-1]
	}
	g.keys = append([]uint64(nil), g.keys[first:last+1]...)
}

// appendRuns appends the live keys from one place to another as runs of
// consecutive ones.
func (g *group) appendRuns(out []Prediction, from, to int) []Prediction {
	end := -2
	for i := from; i < to; i++ {
		key := g.keys[i]
		if g.space.of[key] != g {
			continue
		}
		if i != end+1 {
			parent := g.parent
			if i > 0 {
				parent = g.keys[i-1]
			}
			out = append(out, Prediction{
				Space: g.space.id, Time: g.touch.at, TTL: g.touch.ttl, Absent: g.touch.absent, Parent: parent,
			})
		}
		end = i
		run := &out[len(out)-1]
		run.Keys = append(run.Keys, key)
	}
	return out
}

// groupHeap is a binary heap of groups that know their places.
type groupHeap struct {
	list []*group
	less func(a, b *group) bool
	at   func(*group) *int
}

func (h *groupHeap) push(g *group) {
	*h.at(g) = len(h.list)
	h.list = append(h.list, g)
	h.up(len(h.list) - 1)
}

// remove takes a group out, wherever it is. O(log groups).
func (h *groupHeap) remove(g *group) {
	i, last := *h.at(g), len(h.list)-1
	h.swap(i, last)
	h.list[last] = nil
	h.list = h.list[:last]
	if i < last {
		h.up(i)
		h.down(i)
	}
}

func (h *groupHeap) swap(i, j int) {
	h.list[i], h.list[j] = h.list[j], h.list[i]
	*h.at(h.list[i]), *h.at(h.list[j]) = i, j
}

func (h *groupHeap) up(i int) {
	for i > 0 && h.less(h.list[i], h.list[(i-1)/2]) {
		h.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
}

func (h *groupHeap) down(i int) {
	for {
		c := 2*i + 1
		if c >= len(h.list) {
			return
		}
		if c+1 < len(h.list) && h.less(h.list[c+1], h.list[c]) {
			c++
		}
		if !h.less(h.list[c], h.list[i]) {
			return
		}
		h.swap(i, c)
		i = c
	}
}
