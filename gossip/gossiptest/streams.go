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

type streams struct {
	streams map[crdt.StreamID]*stream
}

func newStreams(cfg StateConfig) streams { return streams{streams: map[crdt.StreamID]*stream{}} }

type stream struct {
	epoch uint64
	slots map[uint64]crdt.Slot
	floor uint64
}

func (s *streams) Streams(dst []crdt.StreamID) []crdt.StreamID {
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

func (s *streams) Digest(id crdt.StreamID) (d crdt.Digest, ok bool) {
	st := s.streams[id]
	if st == nil {
		return d, false
	}
	d.Context = st.ctx()
	d.Base.Count = d.Context.Floor
	return d, true
}
func (s *streams) SumAt(id crdt.StreamID, epoch, f uint64) (crdt.Sum, bool) { return crdt.Sum{}, false }
func (s *streams) Apply(d *crdt.Delta, nowMs int64) (out crdt.Outcome) {
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
func (s *streams) Since(id crdt.StreamID, c *crdt.Context, maxBytes int) (d crdt.Delta, ok bool) {
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
func (s *streams) Slots(id crdt.StreamID, epoch uint64, want []crdt.Span, maxBytes int) (out []crdt.Slot) {
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
func (s *streams) Forget(id crdt.StreamID)                { delete(s.streams, id) }
func (s *streams) Cut(id crdt.StreamID) *crdt.Snapshot    { return nil }
func (s *streams) Join(x *crdt.Snapshot, now int64) error { return nil }
func (s *streams) Facts(id crdt.StreamID) []byte          { return nil }
