package gossip

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/banyan-llm/banyan/crdt"
)

// watcher looks at its core whenever slots are applied.
type watcher struct {
	State
	core    *Core
	applied int
	early   bool
}

func (w *watcher) Apply(d *crdt.Delta, _ int64) crdt.Outcome {
	w.applied++
	for _, cn := range w.core.conns {
		w.early = w.early || cn.class == Bulk && cn.got >= uint64(w.applied)+1
	}
	return crdt.Outcome{NewSlots: len(d.Slots)}
}

func (w *watcher) Digest(crdt.StreamID) (crdt.Digest, bool)             { return crdt.Digest{}, false }
func (w *watcher) Predicting(bool)                                      {}
func (w *watcher) ClockSet(int64)                                       {}
func (w *watcher) Streams(dst []crdt.StreamID) []crdt.StreamID          { return dst }
func (w *watcher) OwnLoads(d []crdt.LoadEntry, _ bool) []crdt.LoadEntry { return d }
func (w *watcher) AllLoads(dst []crdt.PeerLoads) []crdt.PeerLoads       { return dst }
func (w *watcher) Scrapes() map[crdt.StreamID]crdt.Scrape               { return nil }
func (w *watcher) Vitals() map[crdt.PeerID]crdt.Vitals                  { return nil }
func (w *watcher) Intents() map[crdt.StreamID]crdt.Intent               { return nil }
func (w *watcher) PredictionSums(int64) []crdt.PredictionSum            { return nil }
func (w *watcher) DropLoads(crdt.PeerID)                                {}
func (w *watcher) JoinLoads(crdt.PeerID, []crdt.LoadEntry)              {}

// lone makes a core with one peer connected by conns 1 (fast) and 2 (bulk).
func lone(t *testing.T, w *watcher) *Core {
	t.Helper()
	c, err := New(Config{Self: crdt.PeerID{1}, State: w, Rand: rand.New(rand.NewPCG(1, 2))})
	if err != nil {
		t.Fatal(err)
	}
	w.core = c
	other := assemble(&base{cfg: Config{Self: crdt.PeerID{2}, MinVersion: Version, MaxVersion: Version}})
	c.Step(1_000, MemberUp{Peer: crdt.PeerID{2}})
	for _, class := range []Class{Fast, Bulk} {
		id := Conn(class) + 1
		c.Step(1_000, Connected{Conn: id, Class: class})
		c.Step(1_000, Received{Conn: id, Data: encodeFrame(1, kindHello, 1, other.helloBody(&conn{id: id, class: class}))})
	}
	if !c.order[0].both() {
		t.Fatal("not connected")
	}
	return c
}

func slotsPayload(seq uint64) []byte {
	c := assemble(&base{now: 1_000})
	return c.cursor.slotsBody(&crdt.Delta{Stream: "r#0", Epoch: 1, Anchor: 1, Slots: []crdt.Slot{{Seq: seq}}}, 0, 0)
}

func TestAckComesAfterApply(t *testing.T) { // I3
	w := &watcher{}
	c := lone(t, w)
	for i := range uint64(3) {
		effects := c.Step(1_001, Received{Conn: 2, Data: encodeFrame(1, kindSlots, i+2, slotsPayload(i+1))})
		for _, e := range effects {
			if s, ok := e.(Send); ok && s.Kind == "ack" {
				t.Fatal("an ack less than 50 ms after the frame")
			}
		}
	}
	if w.applied != 3 || w.early {
		t.Fatalf("%d frames applied; counted for the ack before: %v", w.applied, w.early)
	}
	var acked uint64
	for _, e := range c.Step(1_051, Tick{}) {
		if s, ok := e.(Send); ok && s.Kind == "ack" {
			f, _ := decodeFrame(s.Data)
			b := f.payload[8+1:] // the clock, the count
			for ; len(b) >= 16; b = b[16:] {
				if binary.LittleEndian.Uint64(b) == 2 {
					acked = binary.LittleEndian.Uint64(b[8:])
				}
			}
		}
	}
	if acked != 4 {
		t.Errorf("50 ms later frame %d is acknowledged, want 4", acked)
	}
}

