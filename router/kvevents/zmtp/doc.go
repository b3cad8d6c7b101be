// Package zmtp speaks the ZeroMQ wire protocol, ZMTP 3.0 and 3.1 with the NULL
// mechanism, as far as KV events need it: PUB and SUB on either end of a
// connection, and DEALER to ROUTER for replay. It is pure Go and makes no
// assumption about what the frames hold.
//
// A dialing socket keeps its connection up for ever, with jittered backoff,
// and says so in State; a reader of a Sub is told of every connection that
// came and went, in order with the messages.
//
// Invariants:
//
//	I1 no length from the wire is allocated before it was compared with
//	   Options.MaxBytes and maxParts; memory grows with bytes received, not
//	   with bytes claimed
//	I2 Pub.Send never blocks; what a subscriber's queue cannot take is dropped
//	   and counted
//	I3 every queue is bounded in messages and in bytes; messages of all sockets
//	   with one Options.Room together, from their first 64 KB on
//	I4 messages of one connection are delivered whole and in order, after that
//	   connection's Up and before its Down
//	I5 Close returns only after every goroutine of the socket has ended
//	I6 a peer that breaks the protocol loses its connection and nothing else
//
// Sources: rfc.zeromq.org/spec/23 (ZMTP 3.0), 37 (3.1), 29 (PUB/SUB), 28
// (ROUTER/DEALER); behaviour was checked against libzmq 4.3.
package zmtp
