package radix

// Tiers is the number of storage tiers a fact can count copies on:
// 0 GPU, 1 CPU, 2 disk or remote. Lower is faster.
const Tiers = 3

// Meta is the opaque word of a fact. Bits 0-7, 8-15 and 16-23 count the
// copies on tier 0, 1 and 2; bits 24-63 belong to the caller (a stream's
// last store sequence, or a prediction's time). A fact without copies on any
// tier does not exist. crdt.Meta has the same layout.
type Meta uint64

// copiesMask covers the three copy counters.
const copiesMask Meta = 1<<24 - 1

// Present reports whether any tier holds a copy.
func (m Meta) Present() bool { return m&copiesMask != 0 }

// Best returns the fastest tier with a copy, or Tiers if there is none.
func (m Meta) Best() int {
	for tier := range Tiers {
		if m>>(8*tier)&0xff != 0 {
			return tier
		}
	}
	return Tiers
}
