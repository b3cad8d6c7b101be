package mesh

import (
	"context"
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/gossip"
)

// drain takes everything out of an inbox.
func drain(b *inbox) (out []gossip.Event) {
	for {
		it, ok := b.next()
		if !ok {
			return out
		}
		out = append(out, it.ev)
	}
}

func frame(t interface{ Fatal(...any) }, b *inbox, class gossip.Class, id gossip.Conn, n byte) {
	if err := b.received(context.Background(), class, gossip.Received{Conn: id, Data: []byte{n}}); err != nil {
		t.Fatal(err)
	}
}

// I4: a load change overtakes everything.
func TestLoadOvertakesBulk(t *testing.T) {
	b := newInbox()
	for i := range byte(100) {
		frame(t, b, gossip.Bulk, 1, i)
		frame(t, b, gossip.Fast, 2, i)
	}
	b.local(gossip.Ingested{Stream: "s"})
	b.local(gossip.LoadChanged{Urgent: true})
	it, ok := b.next()
	if want := (gossip.LoadChanged{Urgent: true}); !ok || it.ev != want {
		t.Fatalf("first is %#v, want %#v", it.ev, want)
	}
	b.local(gossip.LoadChanged{})
	b.local(gossip.LoadChanged{Urgent: true})
	loads := 0
	for _, ev := range drain(b) {
		if _, ok := ev.(gossip.LoadChanged); ok {
			loads++
		}
	}
	if loads != 1 {
		t.Errorf("two load changes were told in %d, want one", loads)
	}
}

// served is within how many items each queue that is not empty is served.
const served = turnEvery * int(queues)

func TestFastDoesNotStarveBulk(t *testing.T) {
	b := newInbox()
	frame(t, b, gossip.Bulk, 1, 0)
	for i := range 2 * served {
		frame(t, b, gossip.Fast, 2, byte(i))
	}
	for i := range served {
		it, _ := b.next()
		if r, ok := it.ev.(gossip.Received); ok && r.Conn == 1 {
			if i == 0 {
				t.Error("bulk went first")
			}
			return
		}
	}
	t.Errorf("bulk did not come within %d items", served)
}

// TestNothingStarves: whatever is posted as fast as the loop takes it, each
// queue is served.
func TestNothingStarves(t *testing.T) {
	b := newInbox()
	b.drained(7)
	posts := map[queue]func(){
		urgentLoad:  func() { b.local(gossip.LoadChanged{Urgent: true}) },
		memberNews:  func() { b.membership(crdt.PeerID{1}, gossip.MemberUp{}) },
		calls:       func() { b.call(func() {}) },
		fastFrames:  func() { frame(t, b, gossip.Fast, 1, 0) },
		intents:     func() { b.local(gossip.IntentChanged{}) },
		ingests:     func() { b.local(gossip.Ingested{Stream: "s", Slots: crdt.Spans{{From: 1, To: 1}}}) },
		writables:   func() { b.drained(7) },
		predictions: func() { b.local(gossip.Predicted{}) },
		answers:     func() { b.local(gossip.SnapshotJoined{}) },
		bulkFrames:  func() { frame(t, b, gossip.Bulk, 2, 0) },
	}
	took := func(it item) queue {
		switch ev := it.ev.(type) {
		case gossip.LoadChanged:
			return urgentLoad
		case gossip.MemberUp:
			return memberNews
		case gossip.Received:
			if ev.Conn == 1 {
				return fastFrames
			}
			return bulkFrames
		case gossip.IntentChanged:
			return intents
		case gossip.Ingested:
			return ingests
		case gossip.Writable:
			return writables
		case gossip.Predicted:
			return predictions
		case gossip.SnapshotJoined:
			return answers
		}
		return calls
	}
	last := map[queue]int{}
	for n := 1; n <= 20*served; n++ {
		for _, post := range posts {
			post()
		}
		it, _ := b.next()
		last[took(it)] = n
		for q := range posts {
			if waits := n - last[q]; waits > served {
				t.Fatalf("queue %d was not served in %d items", q, waits)
			}
		}
	}
}

