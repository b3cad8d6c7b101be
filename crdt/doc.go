// Package crdt holds Banyan's lattices: pure values, no clock, no goroutine,
// no I/O.
//
// A stream is an engine's own event log. What is replicated is which slots
// (whole engine batches) a peer knows; everything else is a deterministic
// fold of them. Load registers, predictions and operator intent are small
// lattices of their own.
package crdt
