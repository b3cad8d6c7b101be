package kvevents

import (
	"testing"

	"github.com/banyan-llm/banyan/crdt"
)

// A replay that holds nothing, twice, contradicts the live slots held beside
// it: with an incarnation known they could be of another process, so they are
// dropped.
func TestTrackerDropsWhatAnEmptyReplayContradicts(t *testing.T) {
	s := newScript(t, true)
	s.do(Connected{}, "replay 1")
	s.do(Replayed{slot(1, 1)}, deliver(1, 1, 1))
	s.do(ReplayEnded{true}, "")
	s.do(Connected{}, "replay 1")
	s.do(Live{slot(2, 2)}, "") // held
	s.do(ReplayEnded{true}, "again 1")
	s.do(ReplayEnded{true}, "")
	if n := s.tr.Stats().Discarded; n != 1 {
		t.Errorf("%d slots discarded, want the one held", n)
	}
}

// A held slot that proves a restart by itself is no less a proof beside a
// replay that holds nothing. Later slots may not prove it again: they are above
// all that is known of the process before, as behind a gap of it.
func TestTrackerKeepsAProofThatAnEmptyReplayContradicts(t *testing.T) {
	s := newScript(t, true)
	s.do(Connected{}, "replay 1")
	for seq := uint64(3); seq <= 5; seq++ {
		s.do(Replayed{slot(1, seq)}, deliver(1, 3, seq))
	}
	s.do(ReplayEnded{true}, "")
	s.do(Connected{}, "replay 5") // to process 2, whose replay is lossy
	s.do(ReplayEnded{true}, "replay 1")
	s.do(Live{slot(2, 6)}, "") // proves nothing, and would hide the proof
	s.do(Live{slot(2, 2)}, "") // a repeat
	s.do(Live{slot(2, 7)}, "")
	s.do(ReplayEnded{true}, "again 1")
	s.do(ReplayEnded{true}, deliver(2, 2, 2, 7))
	if n := s.tr.Stats().Discarded; n != 1 {
		t.Errorf("%d slots discarded, want the one before the proof", n)
	}
	s.do(Live{slot(2, 8)}, deliver(2, 2, 8))
}

// A replayed slot that proved a restart counts, though the replays after it,
// which were to tell where the new incarnation begins, brought nothing.
func TestTrackerKeepsAProofThatNoReplayFollowsUp(t *testing.T) {
	for name, prove := range map[string]func(s *script){
		"after a new connection": func(s *script) {
			s.do(Connected{}, "replay 3")
			s.do(Replayed{slot(2, 3)}, "replay 1")
		},
		"while holes are filled": func(s *script) {
			s.do(Live{slot(1, 5)}, deliver(1, 1, 5))
			s.do(Wanted{[]crdt.Span{{From: 4, To: 4}}}, "replay 3")
			s.do(Replayed{slot(2, 3)}, "replay 1")
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := followed(t, true)
			prove(s)
			s.do(Live{slot(2, 7)}, "") // by itself no proof
			s.do(ReplayEnded{false}, "again 1")
			s.do(ReplayEnded{false}, deliver(2, 3, 3, 7))
		})
	}
}

// An owner that heard little itself, because it stood still, holds what comes
// against the mesh: another owner is ahead, and a number below the mesh's last
// with a later time is of another process.
func TestTrackerHoldsSlotsAgainstTheMesh(t *testing.T) {
	s := newScript(t, false)
	s.prior = Prior{Epoch: epochOf(1, 1), Anchor: 1, Floor: 1, LastSeq: 1, LastTS: slot(1, 1).TS}
	s.do(Connected{}, "")
	s.do(Live{slot(1, 2)}, deliver(1, 1, 2))
	s.prior.LastSeq, s.prior.LastTS = 9, slot(1, 9).TS // while this one heard nothing
	s.do(Live{slot(2, 5)}, deliver(2, 5, 5))
	s.prior = Prior{Epoch: epochOf(2, 5), Anchor: 5, Floor: 7, LastSeq: 7, LastTS: slot(2, 7).TS}
	s.do(Live{slot(2, 6)}, deliver(2, 5, 6)) // late, and the same process
}

// The slot asked for is gone from the replay, and slots held beside it prove a
// restart: the incarnation begins with the earliest of those.
func TestTrackerBelievesHeldSlotsWhenTheReplayIsShort(t *testing.T) {
	s := newScript(t, true)
	s.do(Connected{}, "replay 1")
	for seq := uint64(1); seq <= 3; seq++ {
		s.do(Replayed{slot(1, seq)}, deliver(1, 1, seq))
	}
	s.do(ReplayEnded{true}, "")
	s.do(Connected{}, "replay 3") // to another process, whose replay holds two slots
	s.do(Live{slot(2, 2)}, "")
	s.do(Live{slot(2, 3)}, "")
	s.do(Replayed{slot(2, 5)}, "replay 1")
	s.do(Replayed{slot(2, 5)}, deliver(2, 2, 5))
	s.do(ReplayEnded{true}, deliver(2, 2, 2, 3)+"; replay 3") // for slot 4
}