// TestWaitingIngestsAreBounded: slots of one stream that come without an end are
// runs, and of too many runs the latest stay. What is left out is told.
func TestWaitingIngestsAreBounded(t *testing.T) {
	b := newInbox()
	post := func(seq uint64) string {
		return b.local(gossip.Ingested{Stream: "s", Slots: crdt.Spans{{From: seq, To: seq}}})
	}
	for seq := range uint64(1000) {
		if dropped := post(1 + seq); dropped != "" {
			t.Fatal("one run is too much")
		}
	}
	dropped := 0
	for seq := range uint64(1000) {
		if post(2000+2*seq) == "slots" {
			dropped++
		}
	}
	ev := drain(b)[0].(gossip.Ingested)
	if n := len(ev.Slots); n != maxIngestSpans || dropped != 1001-maxIngestSpans || !ev.Slots.Has(2000+2*999) {
		t.Errorf("%d runs wait, %d times some were left out; %v", n, dropped, ev.Slots)
	}
}

func TestIngestsCoalesceAndLoseNothing(t *testing.T) {
	b := newInbox()
	slots := func(seq uint64) crdt.Spans { return crdt.Spans{{From: seq, To: seq}} }
	shared := append(make(crdt.Spans, 0, 8), slots(1)...) // room to be overwritten in
	b.local(gossip.Ingested{Stream: "s", Epoch: 1, First: true, Slots: shared, ReceivedAt: 20})
	b.local(gossip.Ingested{Stream: "s", Epoch: 1, First: true, Slots: slots(2), ReceivedAt: 10})
	b.local(gossip.Ingested{Stream: "s", Epoch: 2, First: true, Slots: slots(1)})
	b.local(gossip.Ingested{Stream: "s", Epoch: 1, Slots: slots(3)})
	b.local(gossip.Ingested{Stream: "s", Epoch: 1, First: true, Lost: []crdt.Span{{From: 4, To: 5}}})
	if shared[:2][1] != (crdt.Span{}) || shared[0].To != 1 {
		t.Error("the caller's slice was written to")
	}
	got := drain(b)
	if len(got) != 3 {
		t.Fatalf("%d events, want 3: %v", len(got), got)
	}
	first := got[0].(gossip.Ingested)
	if !slices.Equal(first.Slots, crdt.Spans{{From: 1, To: 2}}) || len(first.Lost) != 1 || first.ReceivedAt != 10 {
		t.Errorf("coalesced: %+v", first)
	}
}

func TestOnlyLocalEventsMayBePosted(t *testing.T) {
	b := newInbox()
	for _, ev := range []gossip.Event{gossip.Tick{}, gossip.Received{}, gossip.MemberUp{}, gossip.Connected{}, nil} {
		if b.local(ev) != "event" {
			t.Errorf("%#v was taken", ev)
		}
	}
	if n := len(drain(b)); n != 0 {
		t.Errorf("%d events came of it", n)
	}
}

