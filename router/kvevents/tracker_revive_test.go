package kvevents

import (
	"fmt"
	"testing"

	"github.com/banyan-llm/banyan/crdt"
)

// step is one step of a script whose revival matters.
func (s *script) step(ev TrackerEvent) Output {
	s.now += 10
	return s.tr.Step(s.now, s.prior, ev)
}

func (s *script) revives(ev TrackerEvent, want string) {
	s.t.Helper()
	out := s.step(ev)
	got := fmt.Sprintf("%d as %d anchor %d", out.Revive, out.Epoch, out.Anchor)
	if out.Anew {
		got += " anew"
	}
	if out.Revive == 0 {
		got = ""
	}
	for _, d := range out.Deliver {
		got += fmt.Sprintf(" +%d", d.Seq)
	}
	if got != want {
		s.t.Fatalf("%T%+v in %s:\n got %q\nwant %q", ev, ev, s.tr.Phase(), got, want)
	}
}

// late is a slot of process 1 that was published ms after slot seq was due.
func late(seq uint64, ms int64) crdt.Slot {
	s := slot(1, seq)
	s.TS += 1000 * ms
	return s
}

// followed is a script that follows process 1 from slot 1 to 3.
func followed(t *testing.T, replay bool) *script {
	s := newScript(t, replay)
	if replay {
		s.do(Connected{}, "replay 1")
		s.do(Replayed{slot(1, 1)}, deliver(1, 1, 1))
		s.do(ReplayEnded{true}, "")
	} else {
		s.do(Connected{}, "")
		s.do(Live{slot(1, 1)}, deliver(1, 1, 1))
	}
	s.do(Live{slot(1, 2)}, deliver(1, 1, 2))
	s.do(Live{slot(1, 3)}, deliver(1, 1, 3))
	return s
}

func TestTrackerReunitesTwoNamesOfOneIncarnation(t *testing.T) {
	mine, theirs := epochOf(1, 1), epochOf(1, 2)
	for name, prior := range map[string]Prior{
		"by the mesh's last slot": {Epoch: mine + 7, Anchor: 2, LastSeq: 3, LastTS: slot(1, 3).TS},
		"by the winner's anchor":  {Epoch: theirs, Anchor: 2, LastSeq: 9, LastTS: slot(1, 9).TS},
	} {
		t.Run(name, func(t *testing.T) {
			s := followed(t, false)
			s.prior = prior
			s.prior.Shadows = []uint64{mine}
			s.revives(Tick{}, fmt.Sprintf("%d as %d anchor 2", mine, prior.Epoch))
			s.prior.Shadows, s.prior.Anchor = nil, 1 // the mesh has joined them
			s.revives(Tick{}, "")
			s.revives(Live{slot(1, 4)}, " +4")
			if out := s.step(Tick{}); out.Anchor != 1 {
				t.Errorf("anchor %d, want the lower one", out.Anchor)
			}
		})
	}
}

// The mesh may find that the name before holds a slot of another process. Then
// nothing is joined, and its anchor stays that of the one name.
func TestTrackerKeepsTheAnchorOfTheNameThatIsLeft(t *testing.T) {
	s := followed(t, false)
	s.prior = Prior{Epoch: epochOf(1, 1) + 7, Anchor: 2, LastSeq: 3, LastTS: slot(1, 3).TS, Shadows: []uint64{epochOf(1, 1)}}
	s.revives(Tick{}, fmt.Sprintf("%d as %d anchor 2", epochOf(1, 1), s.prior.Epoch))
	if out := s.step(Live{slot(1, 4)}); out.Anchor != 2 || len(out.Deliver) != 1 {
		t.Errorf("anchor %d, want the mesh's", out.Anchor)
	}
}

func TestTrackerWithoutAShadowOnlyFollows(t *testing.T) {
	s := followed(t, false)
	s.prior = Prior{Epoch: epochOf(1, 1) + 7, Anchor: 2, LastSeq: 3, LastTS: slot(1, 3).TS}
	s.revives(Tick{}, "")
	if s.tr.Epoch() != s.prior.Epoch {
		t.Fatalf("epoch %d", s.tr.Epoch())
	}
}

// A restart that somebody else took for one, and of which nothing comes any
// more, while the connection to the process it ended goes on.
func TestTrackerRepublishesWhatOutlivedAFalseRestart(t *testing.T) {
	mine := epochOf(1, 1)
	s := followed(t, false)
	s.prior = Prior{Epoch: mine + 500, Anchor: 2, LastSeq: 2, LastTS: slot(1, 3).TS + 1, Shadows: []uint64{mine}}
	s.revives(Live{late(4, 900)}, " +4") // not silent for long enough: refused by the mesh
	s.revives(Live{late(5, 1_100)}, fmt.Sprintf("%d as %d anchor 1 anew +5", mine, mine+501))
	s.prior = Prior{Epoch: mine + 501, Anchor: 1, LastSeq: 5, LastTS: late(5, 1_100).TS}
	s.revives(Live{late(6, 1_100)}, " +6")
}

