package kvevents

import "testing"

// A replay that holds nothing, twice, contradicts the live slots held beside
// it: with an incarnation known they could be of another process, so they are
// dropped, and what comes next is asked about again.
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
