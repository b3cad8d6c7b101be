package workingset

import (
	"math/bits"
	"sync"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/radix"
)

// Window is how long a use counts, ms. Shorter, and who waits for its subagents
// is forgotten; longer, and sessions count that are over (DECISIONS.md).
const Window = 180_000

const (
	stepMs = 5000            // uses are counted by steps of time
	steps  = Window / stepMs // of the window
	finest = 256             // tokens: a block is sampled at least for so many
)

// Samples is how many blocks a Set keeps at most, 2 MB.
const Samples = 1 << 15

// Set is what was used lately. Safe for concurrent use.
type Set struct {
	grid int

	mu       sync.Mutex // guards below
	mask     uint64     // a block is sampled whose mixed hash has none of these bits
	kept     map[uint64]use
	replicas map[crdt.StreamID]*counts
	now      int64         // the last step told
	told     [steps]uint32 // sampled uses, by step
	again    [steps]uint32 // of blocks that were in use already
}

// use is the last one of a block.
type use struct {
	step int64
	at   *counts
}

// counts are the sampled blocks whose last use was at one replica, by step.
type counts struct {
	by  [steps]int32
	sum int
}

// New makes an empty set of blocks of so many tokens.
func New(grid int) *Set {
	s := &Set{grid: max(grid, 1), kept: map[uint64]use{}, replicas: map[crdt.StreamID]*counts{}}
	for n := finest / s.grid; n > 1; n /= 2 {
		s.mask = s.mask<<1 | 1
	}
	return s
}

// mix spreads keys whose low bits may be alike.
func mix(key uint64) uint64 { return bits.ReverseBytes64(key * 0x9e3779b97f4a7c15) }

// Use tells that a prompt with these blocks went to a replica at a time, ms.
// What is older than the window or lies ahead of nowMs by more than a step
// counts as at their edge. O(keys).
func (s *Set) Use(at crdt.StreamID, keys []uint64, atMs, nowMs int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advance(nowMs)
	step := min(atMs/stepMs, s.now)
	if step <= s.now-steps {
		return
	}
	place := s.replicas[at]
	if place == nil {
		place = &counts{}
		s.replicas[at] = place
	}
	for _, key := range keys {
		h := mix(key)
		if h&s.mask != 0 {
			continue
		}
		last, ok := s.kept[h]
		ok = ok && last.step > s.now-steps
		if ok && last.step >= step {
			continue // W3
		}
		s.told[step%steps]++
		if ok {
			s.again[step%steps]++
			last.at.by[last.step%steps]--
			last.at.sum--
		}
		s.kept[h] = use{step, place}
		place.by[step%steps]++
		place.sum++
		if len(s.kept) > Samples {
			s.thin()
		}
	}
}

// advance forgets the steps that have left the window.
func (s *Set) advance(nowMs int64) {
	step := nowMs / stepMs
	if s.now == 0 || step-s.now > steps {
		s.now = max(s.now, step-steps)
	}
	for s.now < step {
		s.now++
		slot := s.now % steps
		s.told[slot], s.again[slot] = 0, 0
		for id, c := range s.replicas {
			c.sum -= int(c.by[slot])
			if c.by[slot] = 0; c.sum == 0 {
				delete(s.replicas, id)
			}
		}
	}
}

// thin forgets what is not in use any more, then every other block, until half
// of the room is free.
func (s *Set) thin() {
	for h, u := range s.kept {
		if u.step <= s.now-steps {
			delete(s.kept, h)
		}
	}
	for len(s.kept) > Samples/2 {
		s.mask = s.mask<<1 | 1
		for h, u := range s.kept {
			if h&s.mask != 0 {
				delete(s.kept, h)
				u.at.by[u.step%steps]--
				u.at.sum--
			}
		}
	}
}

// Tokens is how many tokens' last use within the window was at a replica.
func (s *Set) Tokens(at crdt.StreamID, nowMs int64) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advance(nowMs)
	if c := s.replicas[at]; c != nil {
		return int64(c.sum) * int64(s.mask+1) * int64(s.grid)
	}
	return 0
}

// Again is the share of uses within the window whose block was in use already,
// 0 to 1.
func (s *Set) Again(nowMs int64) float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advance(nowMs)
	told, again := 0, 0
	for i := range s.told {
		told, again = told+int(s.told[i]), again+int(s.again[i])
	}
	if told == 0 {
		return 0
	}
	return float64(again) / float64(told)
}

// unused is the share of a prompt's sampled blocks that nobody used within the
// window; 0 for a prompt too short to tell.
func (s *Set) unused(keys []radix.Key, nowMs int64) float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advance(nowMs)
	all, lacking := 0, 0
	for _, key := range keys {
		h := mix(uint64(key))
		if h&s.mask != 0 {
			continue
		}
		all++
		if u, ok := s.kept[h]; !ok || u.step <= s.now-steps {
			lacking++
		}
	}
	if all == 0 {
		return 0
	}
	return float64(lacking) / float64(all)
}