// The false restart's number was never heard here, and slots went on before the
// silence was long enough: those around it still tell.
func TestTrackerOutlivesARestartWhoseNumberItMissed(t *testing.T) {
	s := newScript(t, false)
	s.prior = Prior{Epoch: epochOf(1, 1), Anchor: 1, Floor: 30, LastSeq: 30, LastTS: slot(1, 30).TS}
	s.step(Connected{})
	s.step(Live{slot(1, 30)}) // the connection is to that process
	s.step(Live{slot(1, 31)})
	s.prior = Prior{Epoch: epochOf(1, 1) + 500, Anchor: 1, LastSeq: 1, LastTS: slot(1, 31).TS + 1, Shadows: []uint64{epochOf(1, 1)}}
	s.revives(Live{late(32, 900)}, " +32")
	s.revives(Live{late(33, 1_100)}, fmt.Sprintf("%d as %d anchor 1 anew +33", epochOf(1, 1), epochOf(1, 1)+501))
}

// Another owner named the process by a slot that was missed here: the next slot
// that both hear makes one of the two names, and no restart is counted.
func TestTrackerJoinsANameGivenByASlotItMissed(t *testing.T) {
	mine, theirs := epochOf(1, 1), epochOf(1, 4)
	s := followed(t, false)
	before := s.tr.Stats().Restarts
	s.prior = Prior{Epoch: theirs, Anchor: 4, LastSeq: 4, LastTS: slot(1, 4).TS, Shadows: []uint64{mine}}
	s.revives(Live{late(5, 1_100)}, " +5")
	s.prior.LastSeq, s.prior.LastTS = 5, late(5, 1_100).TS
	s.revives(Tick{}, fmt.Sprintf("%d as %d anchor 4", mine, theirs))
	if n := s.tr.Stats().Restarts - before; n != 0 {
		t.Errorf("%d restarts counted", n)
	}
}

// None of these is a proof.
func TestTrackerDoesNotRepublish(t *testing.T) {
	mine := epochOf(1, 1)
	outranked := Prior{Epoch: mine + 500, Anchor: 2, LastSeq: 2, LastTS: slot(1, 3).TS + 1, Shadows: []uint64{mine}}
	for name, change := range map[string]func(s *script){
		"a new connection": func(s *script) {
			after := s.prior
			s.prior = Prior{Epoch: mine, Anchor: 1, LastSeq: 3, LastTS: slot(1, 3).TS}
			s.step(Connected{})
			s.prior = after
		},
		"no shadow":                       func(s *script) { s.prior.Shadows = nil },
		"the other one goes on":           func(s *script) { s.prior.LastTS = late(5, 1_000).TS },
		"the other one is another engine": func(s *script) { s.prior.LastSeq = 40 },
		"its time is not known":           func(s *script) { s.prior.LastTS = 0 },
		"another owner's name for it, by a slot missed here": func(s *script) {
			s.prior.Epoch, s.prior.Anchor, s.prior.LastSeq, s.prior.LastTS = epochOf(1, 4), 4, 4, slot(1, 4).TS
		},
		"another owner's name for it, by a slot missed in between": func(s *script) {
			s.step(Live{slot(1, 5)})
			s.prior.Epoch, s.prior.Anchor, s.prior.LastSeq, s.prior.LastTS = epochOf(1, 4), 4, 4, slot(1, 4).TS
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := followed(t, false)
			s.prior = outranked
			change(s)
			if out := s.step(Live{late(6, 1_100)}); out.Revive != 0 {
				t.Fatalf("revived: %+v", out)
			}
		})
	}
}

// spoiled is a script whose process another owner called by a stray batch's name:
// it heard that and then, as all did, slot 4.
func spoiled(t *testing.T, change func(s *script)) *script {
	s := followed(t, false)
	change(s)
	s.step(Live{slot(1, 4)})
	s.prior = Prior{
		Epoch: epochOf(1, 1) + 500, Anchor: 1, Floor: 1, FirstSeq: 1, FirstTS: slot(1, 3).TS + 1,
		LastSeq: 4, LastTS: slot(1, 4).TS, Shadows: []uint64{epochOf(1, 1)},
	}
	return s
}

