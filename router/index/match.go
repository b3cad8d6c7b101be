package index

import (
	"github.com/banyan-llm/banyan/radix"
)

// View is the answer to one Match, reusable between requests. Depths are in
// grid blocks from the start of the prompt.
type View struct {
	confirmed radix.Match
	predicted radix.Match
	x         *Index
	keys      []radix.Key // the caller's
	next      []uint32    // the caller's; see Before
}

// Depth is how much of a prompt one replica holds.
type Depth struct {
	GPU       int // confirmed on the GPU
	CPU       int // confirmed on GPU or CPU
	Any       int // confirmed on any tier
	Predicted int // expected on the GPU, from dispatches and answers
	Suspect   int // of GPU: blocks that only suspect facts vouch for
}

// Match looks a prompt's keys up for all replicas at once. No lock, no
// allocation in the steady state; O(blocks/16) dependent reads. The view keeps
// keys until its next use.
func (x *Index) Match(keys []radix.Key, v *View) {
	v.x, v.keys, v.next = x, keys, nil
	r := x.readers.Get().(*readers)
	r.confirmed.Match(keys, &v.confirmed)
	r.predicted.Match(keys, &v.predicted)
	x.readers.Put(r)
}

// Before tells which token stands behind each block of the prompt that was
// matched, as far as there is one: engines whose hashes look ahead do not reuse a
// page before another. The view keeps next as it keeps the keys.
func (v *View) Before(next []uint32) { v.next = next }

// Blocks is the length of the matched prompt.
func (v *View) Blocks() int { return len(v.keys) }

// Depth reads the answer for one replica. O(1); where the replica's stream has
// suspect facts or unseen roots, O(blocks) and the writer's lock.
func (v *View) Depth(r *Ref) (d Depth) {
	v.Read(r, &d)
	return d
}

// Read is Depth into a place of the caller's, for many replicas in a row.
func (v *View) Read(r *Ref, d *Depth) {
	d.GPU, d.CPU, d.Any, d.Predicted, d.Suspect = 0, 0, 0, 0, 0
	if h := r.confirmed.Load(); h != 0 {
		d.GPU, d.CPU, d.Any = v.confirmed.Depths(radix.Holder(h - 1))
	}
	if h := r.predicted.Load(); h != 0 {
		d.Predicted = v.predicted.Depth(radix.ClassGPU, radix.Holder(h-1))
	}
	if r.flags.Load() != 0 {
		v.look(r, d)
	}
}

// lookKeys is how many keys are looked up in one hold, some 0.1 us each.
const lookKeys = 1024

// look fills in what the trees' readers cannot tell: how much of the depth is
// suspect, and how far facts go on behind what an answer told of.
func (v *View) look(r *Ref, d *Depth) {
	h := r.confirmed.Load()
	if r.flags.Load()&flagAhead != 0 {
		for _, depth := range [...]*int{&d.GPU, &d.CPU, &d.Any} {
			if n := *depth; n > 0 && n <= len(v.next) {
				v.x.closely(r, h, func(b *blocks) { *depth = b.usable(v.keys, n, v.next[n-1]) })
			}
		}
	}
	if r.flags.Load()&flagHybrid != 0 {
		held, at := -1, 0 // mostly all is on the GPU: one search for the three
		for _, depth := range [...]*int{&d.GPU, &d.CPU, &d.Any} {
			if *depth == held {
				*depth = at
				continue
			}
			held = *depth
			for done := false; !done; {
				done = true // the facts may be others by now
				v.x.closely(r, h, func(b *blocks) { *depth, done = b.reusable(v.keys, *depth) })
			}
			at = *depth
		}
	}
	for i := 0; i < d.GPU && r.flags.Load()&flagSuspect != 0; i += lookKeys {
		v.x.closely(r, h, func(b *blocks) { d.Suspect += b.doubtful(v.keys[i:min(d.GPU, i+lookKeys)]) })
	}
	for r.flags.Load()&flagAnchored != 0 && d.Predicted > d.GPU && d.Predicted < len(v.keys) {
		n := 0
		v.x.closely(r, h, func(b *blocks) { n = b.heldKeys(v.keys[d.Predicted:min(len(v.keys), d.Predicted+lookKeys)]) })
		if d.Predicted += n; n < lookKeys {
			break
		}
	}
}

// closely runs f on the shown facts of a replica if they are still those of
// holder h (plus 1).
func (x *Index) closely(r *Ref, h uint32, f func(*blocks)) {
	x.locked(func() {
		if b := blocksOf(x.streams[r.ID]); b != nil && h != 0 && r.confirmed.Load() == h && b.ref.shows(b.holder) {
			f(b)
		}
	})
}

// readers is one pair of tree readers, pooled.
type readers struct{ confirmed, predicted *radix.Reader }
