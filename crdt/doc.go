// Package crdt holds Banyan's lattices: pure values, no clock, no goroutine,
// no I/O.
//
// A stream is an engine's own event log. What is replicated is which slots
// (whole engine batches) a peer knows; everything else is a deterministic fold
// of them, kept in Blocks. Load registers, predictions and operator intent are
// small lattices of their own. This package owns the arithmetic of all of them
// and the packed columns they travel in. It does not know sockets, peers'
// membership, the prefix tree, or how block keys are made. None of its types
// is safe for concurrent use; time comes in as ms since 1970.
//
// The state of a stream is (epoch, X), X = (floor f, voids V, base B, slots T
// above the first gap, losses U above it):
//
//	1 .. anchor-1 | anchor ............. f | f+1 ...............
//	  not asked   | folded into B, or in V | in T, in U, or a hole
//
// Invariants, after every call:
//
//	I1  what readers see is B with T folded on top in the order of slots (while
//	    a snapshot is cut, the part of T that was there before the cut)
//	I2  T, U and [1, f] are disjoint; V lies in [anchor, f]
//	I3  f+1 is neither in T nor in U; a clear in T is folded (not while cutting)
//	I4  the epoch never falls: of a stream that is forgotten it stays, as the
//	    name of a process of which nothing is known
//	I5  inside an epoch and an anchor no slot is unlearned, but those that a
//	    better base voids
//	I6  the bytes in a Ring never exceed its budget
//	I7  a stream over its limits is forgotten whole; it never declares losses
//	I8  a slot's bytes are a pure function of the engine's bytes
//	I9  changing any field of any fact changes Sum.Facts
//	I10 a running load sum is exactly the sum of the registers that count
//	I11 bytes from outside are bounded before anything is allocated, and never
//	    panic
//	I12 a fold that is not at its end (Stream.Unsettled) is brought to it by
//	    whatever asks or changes the stream: readers of the shown store alone
//	    see it, block by block
//
// A Context names a state: equal contexts have equal facts and equal sums at
// the floor. An epoch names a process of the engine (package follow gives the
// names); the higher one wins whole, also before its first slot came, and nothing
// of the one below it is kept.
//
// Two halves of a mesh may meet one process apart. Of their bases the one stays
// with which more slots are known after the join; of equal ones that which gave up
// fewer, then that with the lower anchor. What the other one had folded and no ring keeps any more is lost,
// never more than that. A clear makes the anchor 1: nothing before it is missed.
// With declared losses, or bases that began apart, the join is commutative in its
// fixpoint only: every exchange leaves each side knowing at least as many slots,
// all-pairs exchange reaches one state, but it is not associative.
package crdt
