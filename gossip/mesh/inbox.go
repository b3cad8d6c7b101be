package mesh

import (
	"context"
	"math/bits"
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
)

// turnEvery is how often the queues take turns, in items: lower, and a flood of
// bulk holds up loads; higher, and what waits beside a fast lane that never
// empties comes late.
const turnEvery = 5

// maxIngestSpans bounds the runs of own slots that wait for the loop, of one
// stream: as many as the core owes one peer.
const maxIngestSpans = 64

// inbox is what waits for the loop. Local news coalesces, frames block their
// own reader when their lane is full, everything else is bounded by the number
// of peers and connections (I2). The queues are emptied in their order, but each
// has its turn at every turnEvery*queues-th item at the latest.
type inbox struct {
	wake chan struct{} // capacity 1: something came
	fast *semaphore.Weighted
	bulk *semaphore.Weighted

	mu       sync.Mutex
	waits    uint16 // bit q: queue q is not empty
	members  fifo[crdt.PeerID]
	member   map[crdt.PeerID]gossip.Event // latest wins
	writable fifo[gossip.Conn]            // at most one per connection, see outbox
	ingests  fifo[ingestKey]
	ingest   map[ingestKey]*gossip.Ingested
	calls    fifo[func()]
	lanes    [gossip.Classes]fifo[gossip.Event]
	answers  fifo[gossip.Event]
	passed   int   // items taken since the last turn
	turn     queue // whose it was
}

// queue is one of the inbox's queues, the most urgent first.
type queue uint8

const (
	urgentLoad queue = iota
	memberNews
	calls
	fastFrames
	anyLoad
	intents
	ingests
	writables
	predictions
	answers
	bulkFrames
	queues
)

// laneOf is the queue of a class's frames.
func laneOf(class gossip.Class) queue {
	if class == gossip.Fast {
		return fastFrames
	}
	return bulkFrames
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

// local takes an event of this process. dropped names what had to be left out,
// if anything: an event that only the shell may make, or slots beyond the bound.
func (b *inbox) local(ev gossip.Event) (dropped string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch ev := ev.(type) {
	case gossip.LoadChanged:
		b.waits |= 1 << anyLoad
		if ev.Urgent {
			b.waits |= 1 << urgentLoad
		}
	case gossip.Predicted:
		b.waits |= 1 << predictions
	case gossip.IntentChanged:
		b.waits |= 1 << intents
	case gossip.Ingested:
		dropped = b.ingestedLocked(ev)
	case gossip.SnapshotCut, gossip.SnapshotJoined:
		b.answers.push(ev)
		b.waits |= 1 << answers
	default:
		return "event"
	}
	b.signal()
	return dropped
}

// ingestedLocked adds to the news that waits about the same stream, if any. Of
// more runs of slots than the core would owe a peer the latest stay.
func (b *inbox) ingestedLocked(ev gossip.Ingested) (dropped string) {
	k := ingestKey{stream: ev.Stream, epoch: ev.Epoch, first: ev.First}
	old := b.ingest[k]
	if old == nil {
		b.ingest[k] = &ev
		b.ingests.push(k)
		b.waits |= 1 << ingests
		return ""
	}
	slots, lost := crdt.Spans(nil).Union(old.Slots).Union(ev.Slots), crdt.Spans(nil).Union(old.Lost).Union(ev.Lost)
	old.Slots, old.Lost = slots[max(0, len(slots)-maxIngestSpans):], lost[max(0, len(lost)-maxIngestSpans):]
	if old.ReceivedAt == 0 || ev.ReceivedAt != 0 && ev.ReceivedAt < old.ReceivedAt {
		old.ReceivedAt = ev.ReceivedAt
	}
	if max(len(slots), len(lost)) > maxIngestSpans {
		return "slots"
	}
	return ""
}

// membership takes news about one peer; only the latest is kept.
func (b *inbox) membership(id crdt.PeerID, ev gossip.Event) {
	b.mu.Lock()
	if _, waits := b.member[id]; !waits {
		b.members.push(id)
		b.waits |= 1 << memberNews
	}
	b.member[id] = ev
	b.mu.Unlock()
	b.signal()
}

// lane takes an event that must keep its place in a connection's order.
func (b *inbox) lane(class gossip.Class, ev gossip.Event) {
	b.mu.Lock()
	b.lanes[class].push(ev)
	b.waits |= 1 << laneOf(class)
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
	b.waits |= 1 << writables
	b.mu.Unlock()
	b.signal()
}

// call takes a function to run in the loop.
func (b *inbox) call(fn func()) {
	b.mu.Lock()
	b.calls.push(fn)
	b.waits |= 1 << calls
	b.mu.Unlock()
	b.signal()
}

// item is one thing for the loop to do: an event or a call.
type item struct {
	ev   gossip.Event
	call func()
}

// next takes the first item of the queue whose turn it is, or of the most urgent
// one. A frame's room is given back at once: the loop holds at most one.
func (b *inbox) next() (it item, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waits == 0 {
		return item{}, false
	}
	q := queue(bits.TrailingZeros16(b.waits))
	if b.passed++; b.passed >= turnEvery {
		b.passed, b.turn = 0, (b.turn+1)%queues
		if b.waits&(1<<b.turn) != 0 {
			q = b.turn
		}
	}
	return b.takeLocked(q), true
}

// takeLocked takes the first item of a queue that is not empty.
func (b *inbox) takeLocked(q queue) (it item) {
	left := 0
	switch q {
	case urgentLoad, anyLoad:
		it.ev = gossip.LoadChanged{Urgent: b.waits&(1<<urgentLoad) != 0}
		b.waits &^= 1<<urgentLoad | 1<<anyLoad
	case intents:
		it.ev = gossip.IntentChanged{}
	case predictions:
		it.ev = gossip.Predicted{}
	case memberNews:
		it.ev = b.popMemberLocked()
		left = b.members.len()
	case calls:
		it.call = b.calls.pop()
		left = b.calls.len()
	case ingests:
		it.ev = b.popIngestLocked()
		left = b.ingests.len()
	case writables:
		it.ev = gossip.Writable{Conn: b.writable.pop()}
		left = b.writable.len()
	case answers:
		it.ev = b.answers.pop()
		left = b.answers.len()
	case fastFrames, bulkFrames:
		class := gossip.Fast
		if q == bulkFrames {
			class = gossip.Bulk
		}
		it.ev = b.popLaneLocked(class)
		left = b.lanes[class].len()
	}
	if left == 0 {
		b.waits &^= 1 << q
	}
	return it
}

func (b *inbox) popMemberLocked() gossip.Event {
	id := b.members.pop()
	ev := b.member[id]
	delete(b.member, id)
	return ev
}

func (b *inbox) popIngestLocked() gossip.Event {
	k := b.ingests.pop()
	ev := *b.ingest[k]
	delete(b.ingest, k)
	return ev
}

func (b *inbox) popLaneLocked(class gossip.Class) gossip.Event {
	ev := b.lanes[class].pop()
	if r, ok := ev.(gossip.Received); ok {
		b.room(class).Release(weight(r))
	}
	return ev
}

// waiting is the number of items, local flags aside.
func (b *inbox) waiting() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.members.len() + b.writable.len() + b.ingests.len() + b.calls.len() + b.answers.len() +
		b.lanes[gossip.Fast].len() + b.lanes[gossip.Bulk].len()
}
