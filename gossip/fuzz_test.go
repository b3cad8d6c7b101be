package gossip_test

import (
	"encoding/binary"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/gossip"
	"github.com/banyan-llm/banyan/gossip/gossiptest"
)

// recorded are frames that real peers sent each other, as seeds.
func recorded(tb testing.TB) [][]byte {
	var frames [][]byte
	n := New(Config{Seed: 9, State: smallRing, Mangle: func(_, _ *Node, data []byte) []byte {
		frames = append(frames, data)
		return data
	}})
	for range 2 {
		n.Add()
	}
	n.Run(2_000)
	e := n.Engine("http://r")
	a := n.Nodes()[0]
	a.State.SetLoad(e.Stream, crdt.Load{Waiting: 2, Prefill: 0.5})
	n.Post(a, gossip.LoadChanged{Urgent: true})
	a.State.Predict(crdt.Prediction{Space: crdt.PredictionSpace{Replica: e.Stream}, Time: n.Now(), TTL: 9, Keys: []uint64{1, 2}})
	n.Post(a, gossip.Predicted{})
	a.State.SetIntent(e.Stream, crdt.Intent{Time: 1, Drain: true})
	n.Post(a, gossip.IntentChanged{})
	for range 40 {
		e.Ingest(a, true, e.Emit(1)...)
	}
	e.Emit(1)
	e.Ingest(a, true, e.Emit(1)...)
	n.Add()
	n.Run(3_000)
	rooted := n.Engine("http://rooted")
	rooted.Ingest(a, true, chain(tb))
	n.Run(100)
	a.State.Unlink(rooted.Stream, 2)
	n.Run(3_000)
	return frames
}

// chain is a slot that stores blocks 1, 2 and 3, one below the other.
func chain(tb testing.TB) crdt.Slot {
	tb.Helper()
	var body crdt.Builder
	body.Store(crdt.Op{Main: true, PerPage: 1, Root: 9}, []uint64{1, 2, 3}, []uint64{10, 20, 30})
	slot, err := body.Slot(1, 0)
	if err != nil {
		tb.Fatal(err)
	}
	return slot
}

// Frames of every kind that peers send are among the seeds.
func TestRecordedFramesAreOfEveryKind(t *testing.T) {
	seen := map[byte]bool{}
	for _, data := range recorded(t) {
		k, _ := gossip.Payload(data)
		seen[k] = true
	}
	for k := byte(1); int(k) < gossip.Kinds; k++ {
		if name, _, _ := strings.Cut(gossip.Describe(gossip.Frame(1, k, 1, make([]byte, 64))), " "); !seen[k] && name != "session" && name != "fragment" {
			t.Errorf("no frame of kind %d, %s", k, name)
		}
	}
}

func FuzzDescribe(f *testing.F) {
	seen := map[string]int{}
	for _, data := range recorded(f) {
		name, _, _ := strings.Cut(gossip.Describe(data), " ")
		if seen[name]++; seen[name] <= 3 {
			f.Add(data)
		}
	}
	f.Fuzz(func(_ *testing.T, data []byte) { _ = gossip.Describe(data) })
}

// FuzzStep plays a hostile peer that passed its hello: any script of frames,
// connections and membership, and the core neither panics nor holds more than
// its limits.
func FuzzStep(f *testing.F) {
	seen := map[byte]int{}
	for _, data := range recorded(f) {
		k, payload := gossip.Payload(data)
		payload = payload[8:] // the script adds the clock
		if seen[k]++; seen[k] <= 4 && len(payload) < 256 {
			f.Add(append([]byte{0, 0, k - 1, byte(len(payload))}, payload...))
		}
	}
	f.Add([]byte{0, 0, 2, 3, 4, 5, 6, 7, 8, 9})
	f.Fuzz(func(t *testing.T, script []byte) {
		self, other := crdt.PeerID{1}, crdt.PeerID{2}
		core, err := gossip.New(gossip.Config{
			Self: self, State: gossiptest.NewState(self, gossiptest.StateConfig{}), Rand: rand.New(rand.NewPCG(1, 1)),
			Limits: gossip.Limits{StagedBytes: 1 << 20, MessageBytes: 1 << 20, Streams: 64, Peers: 8},
		})
		if err != nil {
			t.Fatal(err)
		}
		h := hostile{t: t, core: core, now: Start, script: script, peer: other, numbers: map[gossip.Conn]uint64{}}
		h.step(gossip.MemberUp{Peer: other, Name: "hostile"})
		h.open(gossip.Fast)
		h.open(gossip.Bulk)
		for moves := 0; len(h.script) > 0 && moves < 500; moves++ {
			h.move()
		}
		if s := core.Stats(); s.StagedBytes > 1<<20 || s.StagedBytes < 0 || len(core.Peers()) > 8 {
			t.Fatalf("%d bytes staged, %d peers", s.StagedBytes, len(core.Peers()))
		}
	})
}

