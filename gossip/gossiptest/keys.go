package gossiptest

import (
	"cmp"
	"slices"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/crdt/crdttest"
)

// Unlink takes the key of a fact away, as if its parent had never been seen
// here.
func (s *streams) Unlink(id crdt.StreamID, handle uint64) {
	s.known(id).Blocks().(*crdttest.MapBlocks).SetKeys(crdttest.Entry{Handle: handle}, 0, nil)
}

// linked is a digest with what was linked since the last slot.
func linked(st *crdt.Stream) crdt.Digest {
	d := st.Digest()
	if len(d.Context.Above) == 0 {
		now := st.Blocks().Sum()
		d.Base.Linked, d.Base.KeyXOR = now.Linked, now.KeyXOR
	}
	return d
}

// incarnation is a stream's store, if epoch is its present one.
func (s *streams) incarnation(id crdt.StreamID, epoch uint64) *crdttest.MapBlocks {
	if st := s.known(id); st != nil && st.Epoch() == epoch {
		return st.Blocks().(*crdttest.MapBlocks)
	}
	return nil
}

// Unlinked lists the facts without a key, as gossip asks for them.
func (s *streams) Unlinked(id crdt.StreamID, epoch uint64) (out []uint64) {
	if b := s.incarnation(id, epoch); b != nil {
		for e, f := range b.Facts {
			if len(f.Keys) == 0 && e.Space == 0 {
				out = append(out, e.Handle)
			}
		}
	}
	slices.SortFunc(out, cmp.Compare)
	return out[:min(len(out), 1024)]
}

// Keys tells where facts lie.
func (s *streams) Keys(id crdt.StreamID, epoch uint64, handles []uint64) (out []crdt.Keyed) {
	if b := s.incarnation(id, epoch); b != nil {
		for _, h := range handles {
			if f := b.Facts[crdttest.Entry{Handle: h}]; len(f.Keys) > 0 {
				out = append(out, crdt.Keyed{Handle: h, Parent: f.Before, Keys: f.Keys})
			}
		}
	}
	return out
}

// Link takes keys of facts that have none.
func (s *streams) Link(id crdt.StreamID, epoch uint64, told []crdt.Keyed, _ int64) (n int) {
	b := s.incarnation(id, epoch)
	if b == nil {
		return 0
	}
	for _, k := range told {
		e := crdttest.Entry{Handle: k.Handle}
		if f, ok := b.Facts[e]; ok && len(f.Keys) == 0 && len(k.Keys) > 0 {
			b.SetKeys(e, k.Parent, k.Keys)
			n++
		}
	}
	return n
}
