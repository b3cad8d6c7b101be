// Package kvevents turns what engines say about their KV caches into slots of
// replicated streams.
//
// It owns the wire forms (vLLM's and SGLang's msgpack batches in array and map
// form, TensorRT-LLM's polled JSON, events pushed by HTTP), the packing of a
// batch into a crdt.Slot, and continuity: which incarnation of the engine a
// batch belongs to, what was missed and what the engine's replay can still
// give. It does not know the tree, the mesh or who owns a stream: a Sink takes
// what it delivers.
//
//	bytes --Decoder--> Batch --Packer--> crdt.Slot --Tracker--> Sink
//
// Decoder, Packer and Tracker are pure; Subscriber, Hub and Poller are the
// shells with sockets and clocks.
//
// # Continuity
//
// A Tracker knows an incarnation by its epoch: the engine's own time (ms) of
// the earliest batch that could be obtained. A new one is proved only by a
// batch number seen before with another time, or a number not above the
// highest with a time later than all. A reconnect proves nothing; a replay
// answers, because it comes from the process that is there now.
//
//	         Connected, nothing known
//	Fresh ----------------------------> Seeking      replay from 1: its first slot
//	  |  \                                |    ^     opens the incarnation, unless the
//	  |   \ no replay                     |    |     mesh knows it
//	  |    \                      decided |    | live slot proves a restart,
//	  |     v                             v    | or a replay does
//	  |   Following <---------------------+----+
//	  |     |    ^                        ^
//	  |     |    | too few restarts       | same slot, same time; or the slot is gone
//	  |     |    |                        | (proves nothing); or no answer in time
//	  |     | Connected                   |
//	  |     +-----------------------> Verifying      replay from the last known slot
//	  | Connected, mesh knows it          ^
//	  +-----------------------------------+
//	any --- third restart in a minute ---> Quarantined --- 60 s ---> Fresh
//
// An incarnation that was left is remembered for a minute: the mesh keeps it as
// a shadow. A replay that follows a contradiction asks for its last slot first,
// and a live slot over a connection that outlived the false restart is as good,
// if what the mesh heard last cannot be a slot of the process at its other end:
// then it is revived, under an epoch above. So it is by a slot over the very
// connection that the false restart came by, if that lies more than eight times
// nearer to the last slot before it than to its own: one connection is to one
// process. Where two owners named one incarnation, whoever finds the other's
// slots among its own says so.
//
// While Seeking or Verifying live slots are held, at most 4 s, 4096 slots and
// 32 MiB; then they pass unproved. A replay that twice holds nothing contradicts
// them: those before the first that proves a restart by itself are dropped. What
// proved a restart counts, even if no replay after it tells more. While Following
// a slot behind a hole is delivered at once. Holes are asked for when the mesh
// wants them (Fetch), or when a replay just read left some: the replay is lossy,
// so a hole is given up only after two attempts without progress.
//
// # Invariants
//
//	I1 a slot is a pure function of the engine's bytes, the grid and the secret
//	I2 nothing is allocated by a length that the bytes received do not cover;
//	   no input panics
//	I3 one bad event costs itself; a broken message costs its slot
//	I4 slots of one epoch are of one engine process, as far as its numbers and
//	   times can tell
//	I5 epochs come from the engine's times, never from a clock of ours, and a
//	   newer incarnation's epoch is higher (TensorRT-LLM, which tells no time,
//	   is the exception: its one poller mints)
//	I6 a slot is delivered at or above the anchor, and once unless asked for
//	I7 one replay per engine is in flight; holds, holes and queues are bounded
//
// Sources: vLLM and SGLang kv_events, TensorRT-LLM's KVCacheEventSerializer;
// field histories beside the tables in field.go.
package kvevents