// I2: a full lane makes its readers wait, and them alone.
func TestAFullLaneBlocksItsReaders(t *testing.T) {
	b := newInbox()
	data := make([]byte, maxFrameBytes)
	ctx, cancel := context.WithCancel(context.Background())
	full := bulkBytes / (maxFrameBytes + frameOverhead)
	for range full {
		if err := b.received(ctx, gossip.Bulk, gossip.Received{Data: data}); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	if err := b.received(ctx, gossip.Bulk, gossip.Received{Data: data}); err == nil {
		t.Error("the lane took more than its bound")
	}
	frame(t, b, gossip.Fast, 1, 0)
	drain(b)
	if err := b.received(context.Background(), gossip.Bulk, gossip.Received{Data: data}); err != nil {
		t.Errorf("after draining: %v", err)
	}
}

// I3: frames of one connection keep their order, between Connected and
// Disconnected; the last word of membership on a peer is kept; nothing is lost.
func TestInboxKeepsOrderAndLosesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := newInbox()
		sent := map[gossip.Conn][]string{}
		got := map[gossip.Conn][]string{}
		said, heard := map[crdt.PeerID]bool{}, map[crdt.PeerID]bool{}
		wantSlots, gotSlots := 0, 0
		take := func(ev gossip.Event) {
			switch ev := ev.(type) {
			case gossip.Connected:
				got[ev.Conn] = append(got[ev.Conn], "up")
			case gossip.Disconnected:
				got[ev.Conn] = append(got[ev.Conn], "down")
			case gossip.Received:
				got[ev.Conn] = append(got[ev.Conn], string(ev.Data))
			case gossip.MemberUp:
				heard[ev.Peer] = true
			case gossip.MemberDown:
				heard[ev.Peer] = false
			case gossip.Ingested:
				gotSlots += int(ev.Slots.Size())
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"stream": func(t *rapid.T) {
				id := gossip.Conn(rapid.IntRange(0, 3).Draw(t, "conn"))
				class := gossip.Class(id % gossip.Classes)
				switch rapid.IntRange(0, 4).Draw(t, "what") {
				case 0:
					b.lane(class, gossip.Connected{Conn: id})
					sent[id] = append(sent[id], "up")
				case 1:
					b.lane(class, gossip.Disconnected{Conn: id})
					sent[id] = append(sent[id], "down")
				default:
					n := byte(len(sent[id]))
					frame(t, b, class, id, n)
					sent[id] = append(sent[id], string([]byte{n}))
				}
			},
			"member": func(t *rapid.T) {
				id := crdt.PeerID{byte(rapid.IntRange(0, 2).Draw(t, "peer"))}
				up := rapid.Bool().Draw(t, "up")
				said[id] = up
				if up {
					b.membership(id, gossip.MemberUp{Peer: id})
				} else {
					b.membership(id, gossip.MemberDown{Peer: id})
				}
			},
			"ingest": func(t *rapid.T) {
				n := rapid.IntRange(0, 3).Draw(t, "slots")
				var slots crdt.Spans
				if n > 0 {
					slots = crdt.Spans{{From: uint64(wantSlots + 1), To: uint64(wantSlots + n)}}
				}
				wantSlots += n
				b.local(gossip.Ingested{Stream: "s", Slots: slots})
			},
			"next": func(t *rapid.T) {
				if it, ok := b.next(); ok {
					take(it.ev)
				}
			},
		})
		for _, ev := range drain(b) {
			take(ev)
		}
		for id, want := range sent {
			if !slices.Equal(got[id], want) {
				t.Fatalf("conn %d: got %v, want %v", id, got[id], want)
			}
		}
		for id, up := range said {
			if heard[id] != up {
				t.Fatalf("peer %v: heard %v, want %v", id, heard[id], up)
			}
		}
		if gotSlots != wantSlots {
			t.Fatalf("%d slots came, %d were posted", gotSlots, wantSlots)
		}
		if n := b.waiting(); n != 0 {
			t.Fatalf("%d items wait in an empty inbox", n)
		}
	})
}

func TestOutboxTellsOfRoomOnce(t *testing.T) {
	o := newOutbox()
	data := make([]byte, writableAfter)
	for range 4 {
		if err := o.put(data); err != nil {
			t.Fatal(err)
		}
	}
	var told []int
	for i := range 4 {
		if o.wrote(len(data)) {
			told = append(told, i)
		}
	}
	if !slices.Equal(told, []int{2}) { // below half at the third
		t.Errorf("told after %v, want [2]", told)
	}
	o.heard()
	if err := o.put(data); err != nil {
		t.Fatal(err)
	}
	if !o.wrote(len(data)) {
		t.Error("not told again after it was heard")
	}
	if o.queued() != 0 {
		t.Errorf("%d bytes are queued", o.queued())
	}
}

func TestOutboxHasABound(t *testing.T) {
	o := newOutbox()
	data := make([]byte, maxFrameBytes)
	n := 0
	for n < 2*outboxBytes/maxFrameBytes && o.put(data) == nil {
		n++
	}
	if n != outboxBytes/maxFrameBytes {
		t.Errorf("took %d frames, want %d", n, outboxBytes/maxFrameBytes)
	}
	frames, last := o.take(nil)
	if len(frames) != n || last {
		t.Errorf("took %d frames, last %v", len(frames), last)
	}
	if err := o.put(data); !errors.Is(err, errFull) {
		t.Errorf("before anything was written: %v", err)
	}
	o.close()
	if err := o.put(data); !errors.Is(err, errEnded) {
		t.Errorf("after close: %v", err)
	}
	if frames, last := o.take(nil); len(frames) != 0 || !last {
		t.Errorf("after close: %d frames, last %v", len(frames), last)
	}
}
