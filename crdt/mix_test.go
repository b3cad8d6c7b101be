package crdt_test

import (
	"maps"
	"testing"

	"pgregory.net/rapid"

	"github.com/banyan-llm/banyan/crdt"
)

// stray is a stream's story with a false restart in it: an engine's log met at
// slot 2, one batch of a process that never served, numbered 1, and the log's
// later slots.
type stray struct {
	log   *engineLog
	cut   uint64      // the last slot before the stray one
	ghost []crdt.Slot // the stray one
}

// Names of the stray's stream: before, by the stray, and once it is undone.
const (
	strayBefore = 1000
	strayFalse  = 5000
	strayUndone = 5001
)

func drawStray(t *rapid.T) *stray {
	n := rapid.Uint64Range(4, 12).Draw(t, "n")
	s := &stray{log: drawLog(t, strayBefore, int(n), false), cut: rapid.Uint64Range(2, n-2).Draw(t, "cut")}
	for i := s.cut; i < n; i++ {
		s.log.slots[i].TS = int64(strayUndone)*1000 + int64(i)
	}
	s.ghost = drawLog(t, strayFalse, 1, false).slots
	return s
}

func (s *stray) slots(seqs ...uint64) (out []crdt.Slot) {
	for _, q := range seqs {
		out = append(out, s.log.slots[q-1])
	}
	return out
}

func (s *stray) give(p *peer, epoch, anchor uint64, slots []crdt.Slot) crdt.Outcome {
	return p.Apply(&crdt.Delta{Stream: streamID, Epoch: epoch, Anchor: anchor, Slots: slots}, 0)
}

// mixed is a peer that was told the log up to the stray batch, that one, and
// then, under its name, a slot of the log.
func (s *stray) mixed(p *peer) *peer {
	for q := uint64(2); q <= s.cut; q++ {
		s.give(p, strayBefore, 2, s.slots(q))
	}
	s.give(p, strayFalse, 1, s.ghost)
	s.give(p, strayFalse, 1, s.slots(s.cut+1))
	return p
}

// wantLog checks that a peer shows the log's slots from 2 to last and nothing of
// the stray batch.
func (s *stray) wantLog(t *rapid.T, p *peer, last uint64) {
	t.Helper()
	if c := p.Context(); c.Epoch != strayUndone || c.Anchor != 2 || c.Floor != last || len(c.Voids) > 0 {
		t.Fatalf("ended at %+v, want slots 2 to %d", c, last)
	}
	if got, want := p.view.Metas(), oracle(s.log.slots[1:last]); !maps.Equal(got, want) {
		t.Fatalf("shows %v, want %v", got, want)
	}
}

// TestAMixIsNotJoined holds that a false name under which a slot of the engine's
// came as well is not taken for another name of the engine's process, in
// whatever order, and by whichever way, the proof comes.
func TestAMixIsNotJoined(t *testing.T) {
	for name, undo := range map[string]func(t *rapid.T, s *stray, p *peer){
		"the slot in common last": func(_ *rapid.T, s *stray, p *peer) {
			s.give(p, strayUndone, 2, s.slots(s.cut))
			s.give(p, strayUndone, 2, s.slots(s.cut+1))
		},
		"both at once": func(_ *rapid.T, s *stray, p *peer) {
			s.give(p, strayUndone, 2, s.slots(s.cut, s.cut+1))
		},
		"an owner takes the names for one": func(t *rapid.T, s *stray, p *peer) {
			s.give(p, strayUndone, 2, s.slots(s.cut))
			if _, ok := p.Reunite(strayFalse); ok {
				t.Fatal("the false name was joined")
			}
			s.give(p, strayUndone, 2, s.slots(s.cut+1))
		},
		"an owner undoes the false one": func(t *rapid.T, s *stray, p *peer) {
			if _, ok := p.Republish(strayBefore, 0); !ok {
				t.Fatal("the shadow is gone")
			}
		},
		"a snapshot": func(t *rapid.T, s *stray, p *peer) {
			donor := wide()
			for q := uint64(2); q <= s.cut; q++ {
				s.give(donor, strayUndone, 2, s.slots(q))
			}
			s.give(donor, strayUndone, 2, s.slots(s.cut+2))
			s.give(p, strayFalse, 1, s.slots(s.cut+2))
			if out := p.joinAll(t, donor.cutAll(t), 0); !out.NewEpoch {
				t.Fatalf("the false name was given up for the right one: %+v", out)
			}
			s.give(p, strayUndone, 2, s.slots(s.cut+1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				s := drawStray(t)
				p := s.mixed(wide())
				undo(t, s, p)
				last := s.cut + 1
				if name == "a snapshot" {
					last++
				}
				s.wantLog(t, p, last)
			})
		})
	}
}

// TestAMixIsToldWithoutItsSlots holds the same for peers that keep no slots below
// their floors: the lowest and the highest slot of either name, and the time in
// its name, still tell.
func TestAMixIsToldWithoutItsSlots(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawStray(t)
		p := s.mixed(newPeer(crdt.NewRing(1), crdt.Limits{}))
		s.give(p, strayUndone, 2, s.slots(s.cut))
		s.give(p, strayUndone, 2, s.slots(s.cut+1))
		if c := p.Context(); c.Anchor != 2 || c.Knows(1) {
			t.Fatalf("the false name was joined: %+v", c)
		}
		for q := uint64(2); q < s.cut; q++ {
			s.give(p, strayUndone, 2, s.slots(q))
		}
		s.wantLog(t, p, s.cut+1)
	})
}

// TestAStraySlotFillsNoHole holds that an owner that brings its log back takes
// over nothing that the log's own times rule out.
func TestAStraySlotFillsNoHole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawStray(t)
		p := wide()
		s.give(p, strayBefore, 3, s.slots(3)) // slot 2 was missed
		s.give(p, strayBefore, 2, s.slots(4))
		s.ghost[0].Seq = 2
		s.give(p, strayFalse, 2, s.ghost)
		if _, ok := p.Republish(strayBefore, 0); !ok {
			t.Fatal("the shadow is gone")
		}
		if c := p.Context(); c.Anchor != 2 || c.Knows(2) {
			t.Fatalf("the stray slot fills a hole: %+v", c)
		}
	})
}
