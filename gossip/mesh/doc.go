// Package mesh is the shell around the gossip core: it owns the one mesh port,
// serf membership, the peer streams, their encryption, the clock and every
// goroutine; gossip.Core decides, this package does.
//
// One TCP listener and one UDP socket share a port. The first byte of a TCP
// connection tells peer streams (a magic, then optionally TLS) from
// memberlist's own streams (which begin with the cluster label); anything else
// is refused. Two connections per pair of peers carry the frames: fast and
// bulk. Each has one reader, one writer and a bounded queue between the writer
// and the loop.
//
// It does not know what a frame means, what a stream or a block is, nor
// whether a peer's hello is acceptable: that is the core's.
//
// Invariants:
//
//	I1  The core is stepped by one goroutine, and that goroutine never waits for
//	    a socket, for serf or for a caller.
//	I2  Every queue has a bound: bytes towards a peer (outboxBytes), bytes from
//	    peers (fastBytes, bulkBytes), strangers (maxHandshakes). Local news
//	    coalesces, so its queue is bounded by what exists, and the runs of slots
//	    in one piece of news by maxIngestSpans. No queue waits for ever: each has
//	    its turn (turnEvery).
//	I3  Frames of one connection reach the core in order and without gaps,
//	    between its Connected and its Disconnected; a connection that cannot
//	    keep that is closed.
//	I4  A load change waits for at most one step of the loop, never behind bulk.
//	I5  A stranger costs at most one place among the handshakes and maxHelloBytes, and
//	    for at most the hello's time; when there are too many the oldest yields.
//	    What strangers send to membership is bounded each (guestBytesMax) and
//	    in all (maxHandshakeBytes), and so are the members known (rosterMax).
//	I6  With a keyring or certificates no frame is read from or sent to a peer
//	    that has not proved that it holds one of the ring's keys, or a
//	    certificate of the mesh's authority; a connection whose key left the
//	    ring ends.
//	I7  Every seed is resolved and tried again for ever, however long the mesh
//	    was split or empty; members that failed lately are asked again and
//	    again whether they live.
//	I8  Whatever is refused is counted by cause, and logged once per cause and
//	    address in ten minutes.
//	I9  Close returns when all goroutines of this package have ended.
//
// Sources: memberlist's Transport (hashicorp/memberlist transport.go), the
// shared port after Consul's and dskit's transports, RFC 5869 for the keys of
// derived certificates.
package mesh
