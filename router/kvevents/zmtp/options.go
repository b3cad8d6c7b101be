package zmtp

import (
	"time"

	"golang.org/x/sync/semaphore"
)

// Limits of the protocol that no option changes.
const (
	maxCommandBytes    = 64 << 10  // a command's whole body
	maxSubscriptions   = 1024      // distinct prefixes one subscriber may hold
	maxPrefixBytes     = 4 << 10   // one subscription's prefix
	readBufferBytes    = 64 << 10  // buffered reads, one per connection
	retainedBytes      = 256 << 10 // receive scratch kept between messages
	maxWriteBatch      = 64        // messages in one vectored write
	maxIdentityBytes   = 255
	maxParts           = 8               // frames in one message
	queueBytes         = 64 << 20        // of messages waiting, beside Options.Queue; one always fits
	sendTimeout        = 5 * time.Second // one blocking send (Reply, Dealer.Send)
	smallBytes         = 64 << 10        // a message up to this size takes room when it is whole
	messageOverhead    = 256             // what a message takes besides its frames
	maxPingContextSize = 16
)

// Options tunes a socket. The zero value means the defaults.
type Options struct {
	MaxBytes int // one message, all frames together; default 16 MiB
	MaxConns int // connections a listening socket holds at once; default 4096
	Queue    int // messages waiting per subscriber (Pub) or for Recv (Sub); default 10,000

	HandshakeTimeout time.Duration // dial, greeting and READY together; default 5 s
	MinBackoff       time.Duration // first wait before dialing again; default 100 ms
	MaxBackoff       time.Duration // last wait before dialing again; default 5 s

	// Heartbeat is the interval of PINGs to a ZMTP 3.1 peer; silence for three
	// of them ends the connection. 0 leaves detection to TCP keepalive.
	Heartbeat time.Duration

	// Room bounds the bytes of the messages that are being received or wait for
	// their receiver, of all sockets that share it. A connection is not read while
	// there is none, so that its peer has to wait. The receiver gives it back
	// (Held). It must hold one message of MaxBytes. nil: no bound.
	Room *semaphore.Weighted

	longMessage time.Duration // for one that takes room before it is read to arrive then; default 10 s

	Identity []byte // sent by a Dealer; at most 255 bytes; default none
}

// withDefaults fills what is unset or senseless.
func (o Options) withDefaults() Options {
	positive(&o.MaxBytes, 16<<20)
	positive(&o.MaxConns, 4096)
	positive(&o.Queue, 10_000)
	positive(&o.longMessage, 10*time.Second)
	positive(&o.HandshakeTimeout, 5*time.Second)
	positive(&o.MinBackoff, 100*time.Millisecond)
	positive(&o.MaxBackoff, 5*time.Second)
	o.MaxBackoff = max(o.MaxBackoff, o.MinBackoff)
	o.Heartbeat = max(o.Heartbeat, 0)
	if len(o.Identity) > maxIdentityBytes {
		o.Identity = o.Identity[:maxIdentityBytes]
	}
	return o
}

// positive sets *v to def unless it is more than zero.
func positive[T int | time.Duration](v *T, def T) {
	if *v <= 0 {
		*v = def
	}
}
