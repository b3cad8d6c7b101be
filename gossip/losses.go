package gossip

import (
	"maps"
	"slices"

	"github.com/banyan-llm/banyan/crdt"
)

// Times of giving slots up, ms.
const (
	// lossAfterMs passes between the engine's word on missing slots and their
	// being declared lost.
	lossAfterMs = 5_000
	// lossTalkMs is how long either word holds: peers come back, and so do
	// engines.
	lossTalkMs = 30_000
)

// Losses decides when slots are given up. Only an owner of the stream may do
// so, only of slots that no live peer has (Absent) and the engine cannot give
// any more (Exhausted), both of one incarnation, and only 5 s after the
// engine said so. The zero value is ready; times are of one clock that never
// runs back. Not safe for concurrent use.
type Losses struct {
	absent    map[crdt.StreamID]lossTalk
	exhausted map[crdt.StreamID]lossTalk
}

// lossTalk is somebody's word that slots cannot be had.
type lossTalk struct {
	epoch uint64
	spans []crdt.Span
	at    int64
}

// Loss names slots of one incarnation to be declared lost, as far as they are
// still missing.
type Loss struct {
	Stream crdt.StreamID
	Epoch  uint64
	Spans  []crdt.Span
}

// Absent notes the Core's word (Missing) that no live peer has these slots. It
// takes the place of what it said of the stream before.
func (l *Losses) Absent(id crdt.StreamID, epoch uint64, spans []crdt.Span, nowMs int64) {
	if l.absent == nil {
		l.absent = make(map[crdt.StreamID]lossTalk)
	}
	l.absent[id] = lossTalk{epoch, spans, nowMs}
}

// Exhausted notes that the engine cannot give these slots: its replay ended
// without them. Said again of the same slots it does not start the time anew.
func (l *Losses) Exhausted(id crdt.StreamID, epoch uint64, spans []crdt.Span, nowMs int64) {
	if have, ok := l.exhausted[id]; ok && have.epoch == epoch && slices.Equal(have.spans, spans) {
		return
	}
	if l.exhausted == nil {
		l.exhausted = make(map[crdt.StreamID]lossTalk)
	}
	l.exhausted[id] = lossTalk{epoch, spans, nowMs}
}

// Due returns what owners are to declare lost now, by stream, each once; owns
// tells whether this peer owns a stream now. It must be asked every now and
// then: what was said is forgotten here. O(streams with losses).
func (l *Losses) Due(nowMs int64, owns func(crdt.StreamID) bool) (out []Loss) {
	for _, id := range slices.Sorted(maps.Keys(l.exhausted)) {
		a := l.exhausted[id]
		no, asked := l.absent[id]
		if nowMs-a.at < lossAfterMs || !asked || no.epoch != a.epoch || nowMs-no.at > lossTalkMs {
			if nowMs-a.at > lossTalkMs {
				delete(l.exhausted, id)
			}
			continue
		}
		if owns(id) {
			if spans := crdt.Overlap(a.spans, no.spans); len(spans) > 0 {
				out = append(out, Loss{id, a.epoch, spans})
			}
		}
		delete(l.exhausted, id)
	}
	maps.DeleteFunc(l.absent, func(_ crdt.StreamID, no lossTalk) bool { return nowMs-no.at > lossTalkMs })
	return out
}
