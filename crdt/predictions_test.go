package crdt_test

import (
	"cmp"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/banyan-llm/banyan/crdt"
)

// touchModel is one key's last touch in the dumb twin.
type touchModel struct {
	t, ttl int64
	absent bool
}

func (a touchModel) compare(b touchModel) int {
	flag := func(b bool) int {
		if b {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(a.t, b.t), cmp.Compare(flag(a.absent), flag(b.absent)), cmp.Compare(a.ttl, b.ttl))
}

// predictionsModel is the lattice in the dumbest way.
type predictionsModel struct {
	k   int
	set map[crdt.PredictionSpace]map[uint64]touchModel
}

func (m *predictionsModel) join(p crdt.Prediction, now int64) {
	if p.Time > now+2000 || p.TTL <= 0 || m.gone(touchModel{p.Time, p.TTL, p.Absent}, now) {
		return
	}
	s := m.set[p.Space]
	if s == nil {
		s = map[uint64]touchModel{}
		m.set[p.Space] = s
	}
	for _, key := range p.Keys {
		x := touchModel{p.Time, p.TTL, p.Absent}
		if old, ok := s[key]; !ok || old.compare(x) < 0 {
			s[key] = x
		}
	}
	keys := slices.Collect(maps.Keys(s))
	slices.SortFunc(keys, func(a, b uint64) int { return cmp.Or(s[b].compare(s[a]), cmp.Compare(b, a)) })
	for len(keys) > m.k {
		delete(s, keys[len(keys)-1])
		keys = keys[:len(keys)-1]
	}
}

// gone says when a touch is forgotten: two bucket edges after it is over.
func (m *predictionsModel) gone(x touchModel, now int64) bool {
	return now >= ((x.t+x.ttl)/16_000+2)*16_000
}

func (m *predictionsModel) expire(now int64) {
	for id, s := range m.set {
		maps.DeleteFunc(s, func(_ uint64, x touchModel) bool { return m.gone(x, now) })
		if len(s) == 0 {
			delete(m.set, id)
		}
	}
}

func (m *predictionsModel) visible(now int64) map[crdt.PredictionSpace]map[uint64]bool {
	out := map[crdt.PredictionSpace]map[uint64]bool{}
	for id, s := range m.set {
		for key, x := range s {
			if !x.absent && now-x.t < x.ttl {
				if out[id] == nil {
					out[id] = map[uint64]bool{}
				}
				out[id][key] = true
			}
		}
	}
	return out
}

// mirror is what a tree that listens would show.
type mirror struct {
	t   rapid.TB
	set map[crdt.PredictionSpace]map[uint64]bool
}

func (m *mirror) Show(id crdt.PredictionSpace, parent uint64, keys []uint64, _ int64) {
	for _, key := range keys {
		if key != parent+1 {
			m.t.Fatalf("run broken: %d after %d", key, parent)
		}
		parent = key
		if m.set[id] == nil {
			m.set[id] = map[uint64]bool{}
		}
		if m.set[id][key] {
			m.t.Fatalf("key %d shown twice", key)
		}
		m.set[id][key] = true
	}
}

func (m *mirror) Hide(id crdt.PredictionSpace, keys []uint64) {
	for _, key := range keys {
		if !m.set[id][key] {
			m.t.Fatalf("key %d hidden twice", key)
		}
		if delete(m.set[id], key); len(m.set[id]) == 0 {
			delete(m.set, id)
		}
	}
}

func drawPrediction(t *rapid.T, now int64) crdt.Prediction {
	p := crdt.Prediction{
		Space:  crdt.PredictionSpace{Replica: "r", Root: rapid.Uint64Range(1, 2).Draw(t, "root")},
		Time:   max(0, now+rapid.Int64Range(-40_000, 2_500).Draw(t, "time")),
		TTL:    rapid.SampledFrom([]int64{5_000, 5_000, 60_000}).Draw(t, "ttl"),
		Absent: rapid.IntRange(0, 3).Draw(t, "absent") == 0,
		Parent: rapid.Uint64Range(0, 12).Draw(t, "parent"),
	}
	if rapid.Bool().Draw(t, "round") { // touches of one time are told apart by the rest
		p.Time -= p.Time % 8_000
	}
	for i := range rapid.Uint64Range(1, 8).Draw(t, "n") { // key n+1 follows key n
		p.Keys = append(p.Keys, p.Parent+1+i)
	}
	return p
}

// TestPredictionsModel holds the lattice, its sums, its visible keys and what
// it tells a mirror against the dumb twin.
func TestPredictionsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := rapid.IntRange(1, 14).Draw(t, "k")
		mir := &mirror{t, map[crdt.PredictionSpace]map[uint64]bool{}}
		p := crdt.NewPredictions(crdt.PredictionsConfig{Keys: k, Sink: mir})
		m := &predictionsModel{k, map[crdt.PredictionSpace]map[uint64]touchModel{}}
		now := int64(1_000_000)
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			now += rapid.Int64Range(0, 9_000).Draw(t, "wait")
			p.Expire(now)
			m.expire(now)
			in := drawPrediction(t, now)
			rejected := p.Join([]crdt.Prediction{in}, now)
			if (rejected == 1) != (in.Time > now+2000) {
				t.Fatalf("time %d at %d: rejected %d", in.Time, now, rejected)
			}
			m.join(in, now)
			comparePredictions(t, p, m, mir, now)
		}
	})
}

