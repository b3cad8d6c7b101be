package workload

import (
	"slices"
	"time"
)

const cycleLen = 1 << 26

// Cycle is a random cycle through 256 MB, for a yardstick: each step along it
// (at = next[at]) is one dependent cache miss. It takes seconds to make.
func Cycle() []uint32 {
	next := make([]uint32, cycleLen)
	fillCycle(next)
	return next
}

func fillCycle(next []uint32) {
	for i := range next {
		next[i] = uint32(i)
	}
	for i := len(next) - 1; i > 0; i-- {
		j := Mix(uint64(i)) % uint64(i)
		next[i], next[j] = next[j], next[i]
	}
}

// Chase is a place on a Cycle of its own, which lies outside of the Go heap:
// there it would put collections off, and allocations would never find warm
// memory.
type Chase struct {
	next []uint32
	at   uint32
}

// NewChase takes seconds. What it allocates is never given back.
func NewChase() *Chase {
	c := &Chase{next: offHeap(cycleLen)}
	fillCycle(c.next)
	return c
}

// chaseRound is some 0.25 ms: mostly nobody else gets the processor meanwhile.
const chaseRound = 1000

// Step goes on along the cycle and returns the time of a step by the clock: the
// median of rounds of 1,000 steps each, so that being interrupted in less than
// half of them does not count.
func (c *Chase) Step(rounds int) time.Duration {
	took := make([]time.Duration, rounds)
	for i := range took {
		begin := time.Now()
		for range chaseRound {
			c.at = c.next[c.at]
		}
		took[i] = time.Since(begin)
	}
	slices.Sort(took)
	return took[rounds/2] / chaseRound
}
