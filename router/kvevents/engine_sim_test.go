package kvevents

import (
	"encoding/binary"
	"fmt"

	"pgregory.net/rapid"

	"github.com/banyan-llm/banyan/crdt"
)

// simEngine is an inference engine as a tracker sees it: processes that number
// their batches from 1, a live stream that may lose some, and a replay buffer.
type simEngine struct {
	process int
	clock   int64 // microseconds, only goes forward
	seq     uint64
	buffer  []crdt.Slot
	keep    int  // batches in the buffer
	polite  bool // ends no process in the middle of a replay
	all     map[int][]crdt.Slot
}

func newSimEngine(keep int) *simEngine {
	return &simEngine{process: 1, clock: 1_700_000_000_000_000, keep: keep, all: map[int][]crdt.Slot{}}
}

// emit makes the next batch. Its body tells its process.
func (e *simEngine) emit() crdt.Slot {
	e.seq++
	e.clock += 10_000
	s := crdt.Slot{Seq: e.seq, TS: e.clock, Body: binary.BigEndian.AppendUint32(nil, uint32(e.process))}
	e.all[e.process] = append(e.all[e.process], s)
	e.buffer = append(e.buffer, s)
	if len(e.buffer) > e.keep {
		e.buffer = e.buffer[1:]
	}
	return s
}

// restart begins a new process with nothing cached.
func (e *simEngine) restart() {
	e.process++
	e.clock += 1_000_000
	e.seq, e.buffer = 0, nil
}

// processOf reads a body.
func processOf(s crdt.Slot) int { return int(binary.BigEndian.Uint32(s.Body)) }

// simMesh is the replicated state: slots by epoch.
type simMesh struct {
	slots   map[uint64]map[uint64]crdt.Slot
	anchors map[uint64]uint64
	top     uint64
	lost    spans
}

func newSimMesh() *simMesh {
	return &simMesh{slots: map[uint64]map[uint64]crdt.Slot{}, anchors: map[uint64]uint64{}}
}

// take applies what a tracker put out.
func (m *simMesh) take(out Output) {
	if out.Epoch > m.top {
		m.top, m.lost = out.Epoch, nil
	}
	for _, s := range out.Deliver {
		if m.slots[out.Epoch] == nil {
			m.slots[out.Epoch] = map[uint64]crdt.Slot{}
			m.anchors[out.Epoch] = out.Anchor
		}
		m.slots[out.Epoch][s.Seq] = s
	}
	if out.Epoch == m.top {
		for _, sp := range out.Exhausted {
			m.lost.add(sp.From, sp.To)
		}
	}
}

// join adds all that another view knows.
func (m *simMesh) join(o *simMesh) {
	for epoch, slots := range o.slots {
		for _, s := range slots {
			m.take(Output{Epoch: epoch, Anchor: o.anchors[epoch], Deliver: []crdt.Slot{s}})
		}
	}
	for _, sp := range o.lost {
		m.lost.add(sp.From, sp.To)
	}
}

// prior is what the mesh knows.
func (m *simMesh) prior() Prior {
	p := Prior{Epoch: m.top, Anchor: m.anchors[m.top]}
	for seq, s := range m.slots[m.top] {
		if seq > p.LastSeq {
			p.LastSeq, p.LastTS = seq, s.TS
		}
	}
	if p.LastSeq == 0 {
		return Prior{}
	}
	return p
}

// holes are the slots the mesh lacks.
func (m *simMesh) holes() []crdt.Span {
	var have spans
	for seq := range m.slots[m.top] {
		have.add(seq, seq)
	}
	p := m.prior()
	return have.missing(p.Anchor, p.LastSeq)
}

// simOwner is one peer with a tracker, its live connection and its replay.
type simOwner struct {
	tracker *Tracker
	engine  *simEngine
	mesh    *simMesh
	process int         // the process the live connection leads to
	replay  []crdt.Slot // rest of the replay in flight
	running bool
	loss    func() bool // drops a replayed batch
	fail    func() bool // breaks a replay
	log     func(string, ...any)

	// A slow mesh: what this owner put out and the other has not seen yet.
	other *simMesh
	late  []Output
}

// gossip lets the other owner see what this one put out.
func (o *simOwner) gossip() {
	for _, out := range o.late {
		o.other.take(out)
	}
	o.late = nil
}

func newSimOwner(t *rapid.T, e *simEngine, m *simMesh, replay bool) *simOwner {
	return &simOwner{
		tracker: NewTracker(replay), engine: e, mesh: m,
		loss: func() bool { return false }, fail: func() bool { return false },
		log: t.Logf,
	}
}

// step feeds one event and acts on what comes out.
func (o *simOwner) step(now int64, ev TrackerEvent) {
	o.log("%d %s %T%+v", now, o.tracker.Phase(), ev, ev)
	out := o.tracker.Step(now, o.mesh.prior(), ev)
	if len(out.Deliver) > 0 || out.Replay != nil || len(out.Exhausted) > 0 {
		o.log("   -> epoch %d anchor %d deliver %s replay %v exhausted %v", out.Epoch, out.Anchor, slotNames(out.Deliver), out.Replay, out.Exhausted)
	}
	o.mesh.take(out)
	if o.other != nil {
		o.late = append(o.late, out)
	}
	if out.StopReplay {
		o.running, o.replay = false, nil
	}
	if out.Replay != nil {
		o.running, o.replay = true, nil
		for _, s := range o.engine.buffer {
			// A ROUTER's queue overflows behind its first messages, never at them.
			if s.Seq >= out.Replay.From && (len(o.replay) == 0 || !o.loss()) {
				o.replay = append(o.replay, s)
			}
		}
	}
}

// pump lets a replay in flight go on by one batch.
func (o *simOwner) pump(now int64) {
	switch {
	case !o.running:
	case o.fail():
		o.running, o.replay = false, nil
		o.step(now, ReplayEnded{})
	case len(o.replay) == 0:
		o.running = false
		o.step(now, ReplayEnded{Complete: true})
	default:
		s := o.replay[0]
		o.replay = o.replay[1:]
		o.step(now, Replayed{s})
	}
}

// quiesce runs replays to their end and asks for what the mesh lacks.
func (o *simOwner) quiesce(now int64) {
	for range 50 {
		for range 100_000 {
			if !o.running {
				break
			}
			o.pump(now)
		}
		o.step(now, Tick{})
		holes := o.mesh.holes()
		for _, sp := range o.mesh.lost {
			h := spans(holes)
			h.remove(sp.From, sp.To)
			holes = h
		}
		if len(holes) == 0 && !o.running {
			return
		}
		if !o.running {
			o.step(now, Wanted{holes})
		}
	}
}

// slotNames lists slots for a log.
func slotNames(s []crdt.Slot) string {
	var b []byte
	for _, x := range s {
		b = fmt.Appendf(b, "%d/p%d ", x.Seq, processOf(x))
	}
	return string(b)
}
