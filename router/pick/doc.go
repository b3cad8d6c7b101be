// Package pick is the request side of a peer without its sockets: the candidate
// set, what is known of each candidate for one prompt, and what a decision
// leaves behind.
//
// The order of one request is
//
//	Match -> Look -> Gather -> WithCapacity -> Ask -> Decide -> Book -> Fetch -> Again -> Sent
//
// (Fetch once more after an Again that moved it), and afterwards the load
// table's FirstToken and Done, and the index's Evidence.
// requestPath.Pick of package router tells that story with HTTP around it.
// Whole peers of the simulation (EvaluateMesh) tell it with modelled engines;
// Evaluate gathers its candidates itself and takes the rest from here.
// simulation/DECISIONS.md, "What is written again", has the differences.
//
// A request with much to compute is held for 2 ms after it was booked and looked
// at again, by what other peers sent meanwhile (Again, DECISIONS.md).
//
// Booking a request takes as long as deciding it, so the blocks that it will
// leave are announced afterwards: the Announcer is a queue that its owner
// empties (a goroutine in a router, an event in the simulation).
//
// The package knows no HTTP, no configuration and no fleet. It starts no
// goroutine and reads no clock: times are arguments, in ms of the peer's own
// clock.
//
//	P1: a decision sees every request that this peer sent before of a prompt
//	    that begins with the same block, and the load of those that it holds.
//	P2: every request that is sent is announced exactly once, in order unless the queue is
//	    full or nobody empties it.
//	P3: prompts without a session are told apart by the block that ends
//	    after 256 tokens, or their last whole one if they are shorter.
//	P4: while all live peers speak, the view is as old as a frame takes; else it
//	    is as old as the longest silence.
package pick
