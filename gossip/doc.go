// Package gossip is the replication protocol as a pure step function: events
// in, effects out. Time and randomness are arguments; sockets, goroutines and
// clocks live in gossip/mesh, and in simulation. What is replicated lives
// behind the State interface; this package knows contexts and sums, and no
// facts.
//
// How a slot travels: an owner pushes what it ingested to every peer, once. A
// digest round compares contexts and sums with a random peer every 1-2 s, by
// bucket first and stream by stream only where buckets differ. The
// side that lacks something asks for it (want) and is answered from the ring
// or, past that, by a snapshot. What no live peer has is told to the shell
// (Missing), which asks the engine; Losses, beside the Core, decides when an
// owner gives it up.
//
// Invariants:
//
// I1: the effects of a Step are a function of the configuration, the seed and
// the events so far. No clock, no global randomness, no order of a map.
//
// I2: time never runs backwards inside a Core.
//
// I3: a frame is acknowledged only after it was applied.
//
// I4: nobody relays what did not change its own state, and slots of others
// only in answer to a want. A quiescent mesh sends no slots.
//
// I5: unacknowledged bytes are bounded per connection, and so is everything
// else a peer can make this one hold: staged snapshots, fragments, wants,
// streams, peers.
//
// I6: per peer there are cursors, never queues of frames: a slow peer costs
// larger deltas later, never memory.
//
// I7: of a snapshot nothing is joined before it is whole.
//
// I8: load registers are held of this peer and of peers that are alive here,
// and of no others.
//
// I9: every frame is bounded and checked before it is decoded; a frame that no
// correct peer sends is counted and ends its connection, nothing else.
//
// I10: the first frame on every connection, both ways, is a hello; another
// cluster label or fingerprint, or no common version, ends it, and says so.
//
// I11: a stream that this peer does not want to know (Config.Wants) is neither
// pulled nor joined, whatever others hold of it.
//
// Sources: the delta-state framework with causal contexts is Almeida, Shoker
// and Baquero, "Delta state replicated data types" (2018); the shape of the
// package follows etcd-io/raft.
package gossip
