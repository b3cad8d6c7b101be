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
//	bytes --Decoder--> Batch --Packer--> crdt.Slot --follow.Tracker--> Sink
//
// Decoder and Packer are pure, as is follow; Subscriber, Hub and Poller are the
// shells with sockets and clocks.
//
// # Continuity
//
// Package follow decides it. When a connection came up the Subscriber asks the
// engine for its start time (Config.Start) until it answers; an answer about a
// connection that ended meanwhile is dropped. What follow opens is delivered even
// without a batch: what the process before had cached is gone.
//
// # Invariants
//
//	I1 a slot is a pure function of the engine's bytes, the grid and the secret
//	I2 nothing is allocated by a length that the bytes received do not cover;
//	   no input panics
//	I3 one bad event costs itself; a broken message costs its slot
//	I4, I5 and what an epoch means: package follow. TensorRT-LLM, which tells no
//	   time, is the exception: its one poller mints epochs
//	I6 a slot is delivered at or above the anchor, and once unless asked for
//	I7 one replay per engine is in flight; holds, holes and queues are bounded
//
// Sources: vLLM and SGLang kv_events, TensorRT-LLM's KVCacheEventSerializer;
// field histories beside the tables in field.go.
package kvevents
