package fleet

import (
	"math/bits"
	"sync/atomic"
)

// A promise of cached tokens is checked if it is of so many pages: an engine that
// takes one page less than it holds keeps it. It is untrue if the answer reports
// less than three quarters of them.
const promisedPages = 4

func untrue(promised, cached int) bool { return 4*cached < 3*promised }

// belief is which of the last 32 promises of a replica's events were untrue: a bit
// for each in the low half, the latest last, and their number in the high half. The
// zero value is empty.
type belief struct{ word atomic.Uint64 }

// add notes a promise.
func (b *belief) add(broken bool) {
	for {
		old := b.word.Load()
		last := uint32(old) << 1
		if broken {
			last |= 1
		}
		next := min(old>>32+1, 32)<<32 | uint64(last)
		if b.word.CompareAndSwap(old, next) {
			return
		}
	}
}

// Untrue tells how many of the last promises of cached tokens that the replica's
// events made were untrue, and of how many.
func (r *Replica) Untrue() (untrue, checked int) {
	word := r.belief.word.Load()
	return bits.OnesCount32(uint32(word)), int(word >> 32)
}
