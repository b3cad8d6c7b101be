package mesh

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/gossip"
)

// link is one established peer stream: a reader, a writer, and the bounded
// queue between the loop and the writer.
//
// On the wire a frame is its length in four bytes, little-endian, and its
// bytes: at most maxHelloBytes for a connection's first, maxFrameBytes after.
type link struct {
	id     gossip.Conn
	class  gossip.Class
	dialed bool
	expect crdt.PeerID
	conn   net.Conn
	guest  *guest               // nil when dialed
	tls    *tls.ConnectionState // nil in plaintext
	out    *outbox
	inbox  *inbox
	timing Timing
	meter  *metrics

	ending atomic.Bool // hung up by us: what still comes is not read as frames
	ended  sync.Once
	reason atomic.Pointer[string]
}

const (
	readBuffer  = 4 << 10     // each connection has one; the rest of a longer frame is read past it
	writeBuffer = 64 << 10    // shared: a connection has one while it has something to write
	farewell    = time.Second // to write what is queued after a hangup
)

// writers are write buffers that no connection uses: at rest, hundreds of
// connections would hold 64 KiB each for some frames a second.
var writers = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, writeBuffer) }}

var errOversize = errors.New("frame too long")

// run moves frames until the connection ends, and returns why.
func (l *link) run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { l.cut("shutting down") })
	defer stop()
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	var wrote error
	wg.Go(func() {
		if wrote = l.write(ctx); wrote != nil {
			_ = l.conn.Close()
		}
	})
	read := l.read(ctx)
	cancel()
	_ = l.conn.Close()
	wg.Wait()
	l.guest.leave()
	if wrote != nil && (read == nil || errors.Is(read, net.ErrClosed)) {
		return wrote
	}
	return read
}

// read takes frames off the socket and waits for room in the inbox: a loop
// that is behind slows its senders down, through TCP.
func (l *link) read(ctx context.Context) error {
	r := bufio.NewReaderSize(l.conn, readBuffer)
	for n := uint64(0); ; n++ {
		data, err := l.frame(r, n)
		if l.ending.Load() {
			_, _ = io.Copy(io.Discard, r) // until the other side or the deadline ends it
			return nil
		}
		if err != nil {
			return err
		}
		if n == 0 {
			l.guest.leave()
		}
		l.meter.in(data)
		if err := l.inbox.received(ctx, l.class, gossip.Received{Conn: l.id, Data: data}); err != nil {
			return err
		}
	}
}

// frame reads the n-th frame. The first must come within the hello's time;
// later ones may take their time to begin, but not to end.
func (l *link) frame(r *bufio.Reader, n uint64) ([]byte, error) {
	var begin time.Time
	if n == 0 {
		begin = time.Now().Add(l.timing.Hello)
	}
	if err := l.setDeadline(l.conn.SetReadDeadline, begin); err != nil {
		return nil, err
	}
	head, err := r.Peek(4)
	if err != nil {
		return nil, err
	}
	size := binary.LittleEndian.Uint32(head)
	if tooLong(n, size) {
		return nil, fmt.Errorf("%w: %d bytes", errOversize, size)
	}
	_, _ = r.Discard(4)
	if r.Buffered() < int(size) {
		if err := l.setDeadline(l.conn.SetReadDeadline, time.Now().Add(l.timing.Stall)); err != nil {
			return nil, err
		}
	}
	data := make([]byte, size)
	_, err = io.ReadFull(r, data)
	return data, err
}

// setDeadline sets one of the deadlines, but leaves the farewell's alone.
func (l *link) setDeadline(set func(time.Time) error, at time.Time) error {
	if err := set(at); err != nil {
		return err
	}
	if l.ending.Load() {
		return set(time.Now().Add(farewell))
	}
	return nil
}

// write moves queued frames to the socket, many per flush. It ends after the
// last one, or with the context.
func (l *link) write(ctx context.Context) error {
	var frames [][]byte
	for {
		var last bool
		frames, last = l.out.take(frames)
		if err := l.putAll(frames); err != nil {
			return err
		}
		switch {
		case len(frames) > 0:
		case last:
			return l.closeWrite()
		default:
			select {
			case <-l.out.wake:
			case <-ctx.Done():
				return nil
			}
		}
	}
}

// putAll writes frames and lets go of them.
func (l *link) putAll(frames [][]byte) error {
	if len(frames) == 0 {
		return nil
	}
	w := writers.Get().(*bufio.Writer)
	w.Reset(l.conn)
	defer func() {
		w.Reset(nil)
		writers.Put(w)
	}()
	for i, data := range frames {
		frames[i] = nil
		if err := l.put(w, data); err != nil {
			return err
		}
	}
	return w.Flush()
}

// put writes one frame and tells the loop when there is room.
func (l *link) put(w *bufio.Writer, data []byte) error {
	if err := l.setDeadline(l.conn.SetWriteDeadline, time.Now().Add(l.timing.Stall)); err != nil {
		return err
	}
	var head [4]byte
	binary.LittleEndian.PutUint32(head[:], uint32(len(data)))
	if _, err := w.Write(head[:]); err != nil {
		return err
	}
	if _, err := w.Write(data); err != nil {
		return err
	}
	if l.out.wrote(len(data)) {
		l.inbox.drained(l.id)
	}
	return nil
}

// closeWrite ends our direction, so that the other side reads all of it.
func (l *link) closeWrite() error {
	if c, ok := l.conn.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return nil
}

// hangup ends the connection after what is queued; it does not wait.
func (l *link) hangup(reason string) {
	l.reason.CompareAndSwap(nil, &reason)
	l.ending.Store(true)
	_ = l.conn.SetDeadline(time.Now().Add(farewell))
	l.out.close()
}

// cut ends the connection at once.
func (l *link) cut(reason string) {
	l.reason.CompareAndSwap(nil, &reason)
	l.ended.Do(func() { _ = l.conn.Close() })
	l.out.close()
}

// why is the reason this side gave, empty if the other side ended it.
func (l *link) why() string {
	if r := l.reason.Load(); r != nil {
		return *r
	}
	return ""
}