func TestTrackerBringsBackWhatAStrayBatchSpoiled(t *testing.T) {
	mine := epochOf(1, 1)
	s := spoiled(t, func(*script) {})
	s.revives(Tick{}, fmt.Sprintf("%d as %d anchor 1 anew", mine, mine+501))
	s.prior = Prior{Epoch: mine + 501, Anchor: 1, Floor: 4, FirstSeq: 1, FirstTS: slot(1, 1).TS, LastSeq: 4, LastTS: slot(1, 4).TS}
	s.revives(Live{slot(1, 5)}, " +5")
}

// Who cannot say it of its own process neither brings it back nor takes up the
// name: both heard may be the other way round.
func TestTrackerLeavesASpoiledNameToOthers(t *testing.T) {
	for name, change := range map[string]func(s *script){
		"a new connection": func(s *script) { s.step(Connected{}) },
		"a slot was missed": func(s *script) {
			*s = *newScript(t, false)
			s.step(Connected{})
			s.step(Live{slot(1, 1)})
			s.step(Live{slot(1, 3)})
			s.step(Live{slot(1, 5)})
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := spoiled(t, change)
			if out := s.step(Tick{}); out.Revive != 0 || out.Epoch != epochOf(1, 1) {
				t.Fatalf("%+v", out)
			}
		})
	}
	s := spoiled(t, func(*script) {})
	s.prior.Shadows = nil
	if out := s.step(Tick{}); out.Revive != 0 || out.Epoch != epochOf(1, 1) {
		t.Fatalf("without a shadow: %+v", out)
	}
}

// A stray batch of another process makes this peer see a restart; the replay
// is still that of the process before.
func TestTrackerRecallsTheIncarnationBefore(t *testing.T) {
	mine := epochOf(1, 1)
	s := followed(t, true)
	s.do(Live{slot(2, 1)}, deliver(2, 1, 1))
	stray := epochOf(2, 1)
	s.prior = Prior{Epoch: stray, Anchor: 1, LastSeq: 1, LastTS: slot(2, 1).TS, Shadows: []uint64{mine}}
	s.do(Live{slot(2, 3)}, deliver(2, 1, 3)) // a hole
	s.do(Wanted{[]crdt.Span{{From: 2, To: 2}}}, "replay 1")
	s.do(Replayed{slot(1, 1)}, "replay 3") // other: is it the one before?
	s.revives(Replayed{slot(1, 3)}, fmt.Sprintf("%d as %d anchor 1 anew", mine, stray+1))
	s.revives(Replayed{slot(1, 4)}, " +4")
}

func TestTrackerRecallsInVain(t *testing.T) {
	s := followed(t, true)
	s.do(Live{slot(2, 1)}, deliver(2, 1, 1))
	s.prior = Prior{Epoch: epochOf(2, 1), Anchor: 1, LastSeq: 1, LastTS: slot(2, 1).TS, Shadows: []uint64{epochOf(1, 1)}}
	s.now += bumpWindowMs / 2
	s.do(Live{slot(3, 1)}, deliver(3, 1, 1)) // another restart: slot 1 needs no replay
	s.prior.Epoch, s.prior.Shadows = epochOf(3, 1), []uint64{epochOf(1, 1), epochOf(2, 1)}
	s.now += bumpWindowMs / 2
	s.do(Live{slot(3, 3)}, deliver(3, 1, 3))
	s.do(Wanted{[]crdt.Span{{From: 2, To: 2}}}, "replay 1")
	s.do(Replayed{slot(4, 1)}, "replay 1") // slot 1 of process 2 is asked for
	s.do(ReplayEnded{true}, "replay 1")
	s.do(Replayed{slot(4, 1)}, deliver(4, 1, 1))
}

// More revivals than restarts are allowed are a quarantine like any other.
func TestTrackerRevivalsAreRestarts(t *testing.T) {
	mine := epochOf(1, 1)
	s := followed(t, false)
	last := int64(0)
	for i := range uint64(3) {
		s.prior = Prior{Epoch: mine + 500*(i+1), Anchor: 1, LastSeq: 2, LastTS: slot(1, 3).TS + last + 1, Shadows: []uint64{s.tr.Epoch()}}
		last += 1_500_000
		out := s.step(Live{late(4+i, last/1000)})
		if revived := out.Revive != 0; revived != (i < 2) {
			t.Fatalf("revival %d: %+v", i, out)
		}
	}
	if s.tr.Phase() != Quarantined {
		t.Errorf("phase %s", s.tr.Phase())
	}
}

// strayed is a script that heard process 1 up to a slot and then, over the same
// connection, a first batch of process 2.
func strayed(t *testing.T, last uint64) *script {
	s := newScript(t, false)
	s.step(Connected{})
	for seq := uint64(1); seq <= last; seq++ {
		s.step(Live{slot(1, seq)})
	}
	return s.stray()
}

