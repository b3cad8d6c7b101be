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
// owner gives it up. A member that failed may live behind a cut and hold it: so
// for 30 s after a failure nothing is called missing.
//
// A Core is its parts, each in files of its own, over one base (time, peers,
// connections, what is to be sent):
//
//	neighbours   who there is, connections, hellos, dials   peer.go conn.go hello.go dial.go
//	cursor       what each peer lacks of what came here     push.go packed.go
//	repair       what this peer lacks, snapshots            pull.go assembly.go
//	serving      what others want                           serve.go
//	digests, summaries, keyRepair   comparing                 digest.go summary.go keys.go
//	loads, predictions, intents   what is told as it changes load.go beat.go predict.go intent.go
//	acks, readiness, clockJudge                             send.go ready.go clock.go
//
// Core itself takes events (core.go, send.go) and runs the timers (timers.go).
//
// Many peers: everybody has both connections to everybody, and says at rest and
// under load no more than one of 16 peers does. Among n others that is
// c = n/15, rounded up, at most 16:
//
//   - A heartbeat is an ack, which needs none itself. Every 200 ms 15 go, to those
//     who heard nothing for longest; each says how long the next may take, c times
//     200 ms. That long silence is no age: a peer that stalls while it has nothing
//     to tell is noticed so much later, 1.6 s later among 128.
//   - Dispatches that come faster than every c ms share a frame, other changes of
//     load wait up to 10 c ms. Simulated as if every change came that late, mean
//     time to first token is 1.02 (64 peers) and 1.035 (128) of one all-knowing
//     router's, 1.01 if dispatches are rarer than that and go at once: the
//     geometric mean of the conversation and synthetic traces, prefill pools and
//     aggregated, at load .7.
//   - Dials are paced, some 256 at a time of all peers, more where they succeed
//     (2 to 16 of each), from the own id upwards, and the peer with the larger id waits longer for the other's: the
//     handshakes of a mesh that starts at once end in time, instead of all too
//     late and again.
//
// Two other ways were drawn and not taken. Watchers: some peers hear a heartbeat
// every 200 ms and tell all of silence; silence would be noticed 1.6 s earlier
// among 128, for a quorum of watchers, and rumours to take back, while a peer
// that stalls at rest hides one part in 128 of the load. A relay tree, or rounds
// over a hypercube: log n frames instead of n, also under load; but each dispatch
// then takes log n hops, each peer down tears a hole until membership tells, and
// a round of all ages is 128 bytes, ten times a heartbeat.
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
// else a peer can make this one hold: assembled snapshots, fragments, wants,
// streams, peers.
//
// I6: per peer there are cursors, never queues of frames: a slow peer costs
// larger deltas later, never memory.
//
// I7: of a snapshot nothing is joined before it is whole.
//
// I8: load registers and vitals are held of this peer and of peers that are
// alive here, and of no others. Alive is whom membership says so of, and who is
// heard.
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
