package follow

import "testing"

// TestTheAnchorIsTheEarliestSlotHad: a replay that does not reach back to what
// came live before it, as one of few slots, does not leave that out.
func TestTheAnchorIsTheEarliestSlotHad(t *testing.T) {
	s := newScript(t, true)
	s.do(Connected{}, "stop")
	s.do(Live{slot(1, 5)}, "")
	s.do(told(1), opened(started(1))+"; replay 1")
	s.do(Live{slot(1, 6)}, "")
	s.do(Live{slot(1, 7)}, "")
	s.do(Replayed{slot(1, 6)}, deliver(started(1), 5, 6))
	s.do(ReplayEnded{true}, deliver(started(1), 5, 5, 7))
}
