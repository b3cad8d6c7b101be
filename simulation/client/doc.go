// Package client is a plain user of the OpenAI API: it writes a workload's
// requests, reads streamed answers and measures them. The demo and the load
// generator send with it.
//
// It owns sockets and reads the clock. It does not know when to send what.
//
// Invariants, each held by a test:
//
//	L1  an answer without an error was complete: content, then [DONE]
//	L2  every failure has one cause of a closed list
//	L3  nothing an endpoint sends makes it panic or keep more than it said
//	    it would (maxLine a line, maxText of text, timeout of time)
package client
