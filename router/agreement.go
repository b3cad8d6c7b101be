package router

import (
	"fmt"
	"strings"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/radix"
)

// What all peers of a mesh must agree on is one number in every hello. Its parts
// stand side by side, so that whoever refuses another peer can say what differs:
// 32 bits of the hash secret's fingerprint, 6 of the slots' version, 11 of the
// grid, 15 of limits.predictions, of which the last are a hash.
const (
	slotBits, gridBits, predictionBits = 6, 11, 15

	slotAt       = 32
	gridAt       = slotAt + slotBits
	predictionAt = gridAt + gridBits
)

func part(print uint64, at, bits int) uint64 { return print >> at & (1<<bits - 1) }

// fingerprint is what all peers of a mesh must agree on.
func fingerprint(c *Config, hasher *radix.Hasher) uint64 {
	predictions := uint64(c.Limits.Predictions) * 0x9e3779b97f4a7c15 >> (64 - predictionBits)
	return uint64(uint32(hasher.Fingerprint())) |
		uint64(crdt.SlotVersion)&(1<<slotBits-1)<<slotAt | uint64(c.Grid)&(1<<gridBits-1)<<gridAt | predictions<<predictionAt
}

// differs says what a peer with another fingerprint differs in, and what to do.
func differs(own, theirs uint64) string {
	var parts []string
	if part(own, 0, slotAt) != part(theirs, 0, slotAt) {
		parts = append(parts, "it has a different mesh.hash_secret (if neither names one, a different mesh.label)")
	}
	if a, b := part(own, gridAt, gridBits), part(theirs, gridAt, gridBits); a != b {
		parts = append(parts, fmt.Sprintf("its grid is %d, here it is %d", b, a))
	}
	if part(own, predictionAt, predictionBits) != part(theirs, predictionAt, predictionBits) {
		parts = append(parts, "it has a different limits.predictions")
	}
	if a, b := part(own, slotAt, slotBits), part(theirs, slotAt, slotBits); a != b {
		parts = append(parts, "it runs a different version of banyan")
	}
	return strings.Join(parts, "; ")
}
