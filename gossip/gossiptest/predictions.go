package gossiptest

import (
	"slices"

	"github.com/banyan-llm/banyan/crdt"
)

const (
	bucketMs  = 16_000
	maxSkewMs = 2_000
)

// predictions is a last-touched set per space, without a top-K.
type predictions struct {
	sets    map[crdt.PredictionSpace]map[uint64]touch
	waiting []crdt.Prediction
	ahead   int64 // ms: the wall clock's lead
	off     bool  // nothing is predicted
}

type touch struct {
	time   int64
	ttl    int64
	absent bool
}

func newPredictions() predictions {
	return predictions{sets: make(map[crdt.PredictionSpace]map[uint64]touch)}
}

// Predict writes an own prediction, to be sent, while there are any.
func (s *predictions) Predict(p crdt.Prediction) {
	if s.off {
		return
	}
	s.join(&p)
	s.waiting = append(s.waiting, p)
}

func (s *predictions) join(p *crdt.Prediction) {
	set := s.sets[p.Space]
	if set == nil {
		set = make(map[uint64]touch)
		s.sets[p.Space] = set
	}
	n := touch{time: p.Time, ttl: p.TTL, absent: p.Absent}
	for _, k := range p.Keys {
		if old, ok := set[k]; !ok || old.less(n) {
			set[k] = n
		}
	}
}

// less orders touches by (time, absent, ttl).
func (t touch) less(o touch) bool {
	if t.time != o.time {
		return t.time < o.time
	}
	if t.absent != o.absent {
		return o.absent
	}
	return t.ttl < o.ttl
}

// hash mixes all of an entry, so that entries of one time do not cancel out.
func (t touch) hash(key uint64) uint64 {
	h := key
	absent := int64(0)
	if t.absent {
		absent = 1
	}
	for _, x := range [...]int64{t.time, t.ttl, absent} {
		h = (h ^ uint64(x)) * 0x9e3779b97f4a7c15
		h ^= h >> 29
	}
	return h
}

// OwnPredictions implements gossip.State.
func (s *predictions) OwnPredictions(dst []crdt.Prediction, max int) []crdt.Prediction {
	n := min(max, len(s.waiting))
	dst = append(dst, s.waiting[:n]...)
	s.waiting = s.waiting[n:]
	return dst
}

// JoinPredictions implements gossip.State.
func (s *predictions) JoinPredictions(ps []crdt.Prediction, nowMs int64) (rejected int) {
	for i := range ps {
		if ps[i].Time > nowMs+s.ahead+maxSkewMs {
			rejected++
			continue
		}
		s.join(&ps[i])
	}
	return rejected
}

// ClockSet implements gossip.State.
func (s *predictions) ClockSet(aheadMs int64) { s.ahead = aheadMs }

// Predicting implements gossip.State.
func (s *predictions) Predicting(on bool) { s.off = !on }

// PredictionSums implements gossip.State.
func (s *predictions) PredictionSums(int64) []crdt.PredictionSum {
	var out []crdt.PredictionSum
	for _, space := range s.spaces() {
		sums := make(map[int64]*crdt.PredictionSum)
		var buckets []int64
		for k, t := range s.sets[space] {
			b := t.time / bucketMs
			if sums[b] == nil {
				sums[b] = &crdt.PredictionSum{Space: space, Bucket: b}
				buckets = append(buckets, b)
			}
			sums[b].Count++
			sums[b].XOR ^= t.hash(k)
		}
		slices.Sort(buckets)
		for _, b := range buckets {
			out = append(out, *sums[b])
		}
	}
	return out
}

// PredictionsOf implements gossip.State.
func (s *predictions) PredictionsOf(space crdt.PredictionSpace, bucket int64) []crdt.Prediction {
	var out []crdt.Prediction
	for k, t := range s.sets[space] {
		if t.time/bucketMs == bucket {
			out = append(out, crdt.Prediction{Space: space, Time: t.time, TTL: t.ttl, Absent: t.absent, Keys: []uint64{k}})
		}
	}
	slices.SortFunc(out, func(a, b crdt.Prediction) int {
		if a.Keys[0] < b.Keys[0] {
			return -1
		}
		return 1
	})
	return out
}

// Predicted is the number of keys known of a space.
func (s *predictions) Predicted(space crdt.PredictionSpace) int { return len(s.sets[space]) }

func (s *predictions) spaces() []crdt.PredictionSpace {
	var out []crdt.PredictionSpace
	for space := range s.sets {
		out = append(out, space)
	}
	slices.SortFunc(out, func(a, b crdt.PredictionSpace) int {
		if a.Replica < b.Replica || a.Replica == b.Replica && a.Root < b.Root {
			return -1
		}
		return 1
	})
	return out
}
