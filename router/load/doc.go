// Package load is a peer's load table: for every replica, what is known of its
// load at this moment.
//
// It holds this peer's own requests in flight, the load registers of all peers
// (crdt.Loads), what engines report of themselves (scrapes), what was learned
// of their speed, and what operators ordered. A decision reads a snapshot of it
// for its candidates; the capacity limit of admission is worked out from it.
// It knows no prompt, no index and no HTTP. It starts no goroutine and reads
// no clock: times are arguments, in ms of the peer's own clock, which a set
// wall clock does not move.
//
//	L1: a request that was dispatched is counted out exactly once, whatever
//	    is called afterwards and however often.
//	L2: a snapshot through kept entries equals looking every replica up by name.
//	L3: a peer sees its own dispatches at once, and as young until others may
//	    have heard of them, or their first token came.
//	L4: what is compared between peers (first tokens, scrapes, orders) is in
//	    wall-clock time; nothing else moves when the wall clock is set.
//	L5: all peers' parts of a replica's limit make up the limit; each peer has
//	    at least one.
//	L6: the registers of a peer that is silent fade; they return when it speaks.
package load