func comparePredictions(t *rapid.T, p *crdt.Predictions, m *predictionsModel, mir *mirror, now int64) {
	want := m.visible(now)
	if !maps.EqualFunc(want, mir.set, maps.Equal[map[uint64]bool, map[uint64]bool]) {
		t.Fatalf("mirror shows %v, want %v", mir.set, want)
	}
	n := 0
	got := map[crdt.PredictionSpace]map[uint64]touchModel{}
	for _, sum := range p.Sums(now) {
		count := uint32(0)
		var steps []crdt.Prediction
		for cursor, first := uint64(0), true; first || cursor != 0; first = false {
			steps, cursor = p.AppendOf(steps, sum.Space, sum.Bucket, cursor, 3)
		}
		if got, want := keysOf(steps), keysOf(p.Of(sum.Space, sum.Bucket)); !slices.Equal(got, want) {
			t.Fatalf("in steps %v, at once %v", got, want)
		}
		for _, run := range p.Of(sum.Space, sum.Bucket) {
			for _, key := range run.Keys {
				if got[run.Space] == nil {
					got[run.Space] = map[uint64]touchModel{}
				}
				got[run.Space][key] = touchModel{run.Time, run.TTL, run.Absent}
				count++
				n++
			}
		}
		if count != sum.Count {
			t.Fatalf("bucket of %d keys counts %d", count, sum.Count)
		}
	}
	if !maps.EqualFunc(got, m.set, maps.Equal[map[uint64]touchModel, map[uint64]touchModel]) {
		t.Fatalf("touches %v, want %v", got, m.set)
	}
	if keys, spaces := p.Len(); keys != n || spaces != len(m.set) {
		t.Fatalf("Len says %d in %d, want %d in %d", keys, spaces, n, len(m.set))
	}
	for id, s := range m.set {
		for key := range s {
			if p.Visible(id, key, now) != want[id][key] {
				t.Fatalf("visible(%d) is wrong", key)
			}
		}
	}
}

