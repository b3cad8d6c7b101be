package gossip

import (
	"reflect"
	"testing"

	"github.com/banyan-llm/banyan/crdt"
)

// Each condition of giving slots up holds alone: with it unfulfilled and all
// others fulfilled nothing is due.
func TestLossesWaitForEveryCondition(t *testing.T) {
	const at = int64(1_700_000_000_000)
	id, spans := crdt.NewStreamID("http://r", 0), []crdt.Span{{From: 3, To: 7}}
	anybody := func(crdt.StreamID) bool { return true }
	due := []Loss{{id, 100, spans}}
	for _, c := range []struct {
		name string
		say  func(l *Losses)
		owns bool
		now  int64
		want []Loss
	}{
		{"all said, owner, 5 s passed", func(l *Losses) {
			l.Absent(id, 100, spans, at)
			l.Exhausted(id, 100, spans, at)
		}, true, at + 5_000, due},
		{"in the other order", func(l *Losses) {
			l.Exhausted(id, 100, spans, at)
			l.Absent(id, 100, spans, at)
		}, true, at + 5_000, due},
		{"no owner", func(l *Losses) {
			l.Absent(id, 100, spans, at)
			l.Exhausted(id, 100, spans, at)
		}, false, at + 5_000, nil},
		{"no peer was asked", func(l *Losses) { l.Exhausted(id, 100, spans, at) }, true, at + 5_000, nil},
		{"the engine was not asked", func(l *Losses) { l.Absent(id, 100, spans, at) }, true, at + 5_000, nil},
		{"5 s have not passed", func(l *Losses) {
			l.Absent(id, 100, spans, at)
			l.Exhausted(id, 100, spans, at)
		}, true, at + 4_999, nil},
		{"the peers were asked long ago", func(l *Losses) {
			l.Absent(id, 100, spans, at-25_001)
			l.Exhausted(id, 100, spans, at)
		}, true, at + 5_000, nil},
		{"they spoke of another incarnation", func(l *Losses) {
			l.Absent(id, 99, spans, at)
			l.Exhausted(id, 100, spans, at)
		}, true, at + 5_000, nil},
		{"some peer has what the engine lacks", func(l *Losses) {
			l.Absent(id, 100, []crdt.Span{{From: 1, To: 2}}, at)
			l.Exhausted(id, 100, spans, at)
		}, true, at + 5_000, nil},
		{"some peer has a part of it", func(l *Losses) {
			l.Absent(id, 100, []crdt.Span{{From: 5, To: 9}}, at)
			l.Exhausted(id, 100, spans, at)
		}, true, at + 5_000, []Loss{{id, 100, []crdt.Span{{From: 5, To: 7}}}}},
	} {
		var l Losses
		c.say(&l)
		owns := anybody
		if !c.owns {
			owns = func(crdt.StreamID) bool { return false }
		}
		if got := l.Due(c.now, owns); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: due are %v, want %v", c.name, got, c.want)
		}
	}
}

// What the engine says again does not put the loss off, and what was due is due
// once: a peer that is no owner when the time comes has missed it.
func TestLossesAreDueOnce(t *testing.T) {
	id, spans := crdt.NewStreamID("http://r", 0), []crdt.Span{{From: 3, To: 7}}
	for _, owner := range []bool{true, false} {
		var l Losses
		owns := func(crdt.StreamID) bool { return owner }
		for now := int64(1_000); now < 6_000; now += 1_000 {
			l.Exhausted(id, 100, spans, now)
			l.Absent(id, 100, spans, now)
			if got := l.Due(now, owns); len(got) != 0 {
				t.Fatalf("due %d ms after the engine's word: %v", now-1_000, got)
			}
		}
		if got := l.Due(6_000, owns); (len(got) == 1) != owner {
			t.Errorf("owner %v: due are %v", owner, got)
		}
		owner = true
		if got := l.Due(6_001, owns); len(got) != 0 {
			t.Errorf("due again: %v", got)
		}
	}
}

// What nobody speaks of any more is forgotten (I5), and counts no more.
func TestLossesForget(t *testing.T) {
	var l Losses
	spans := []crdt.Span{{From: 3, To: 7}}
	for i := range 100 {
		l.Exhausted(crdt.NewStreamID("http://r", i), 100, spans, 1_000)
		l.Absent(crdt.NewStreamID("http://s", i), 100, spans, 1_000)
	}
	if got := l.Due(31_001, func(crdt.StreamID) bool { return true }); len(got) != 0 || len(l.absent)+len(l.exhausted) != 0 {
		t.Errorf("due are %v; %d and %d words remembered", got, len(l.absent), len(l.exhausted))
	}
}