func (s *script) stray() *script {
	s.step(Live{slot(2, 1)})
	s.prior = Prior{Epoch: epochOf(2, 1), Anchor: 1, Floor: 1, LastSeq: 1, LastTS: slot(2, 1).TS, Shadows: []uint64{epochOf(1, 1)}}
	return s
}

// afterStray is a slot of process 1 behind the first of process 2.
func afterStray(seq uint64) Live { return Live{late(seq, 1_000_000)} }

// A connection is to one process: what goes on over it after a stray batch
// proves that nothing restarted, at once and without a replay.
func TestTrackerResumesWhatAStrayBatchBrokeOff(t *testing.T) {
	as := func(seq int) string {
		return fmt.Sprintf("%d as %d anchor 1 anew +%d", epochOf(1, 1), epochOf(2, 1)+1, seq)
	}
	t.Run("with the next slot", func(t *testing.T) {
		s := strayed(t, 9)
		s.revives(afterStray(10), as(10))
		s.prior = Prior{Epoch: epochOf(2, 1) + 1, Anchor: 1, Floor: 10, LastSeq: 10, LastTS: afterStray(10).Slot.TS}
		s.revives(afterStray(11), " +11")
	})
	t.Run("with the very next slot of a young process", func(t *testing.T) {
		strayed(t, 5).revives(afterStray(6), as(6))
	})
	t.Run("with a later one", func(t *testing.T) {
		strayed(t, 40).revives(afterStray(43), as(43))
	})
	t.Run("behind one that was on its way", func(t *testing.T) {
		s := strayed(t, 40)
		s.revives(Live{slot(1, 41)}, "")
		s.revives(afterStray(42), as(42))
	})
	t.Run("behind one of a young process that was on its way", func(t *testing.T) {
		s := strayed(t, 6)
		s.revives(Live{slot(1, 7)}, "")
		s.revives(afterStray(8), as(8))
	})
	t.Run("after a repeat", func(t *testing.T) {
		s := newScript(t, false)
		s.step(Connected{})
		for _, seq := range []uint64{38, 39, 40, 38} {
			s.step(Live{slot(1, seq)})
		}
		s.stray().prior.Shadows = []uint64{epochOf(1, 38)}
		s.revives(afterStray(41), fmt.Sprintf("%d as %d anchor 38 anew +41", epochOf(1, 38), epochOf(2, 1)+1))
	})
	t.Run("of an incarnation taken over from the mesh", func(t *testing.T) {
		s := newScript(t, false)
		s.prior = Prior{Epoch: epochOf(1, 1), Anchor: 1, Floor: 30, LastSeq: 30, LastTS: slot(1, 30).TS}
		s.step(Connected{})
		s.step(Live{slot(1, 31)})
		s.stray().revives(afterStray(32), as(32))
	})
	t.Run("of one whose slots were held", func(t *testing.T) {
		s := newScript(t, true)
		s.step(Connected{})
		for seq := uint64(1); seq <= 12; seq++ {
			s.step(Live{slot(1, seq)})
		}
		s.step(Replayed{slot(1, 1)})
		s.step(ReplayEnded{true})
		s.stray().revives(afterStray(13), as(13))
	})
}

// None of these is a proof either.
func TestTrackerDoesNotResume(t *testing.T) {
	for name, try := range map[string]func(s *script) Live{
		"a new connection": func(s *script) Live {
			s.step(Connected{})
			return afterStray(41)
		},
		"the new process goes on":          func(s *script) Live { return Live{slot(2, 2)} },
		"it is as near to the new process": func(s *script) Live { return afterStray(47) },
		"it is from before":                func(s *script) Live { return Live{slot(1, 41)} },
		"it is known":                      func(s *script) Live { return afterStray(40) },
		"no shadow": func(s *script) Live {
			s.prior.Shadows = nil
			return afterStray(41)
		},
		"the mesh has moved on": func(s *script) Live {
			s.prior.Epoch, s.prior.LastTS = epochOf(3, 1), slot(3, 1).TS
			return afterStray(41)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := strayed(t, 40)
			live := try(s)
			if out := s.step(live); out.Revive != 0 {
				t.Fatalf("revived: %+v", out)
			}
		})
	}
	for name, of := range map[string][2]uint64{
		"a process too young to tell by its numbers": {4, 5},
		"one too young to have missed a slot":        {8, 10},
	} {
		t.Run(name, func(t *testing.T) {
			if out := strayed(t, of[0]).step(afterStray(of[1])); out.Revive != 0 {
				t.Fatalf("revived: %+v", out)
			}
		})
	}
}