func TestRejectedFrameIsNotAcknowledged(t *testing.T) { // I3, I9
	w := &watcher{}
	c := lone(t, w)
	payload := slotsPayload(1)
	effects := c.Step(1_001, Received{Conn: 2, Data: encodeFrame(1, kindSlots, 2, payload[:len(payload)-1])})
	hung := false
	for _, e := range effects {
		h, ok := e.(Hangup)
		hung = hung || ok && h.Conn == 2
	}
	if !hung || w.applied != 0 || c.Stats().Rejected["payload"] != 1 {
		t.Errorf("hung up %v, applied %d, rejected %v", hung, w.applied, c.Stats().Rejected)
	}
}

func TestAckOfTheFutureIsRejected(t *testing.T) { // I9
	c := lone(t, &watcher{})
	b := binary.LittleEndian.AppendUint64(nil, 1_000)
	b = binary.LittleEndian.AppendUint64(append(b, 1), 2)
	c.Step(1_001, Received{Conn: 1, Data: encodeFrame(1, kindAck, 2, binary.LittleEndian.AppendUint64(b, 99))})
	if got := c.Stats().Rejected["payload"]; got != 1 {
		t.Errorf("rejected %d", got)
	}
}

func TestFragmentsMakeOneMessage(t *testing.T) {
	w := &watcher{}
	c := lone(t, w)
	sender := assemble(&base{cfg: c.cfg, lim: Limits{FragmentBytes: 100, MessageBytes: 1 << 20}, now: 1_000, stats: newStats()})
	d := crdt.Delta{Stream: "r#0", Epoch: 1, Anchor: 1}
	for i := range uint64(50) {
		d.Slots = append(d.Slots, crdt.Slot{Seq: i + 1})
	}
	cn := &conn{id: 7, version: 1, sent: 1}
	sender.send(cn, kindSlots, sender.cursor.slotsBody(&d, 0, 0), sentFrame{parts: []sentPart{{stream: "r#0"}}})
	if len(sender.effects) < 10 || len(cn.inflight[0].parts) > 0 || len(cn.inflight[len(cn.inflight)-1].parts) != 1 {
		t.Fatalf("%d fragments; what they hold must count with the last", len(sender.effects))
	}
	for i, e := range sender.effects {
		if w.applied != 0 {
			t.Fatalf("applied before fragment %d", i)
		}
		c.Step(1_001, Received{Conn: 2, Data: e.(Send).Data})
	}
	if w.applied != 1 || c.Stats().Applied != 50 {
		t.Errorf("%d frames with %d slots applied, want 1 with 50", w.applied, c.Stats().Applied)
	}
	// A message over the bound ends the connection.
	c.lim.MessageBytes = 1_000
	sender.effects = nil
	sender.send(cn, kindSlots, sender.cursor.slotsBody(&d, 0, 0), sentFrame{})
	for _, e := range sender.effects {
		c.Step(1_001, Received{Conn: 2, Data: e.(Send).Data})
	}
	if c.conns[2] != nil || w.applied != 1 {
		t.Error("a message over the bound was taken")
	}
}

func TestFrameBeforeHelloIsRejected(t *testing.T) { // I10
	c := lone(t, &watcher{})
	c.Step(1_001, Connected{Conn: 9, Class: Bulk})
	c.Step(1_001, Received{Conn: 9, Data: encodeFrame(1, kindSession, 1, slotsPayload(1))})
	if got := c.Stats().Rejected["order"]; got != 1 || c.conns[9] != nil {
		t.Errorf("rejected %d, connection still there: %v", got, c.conns[9] != nil)
	}
}

func TestTimeNeverRunsBackwards(t *testing.T) { // I2
	c := lone(t, &watcher{})
	c.Step(9_000, Tick{})
	for _, e := range c.Step(3_000, LoadChanged{Urgent: true}) {
		if s, ok := e.(Send); ok {
			f, _ := decodeFrame(s.Data)
			if sent := binary.LittleEndian.Uint64(f.payload); sent != 9_000 {
				t.Errorf("a frame says %d", sent)
			}
		}
	}
	if next := c.NextTick(); next <= 9_000 {
		t.Errorf("next tick at %d", next)
	}
}

// It has no facts, so no keys.
func (w *watcher) Hints(crdt.StreamID, uint64) []crdt.Hint             { return nil }
func (w *watcher) Unlinked(crdt.StreamID, uint64) []uint64             { return nil }
func (w *watcher) Keys(crdt.StreamID, uint64, []uint64) []crdt.Keyed   { return nil }
func (w *watcher) Link(crdt.StreamID, uint64, []crdt.Keyed, int64) int { return 0 }
