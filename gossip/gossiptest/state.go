package gossiptest

import (
	"slices"
	"strings"

	"github.com/banyan-llm/banyan/crdt"
)

// StateConfig shapes the test state.
type StateConfig struct {
	RingBytes int // default 1 MiB
}

// State is the replicated state of one test peer.
type State struct {
	self    crdt.PeerID
	cfg     StateConfig
	streams map[crdt.StreamID]*stream

	Own   []crdt.LoadEntry
	Dirty bool
	Loads map[crdt.PeerID]map[crdt.StreamID]crdt.Load

	scrapes map[crdt.StreamID]crdt.Scrape
	vitals  map[crdt.PeerID]crdt.Vitals
	intents map[crdt.StreamID]crdt.Intent

	Applies int
}

type stream struct {
	epoch uint64
	slots map[uint64]crdt.Slot
	floor uint64
}

func NewState(self crdt.PeerID, cfg StateConfig) *State {
	return &State{self: self, cfg: cfg, streams: map[crdt.StreamID]*stream{},
		Loads:   map[crdt.PeerID]map[crdt.StreamID]crdt.Load{},
		scrapes: map[crdt.StreamID]crdt.Scrape{}, vitals: map[crdt.PeerID]crdt.Vitals{}, intents: map[crdt.StreamID]crdt.Intent{}}
}

func (s *State) Streams(dst []crdt.StreamID) []crdt.StreamID {
	for id := range s.streams {
		dst = append(dst, id)
	}
	slices.SortFunc(dst, func(a, b crdt.StreamID) int { return strings.Compare(string(a), string(b)) })
	return dst
}

func (st *stream) ctx() crdt.Context {
	c := crdt.Context{Epoch: st.epoch, Anchor: 1}
	for {
		if _, ok := st.slots[c.Floor+1]; !ok {
			break
		}
		c.Floor++
	}
	var k []uint64
	for q := range st.slots {
		if q > c.Floor {
			k = append(k, q)
		}
	}
	slices.Sort(k)
	for _, q := range k {
		if n := len(c.Above); n > 0 && c.Above[n-1].To+1 == q {
			c.Above[n-1].To = q
		} else {
			c.Above = append(c.Above, crdt.Span{From: q, To: q})
		}
	}
	return c
}

func (s *State) Digest(id crdt.StreamID) (d crdt.Digest, ok bool) {
	st := s.streams[id]
	if st == nil {
		return d, false
	}
	d.Context = st.ctx()
	d.Base.Count = d.Context.Floor
	return d, true
}
func (s *State) SumAt(id crdt.StreamID, epoch, f uint64) (crdt.Sum, bool) { return crdt.Sum{}, false }
func (s *State) Apply(d *crdt.Delta, nowMs int64) (out crdt.Outcome) {
	s.Applies++
	st := s.streams[d.Stream]
	if st == nil {
		st = &stream{}
		s.streams[d.Stream] = st
	}
	if d.Epoch < st.epoch {
		out.Stale = true
		return
	}
	if d.Epoch > st.epoch {
		st.epoch, st.slots = d.Epoch, map[uint64]crdt.Slot{}
	}
	for _, x := range d.Slots {
		if _, ok := st.slots[x.Seq]; !ok {
			st.slots[x.Seq] = x
			out.NewSlots++
		}
	}
	c := st.ctx()
	out.Floor = c.Floor
	from := c.Floor + 1
	for _, a := range c.Above {
		out.Holes = append(out.Holes, crdt.Span{From: from, To: a.From - 1})
		from = a.To + 1
	}
	return out
}
func (s *State) Since(id crdt.StreamID, c *crdt.Context, maxBytes int) (d crdt.Delta, ok bool) {
	st := s.streams[id]
	d = crdt.Delta{Stream: id, Epoch: st.epoch, Anchor: 1}
	have := func(q uint64) bool {
		if c.Epoch != st.epoch {
			return false
		}
		if q <= c.Floor {
			return true
		}
		for _, a := range c.Above {
			if q >= a.From && q <= a.To {
				return true
			}
		}
		return false
	}
	var k []uint64
	for q := range st.slots {
		if !have(q) {
			k = append(k, q)
		}
	}
	slices.Sort(k)
	for _, q := range k {
		d.Slots = append(d.Slots, st.slots[q])
		if maxBytes -= len(st.slots[q].Body); maxBytes < 0 {
			break
		}
	}
	return d, true
}
func (s *State) Slots(id crdt.StreamID, epoch uint64, want []crdt.Span, maxBytes int) (out []crdt.Slot) {
	st := s.streams[id]
	if st == nil || st.epoch != epoch {
		return nil
	}
	for _, w := range want {
		for q := w.From; q <= w.To; q++ {
			if x, ok := st.slots[q]; ok {
				out = append(out, x)
				if maxBytes -= len(x.Body); maxBytes < 0 {
					return
				}
			}
		}
	}
	return
}
func (s *State) Forget(id crdt.StreamID)                { delete(s.streams, id) }
func (s *State) Cut(id crdt.StreamID) *crdt.Snapshot    { return nil }
func (s *State) Join(x *crdt.Snapshot, now int64) error { return nil }
func (s *State) OwnPredictions(dst []crdt.Prediction, max int) []crdt.Prediction {
	return dst
}
func (s *State) JoinPredictions(p []crdt.Prediction, nowMs int64) (rejected int) { return 0 }
func (s *State) PredictionSums(nowMs int64) []crdt.PredictionSum                 { return nil }
func (s *State) PredictionsOf(space crdt.PredictionSpace, bucket int64) []crdt.Prediction {
	return nil
}
func (s *State) OwnLoads(dst []crdt.LoadEntry, dirty bool) []crdt.LoadEntry {
	if dirty && !s.Dirty {
		return dst
	}
	if dirty {
		s.Dirty = false
	}
	return append(dst, s.Own...)
}
func (s *State) JoinLoads(at crdt.PeerID, loads []crdt.LoadEntry) {}
func (s *State) AllLoads(dst []crdt.PeerLoads) []crdt.PeerLoads   { return dst }
func (s *State) DropLoads(at crdt.PeerID)                         {}
func (s *State) Scrapes() map[crdt.StreamID]crdt.Scrape           { return s.scrapes }
func (s *State) JoinScrapes(map[crdt.StreamID]crdt.Scrape)        {}
func (s *State) Vitals() map[crdt.PeerID]crdt.Vitals              { return s.vitals }
func (s *State) JoinVitals(map[crdt.PeerID]crdt.Vitals)           {}
func (s *State) Intents() map[crdt.StreamID]crdt.Intent           { return s.intents }
func (s *State) JoinIntents(map[crdt.StreamID]crdt.Intent) (changed bool) {
	return false
}
