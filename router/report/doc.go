// Package report says what people and scripts are told of a peer.
//
// It owns the words: what is a problem and what only a note, each with its cure
// (Complete), why an engine's events are of no use, what becomes of the
// requests of a replica that is down. And it owns the arithmetic of what is
// told: the last minute of counters, the page's history, quantiles of a
// histogram, requests a second, how much a piece of the tree is used.
//
// It does not know a peer, its listeners, fleet, mesh or metrics: it is handed
// values and keeps no more than its rings. Time is an argument.
//
// Invariants, each held by a test of the same number:
//
//	I1  Every problem and every note names its cure.
//	I2  A peer of which nothing is wrong has no problem, and what works is no
//	    problem: it is a note.
//	I3  What many replicas have in common is told once.
//	I4  Everything kept is bounded, and what is older than its window is
//	    forgotten.
//	I5  Noting a prompt allocates nothing once the ring is full: requests do it.
//	I6  Streams that are equal on two peers have the same digest text, whatever
//	    order their facts were linked in.
package report
