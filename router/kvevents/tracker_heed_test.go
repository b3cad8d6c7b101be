package kvevents

import (
	"testing"

	"github.com/banyan-llm/banyan/crdt"
)

// mixedUp is a script that took a restart for a gap: it follows slots 3 to 5 of
// process 1 and 7 and 8 of process 2 as one. Then it learns from the mesh what
// process 2 is called.
func mixedUp(t *testing.T) *script {
	s := newScript(t, true)
	s.do(Connected{}, "replay 1")
	s.do(Replayed{slot(1, 3)}, deliver(1, 3, 3))
	s.do(Replayed{slot(1, 4)}, deliver(1, 3, 4))
	s.do(Replayed{slot(1, 5)}, deliver(1, 3, 5))
	s.do(ReplayEnded{true}, "")
	s.do(Live{slot(2, 7)}, deliver(1, 3, 7))
	s.do(Live{slot(2, 8)}, deliver(1, 3, 8))
	s.prior = Prior{Epoch: epochOf(2, 6), Anchor: 3, Floor: 5, LastSeq: 8, LastTS: slot(2, 8).TS}
	s.do(Wanted{[]crdt.Span{{From: 6, To: 6}}}, "replay 5")
	if s.tr.Epoch() != s.prior.Epoch {
		t.Fatalf("epoch %d, want the mesh's %d", s.tr.Epoch(), s.prior.Epoch)
	}
	return s
}

// An owner that mixed two processes and takes up the right name has the process
// before in its memory: what the replay says of the same numbers is no restart.
func TestTrackerForgetsTheProcessBeforeANameItTakesUp(t *testing.T) {
	s := mixedUp(t)
	s.do(Replayed{slot(2, 5)}, "")
	out := s.step(Replayed{slot(2, 6)})
	if out.Minted || out.Epoch != s.prior.Epoch || len(out.Deliver) != 1 {
		t.Fatalf("%+v, want slot 6 under the mesh's epoch", out)
	}
	if n := s.tr.Stats().Restarts; n != 0 {
		t.Errorf("%d restarts counted", n)
	}
}

// What is later than all that is remembered proves a restart as before, and so
// does another time of the slot that led to the name.
func TestTrackerProvesARestartAfterANameItTakesUp(t *testing.T) {
	s := mixedUp(t)
	s.do(Live{slot(3, 1)}, deliver(3, 1, 1))

	s = followed(t, true)
	s.prior = Prior{Epoch: epochOf(1, 3) + 7, Anchor: 1, LastSeq: 3, LastTS: slot(1, 3).TS}
	other := slot(1, 3)
	other.TS--
	s.do(Live{other}, "replay 1")
}
