package mesh

import (
	"context"
	"slices"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/gossip"
)

// Bounds of what waits for the loop, bytes of frames with their overhead.
const (
	fastBytes     = 4 << 20
	bulkBytes     = 16 << 20
	frameOverhead = 128
	// fairness: after this many items in front of it, one of the bulk lane goes.
	fairness = 64
)

// inbox is what waits for the loop. Local news coalesces, frames block their
// own reader when their lane is full, everything else is bounded by the number
// of peers and connections (I2).
type inbox struct {
	wake chan struct{} // capacity 1: something came
	fast *semaphore.Weighted
	bulk *semaphore.Weighted

	mu        sync.Mutex
	load      bool
	urgent    bool
	predicted bool
	intent    bool
	members   fifo[crdt.PeerID]
	member    map[crdt.PeerID]gossip.Event // latest wins
	writable  fifo[gossip.Conn]            // at most one per connection, see outbox
	ingests   fifo[ingestKey]
	ingest    map[ingestKey]*gossip.Ingested
	calls     fifo[func()]
	lanes     [gossip.Classes]fifo[gossip.Event]
	answers   fifo[gossip.Event]
	passed    int // items taken since the last of the bulk lane
	depth     int
}

// ingestKey says which news of an owner may be told in one.
type ingestKey struct {
	stream crdt.StreamID
	epoch  uint64
	first  bool
}

func newInbox() *inbox {
	return &inbox{
		wake:   make(chan struct{}, 1),
		fast:   semaphore.NewWeighted(fastBytes),
		bulk:   semaphore.NewWeighted(bulkBytes),
		member: make(map[crdt.PeerID]gossip.Event),
		ingest: make(map[ingestKey]*gossip.Ingested),
	}
}

func (b *inbox) signal() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// local takes an event of this process; false if only the shell may make it.
func (b *inbox) local(ev gossip.Event) bool {
	b.mu.Lock()
	switch ev := ev.(type) {
	case gossip.LoadChanged:
		b.load, b.urgent = true, b.urgent || ev.Urgent
	case gossip.Predicted:
		b.predicted = true
	case gossip.IntentChanged:
		b.intent = true
	case gossip.Ingested:
		b.ingestedLocked(ev)
	case gossip.SnapshotCut, gossip.SnapshotJoined:
		b.answers.push(ev)
		b.depth++
	default:
		b.mu.Unlock()
		return false
	}
	b.mu.Unlock()
	b.signal()
	return true
}

// ingestedLocked adds to the news that waits about the same stream, if any.
func (b *inbox) ingestedLocked(ev gossip.Ingested) {
	k := ingestKey{stream: ev.Stream, epoch: ev.Epoch, first: ev.First}
	old := b.ingest[k]
	if old == nil {
		b.ingest[k] = &ev
		b.ingests.push(k)
		b.depth++
		return
	}
	old.Slots = append(slices.Clip(old.Slots), ev.Slots...)
	old.Lost = append(slices.Clip(old.Lost), ev.Lost...)
	if old.ReceivedAt == 0 || ev.ReceivedAt != 0 && ev.ReceivedAt < old.ReceivedAt {
		old.ReceivedAt = ev.ReceivedAt
	}
}

// membership takes news about one peer; only the latest is kept.
func (b *inbox) membership(id crdt.PeerID, ev gossip.Event) {
	b.mu.Lock()
	if _, waits := b.member[id]; !waits {
		b.members.push(id)
		b.depth++
	}
	b.member[id] = ev
	b.mu.Unlock()
	b.signal()
}

// lane takes an event that must keep its place in a connection's order.
func (b *inbox) lane(class gossip.Class, ev gossip.Event) {
	b.mu.Lock()
	b.lanes[class].push(ev)
	b.depth++
	b.mu.Unlock()
	b.signal()
}

// received waits for room and takes a frame.
func (b *inbox) received(ctx context.Context, class gossip.Class, ev gossip.Received) error {
	if err := b.room(class).Acquire(ctx, weight(ev)); err != nil {
		return err
	}
	b.lane(class, ev)
	return nil
}

func (b *inbox) room(class gossip.Class) *semaphore.Weighted {
	if class == gossip.Fast {
		return b.fast
	}
	return b.bulk
}

func weight(ev gossip.Received) int64 { return int64(len(ev.Data) + frameOverhead) }

// drained says that a connection's queue has room.
func (b *inbox) drained(id gossip.Conn) {
	b.mu.Lock()
	b.writable.push(id)
	b.depth++
	b.mu.Unlock()
	b.signal()
}

// call takes a function to run in the loop.
func (b *inbox) call(fn func()) {
	b.mu.Lock()
	b.calls.push(fn)
	b.depth++
	b.mu.Unlock()
	b.signal()
}

// item is one thing for the loop to do: an event or a call.
type item struct {
	ev   gossip.Event
	call func()
}

// next takes the most urgent item. A frame's room is given back at once: the
// loop holds at most one.
func (b *inbox) next() (it item, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.passed >= fairness && b.lanes[gossip.Bulk].len() > 0 {
		return b.popLaneLocked(gossip.Bulk), true
	}
	b.passed++
	if it, ok = b.promptLocked(); ok {
		return it, true
	}
	if it, ok = b.patientLocked(); ok {
		return it, true
	}
	b.passed = 0
	return item{}, false
}

// promptLocked takes what must not wait: load, members, calls, fast frames.
func (b *inbox) promptLocked() (item, bool) {
	switch {
	case b.urgent:
		b.load, b.urgent = false, false
		return item{ev: gossip.LoadChanged{Urgent: true}}, true
	case b.members.len() > 0:
		b.depth--
		id := b.members.pop()
		ev := b.member[id]
		delete(b.member, id)
		return item{ev: ev}, true
	case b.calls.len() > 0:
		b.depth--
		return item{call: b.calls.pop()}, true
	case b.lanes[gossip.Fast].len() > 0:
		return b.popLaneLocked(gossip.Fast), true
	case b.load:
		b.load = false
		return item{ev: gossip.LoadChanged{}}, true
	case b.intent:
		b.intent = false
		return item{ev: gossip.IntentChanged{}}, true
	}
	return item{}, false
}

// patientLocked takes the rest, own news before others'.
func (b *inbox) patientLocked() (item, bool) {
	switch {
	case b.ingests.len() > 0:
		b.depth--
		k := b.ingests.pop()
		ev := *b.ingest[k]
		delete(b.ingest, k)
		return item{ev: ev}, true
	case b.writable.len() > 0:
		b.depth--
		return item{ev: gossip.Writable{Conn: b.writable.pop()}}, true
	case b.predicted:
		b.predicted = false
		return item{ev: gossip.Predicted{}}, true
	case b.answers.len() > 0:
		b.depth--
		return item{ev: b.answers.pop()}, true
	case b.lanes[gossip.Bulk].len() > 0:
		return b.popLaneLocked(gossip.Bulk), true
	}
	return item{}, false
}

func (b *inbox) popLaneLocked(class gossip.Class) item {
	if class == gossip.Bulk {
		b.passed = 0
	}
	b.depth--
	ev := b.lanes[class].pop()
	if r, ok := ev.(gossip.Received); ok {
		b.room(class).Release(weight(r))
	}
	return item{ev: ev}
}

// waiting is the number of items, local flags aside.
func (b *inbox) waiting() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.depth
}
