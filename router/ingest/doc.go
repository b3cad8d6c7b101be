// Package ingest decides which peers follow an engine's events, for how long,
// what of them the mesh is told, when a batch is given up as lost, and when a
// replica that left is forgotten.
//
// It is the pure step behind package router's shell, which starts subscribers,
// and behind the fault simulation, which plays connections. It starts no
// goroutine and reads no clock: times are arguments, in ms of the peer's own
// clock.
//
//	N1: a stream has its first owners by rendezvous among the peers that are
//	    ready, not draining and heard from lately; all peers that see the same
//	    members name the same ones.
//	N2: a peer owns nothing before it was caught up with the mesh or found
//	    none, and nothing while it drains; between the two it owns its share,
//	    also while it is behind.
//	N3: make before break: who is no owner any more listens on until the new
//	    owners are connected and one more batch came, or a minute passed,
//	    unless reading empties the engine's queue.
//	N4: nobody tells the mesh what did not change its own state.
//	N5: only an owner declares a batch lost, only one that is still missing, and
//	    only when peers and engine were asked (gossip.Losses).
//	N6: what no peer lists any more is gone everywhere a while after it left
//	    (Departures).
package ingest
