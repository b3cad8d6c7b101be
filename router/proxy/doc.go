// Package proxy is the HTTP data path: it admits a request, reads and cleans
// its body, asks for a replica, forwards, streams the answer back and tries
// another replica while nothing has gone to the client.
//
// It owns everything between the client's connection and the replica's:
// limits, header and body hygiene, retries and their budget, deadlines before
// the first byte, flushing, usage on streams, errors in the OpenAI shape. It
// does not know how a replica is chosen or what becomes of the figures: the
// func fields of Config are where the router plugs in.
//
// Invariants, each held by a test of the same number:
//
//	I1  Every Target that Pick returns is given to Done exactly once.
//	I2  No second try starts after a byte of an answer went to the client, but
//	    one that goes on where a stream stopped (I8).
//	I3  Unless usage was asked for on the client's behalf, the client reads
//	    exactly the replica's body; if it was, the client reads what it would
//	    have read without.
//	I4  A client that leaves cancels the replica's work.
//	I5  No header or field that only routers may set passes from a client.
//	I6  Bodies, queue and in-flight requests are bounded; streams are held by
//	    one event at most.
//	I7  While draining every answer says Connection: close.
//	I8  With Limits.Continue, a stream whose replica is lost reads as one answer:
//	    one id, every token once, one end; or the client sees that it is not whole.
package proxy
