package index

import (
	"github.com/banyan-llm/banyan/radix"
)

// View is the answer to one Match, reusable between requests. Depths are in
// grid blocks from the start of the prompt.
type View struct {
	confirmed radix.Match
	predicted radix.Match
	blocks    int
}

// Depth is how much of a prompt one replica holds.
type Depth struct {
	GPU       int // confirmed on the GPU
	CPU       int // confirmed on GPU or CPU
	Any       int // confirmed on any tier
	Predicted int // expected on the GPU, from dispatches and answers
}

// Match looks a prompt's keys up for all replicas at once. No lock, no
// allocation in the steady state; O(blocks/16) dependent reads.
func (x *Index) Match(keys []radix.Key, v *View) {
	v.blocks = len(keys)
	r := x.readers.Get().(*readers)
	r.confirmed.Match(keys, &v.confirmed)
	r.predicted.Match(keys, &v.predicted)
	x.readers.Put(r)
}

// Blocks is the length of the matched prompt.
func (v *View) Blocks() int { return v.blocks }

// Depth reads the answer for one replica. O(1).
func (v *View) Depth(r *Ref) Depth {
	var d Depth
	if h := r.confirmed.Load(); h != 0 {
		holder := radix.Holder(h - 1)
		d.GPU = v.confirmed.Depth(radix.ClassGPU, holder)
		d.CPU = v.confirmed.Depth(radix.ClassCPU, holder)
		d.Any = v.confirmed.Depth(radix.ClassAny, holder)
	}
	if h := r.predicted.Load(); h != 0 {
		d.Predicted = v.predicted.Depth(radix.ClassGPU, radix.Holder(h-1))
	}
	return d
}

// readers is one pair of tree readers, pooled.
type readers struct{ confirmed, predicted *radix.Reader }
