package mesh

import (
	"errors"
	"sync"

	"github.com/banyan-llm/banyan/gossip"
)

// Bounds of what waits to be written to one connection.
const (
	outboxBytes   = 16 << 20 // beyond: the connection is closed; the core keeps far below
	writableBelow = 512 << 10
	writableAfter = 256 << 10 // written since the core was last told
)

// outbox holds the frames one connection is still to write. The loop puts, the
// writer takes; neither waits for the other.
type outbox struct {
	wake chan struct{} // capacity 1

	mu      sync.Mutex
	frames  [][]byte
	bytes   int // queued, and taken but not written
	written int // since the core was last told that there is room
	told    bool
	closing bool // nothing more is taken; what is here is still written
}

func newOutbox() *outbox { return &outbox{wake: make(chan struct{}, 1)} }

var (
	errFull  = errors.New("too much is unwritten")
	errEnded = errors.New("connection is ending")
)

// put queues a frame.
func (o *outbox) put(data []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.closing:
		return errEnded
	case o.bytes+len(data) > outboxBytes:
		return errFull
	}
	o.frames = append(o.frames, data)
	o.bytes += len(data)
	o.signal()
	return nil
}

// close lets the writer end after what is queued.
func (o *outbox) close() {
	o.mu.Lock()
	o.closing = true
	o.mu.Unlock()
	o.signal()
}

func (o *outbox) signal() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// take moves all queued frames out; last says that none will follow.
func (o *outbox) take(spare [][]byte) (frames [][]byte, last bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	frames, o.frames = o.frames, spare[:0]
	return frames, o.closing
}

// wrote counts n bytes as written and reports whether the core should be told
// that there is room: once until heard.
func (o *outbox) wrote(n int) (tell bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.bytes -= n
	o.written += n
	if o.told || o.bytes >= writableBelow || o.written < writableAfter {
		return false
	}
	o.told, o.written = true, 0
	return true
}

// heard says that the loop took the news.
func (o *outbox) heard() {
	o.mu.Lock()
	o.told = false
	o.mu.Unlock()
}

func (o *outbox) queued() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.bytes
}

// maxFrameBytes bounds one frame on the wire; maxHelloBytes the first one of a
// connection.
const (
	maxFrameBytes = 1 << 20
	maxHelloBytes = 4 << 10
)

// tooLong reports whether the n-th frame of a connection may not be that long.
func tooLong(n uint64, bytes uint32) bool {
	return bytes > maxFrameBytes || n == 0 && bytes > maxHelloBytes
}

// classes names the classes in metrics and logs.
var classes = [gossip.Classes]string{"fast", "bulk"}