// TestPredictionsLaws joins in any order, split and repetition: one state.
func TestPredictionsLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const now = 1_000_000
		k := rapid.IntRange(1, 20).Draw(t, "k")
		var list []crdt.Prediction
		for range rapid.IntRange(1, 12).Draw(t, "n") {
			list = append(list, drawPrediction(t, now))
		}
		a := crdt.NewPredictions(crdt.PredictionsConfig{Keys: k})
		b := crdt.NewPredictions(crdt.PredictionsConfig{Keys: k})
		a.Join(list, now)
		for range 2 {
			for _, p := range rapid.Permutation(list).Draw(t, "order") {
				b.Join([]crdt.Prediction{p}, now)
			}
		}
		if !slices.Equal(a.Sums(now), b.Sums(now)) {
			t.Fatalf("sums %v and %v", a.Sums(now), b.Sums(now))
		}
		c := crdt.NewPredictions(crdt.PredictionsConfig{Keys: k}) // anti-entropy from scratch
		for _, sum := range a.Sums(now) {
			c.Join(a.Of(sum.Space, sum.Bucket), now)
		}
		if !slices.Equal(a.Sums(now), c.Sums(now)) {
			t.Fatalf("anti-entropy gave %v, want %v", c.Sums(now), a.Sums(now))
		}
	})
}

// TestPredictionsBounded holds K, the number of spaces and odd input.
func TestPredictionsBounded(t *testing.T) {
	p := crdt.NewPredictions(crdt.PredictionsConfig{Keys: 100, Spaces: 2})
	for i := range uint64(50) {
		in := crdt.Prediction{Space: crdt.PredictionSpace{Root: i}, Time: 1, TTL: 9_000, Keys: []uint64{1, 1, 2, 1}}
		if got := p.Join([]crdt.Prediction{in}, 1); (got == 0) != (i < 2) {
			t.Fatalf("space %d: rejected %d", i, got)
		}
	}
	for i := range uint64(50) {
		p.Join([]crdt.Prediction{{Space: crdt.PredictionSpace{Root: 1}, Time: int64(i), TTL: 9_000, Keys: []uint64{i, i + 1000, i + 2000, i, 7}}}, 50)
	}
	if keys, spaces := p.Len(); keys > 102 || spaces != 2 {
		t.Fatalf("%d keys in %d spaces", keys, spaces)
	}
	for _, in := range []crdt.Prediction{
		{Time: 1, TTL: 0, Keys: []uint64{1}}, {Time: 1, TTL: crdt.PredictionMaxTTL + 1, Keys: []uint64{1}}, {Time: -1, TTL: 5, Keys: []uint64{1}},
	} {
		if p.Join([]crdt.Prediction{in}, 1) != 1 {
			t.Errorf("taken: %+v", in)
		}
	}
	p.Expire(1 << 40)
	if keys, spaces := p.Len(); keys != 0 || spaces != 0 || p.Expire(1<<40) != 0 {
		t.Fatalf("%d keys in %d spaces never expire", keys, spaces)
	}
}

// keysOf lists the keys of runs, sorted.
func keysOf(runs []crdt.Prediction) (keys []uint64) {
	for _, run := range runs {
		keys = append(keys, run.Keys...)
	}
	slices.Sort(keys)
	return keys
}

// TestAShrunkGroupHangsBelowItsOwnKeys: a group that gave its first keys up tells
// the rest below the key before them, also when that key is another group's.
func TestAShrunkGroupHangsBelowItsOwnKeys(t *testing.T) {
	p := crdt.NewPredictions(crdt.PredictionsConfig{})
	space := crdt.PredictionSpace{Replica: streamID, Root: 1}
	keys := make([]uint64, 20)
	for i := range keys {
		keys[i] = uint64(100 + i)
	}
	join := func(at int64, parent uint64, keys []uint64) {
		if n := p.Join([]crdt.Prediction{{Space: space, Time: at, TTL: 60_000, Parent: parent, Keys: keys}}, 1000); n != 0 {
			t.Fatal("rejected")
		}
	}
	join(1000, 7, keys)
	join(1001, 7, keys[:10])
	join(1001, keys[18], keys[19:])
	for _, run := range p.Of(space, 0) {
		if want := map[uint64]uint64{keys[0]: 7, keys[10]: keys[9], keys[19]: keys[18]}[run.Keys[0]]; run.Parent != want {
			t.Errorf("the run from %d hangs below %d, want %d", run.Keys[0], run.Parent, want)
		}
	}
}