// hostile reads moves off a script.
type hostile struct {
	t       *testing.T
	core    *gossip.Core
	now     int64
	script  []byte
	peer    crdt.PeerID
	next    gossip.Conn
	conns   []gossip.Conn
	numbers map[gossip.Conn]uint64
}

func (h *hostile) byte() byte {
	if len(h.script) == 0 {
		return 0
	}
	b := h.script[0]
	h.script = h.script[1:]
	return b
}

func (h *hostile) take(n int) []byte {
	n = min(n, len(h.script))
	b := h.script[:n]
	h.script = h.script[n:]
	return b
}

func (h *hostile) step(ev gossip.Event) {
	for _, e := range h.core.Step(h.now, ev) {
		switch e := e.(type) {
		case gossip.Hangup:
			delete(h.numbers, e.Conn)
		case gossip.Send:
			if len(e.Data) > 1<<20 {
				h.t.Fatalf("a frame of %d bytes", len(e.Data))
			}
		}
	}
}

// open connects and says hello.
func (h *hostile) open(class gossip.Class) {
	h.next++
	h.numbers[h.next] = 0
	h.conns = append(h.conns, h.next)
	h.step(gossip.Connected{Conn: h.next, Class: class})
	b := binary.LittleEndian.AppendUint64(nil, uint64(h.now))
	b = append(b, byte(class), 1, gossip.Version)
	b = append(b, h.peer[:]...)
	b = binary.LittleEndian.AppendUint64(b, 0)
	b = binary.LittleEndian.AppendUint64(b, uint64(h.next))
	h.frame(h.next, 1, append(b, 0, 0, 0, 0))
}

func (h *hostile) frame(conn gossip.Conn, k byte, payload []byte) {
	h.numbers[conn]++
	h.step(gossip.Received{Conn: conn, Data: gossip.Frame(1, k, h.numbers[conn], payload)})
}

func (h *hostile) move() {
	conn := h.conns[int(h.byte())%len(h.conns)]
	switch op := h.byte(); op % 8 {
	case 0, 1, 2: // a payload of some kind
		k := 1 + h.byte()%byte(gossip.Kinds)
		clock := binary.LittleEndian.AppendUint64(nil, uint64(h.now))
		h.frame(conn, k, append(clock, h.take(int(h.byte()))...))
	case 3: // raw bytes
		n := int(h.byte()) | int(h.byte())<<8
		h.step(gossip.Received{Conn: conn, Data: h.take(n)})
	case 4:
		h.now += int64(h.byte()) * 20
		h.step(gossip.Tick{})
	case 5:
		h.step(gossip.Disconnected{Conn: conn})
		h.open(gossip.Class(op / 8 % 2))
	case 6:
		h.step(gossip.MemberDown{Peer: h.peer})
		h.step(gossip.MemberUp{Peer: h.peer})
	case 7:
		id := crdt.StreamID(h.take(1))
		h.step(gossip.SnapshotCut{Stream: id})
		h.step(gossip.SnapshotJoined{Stream: id})
		h.step(gossip.Ingested{Stream: id, Epoch: 1, First: op > 99, Lost: []crdt.Span{{From: 1, To: uint64(op)}}})
	}
}
