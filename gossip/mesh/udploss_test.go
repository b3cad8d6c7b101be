package mesh

import (
	"testing"
	"time"
)

// One lost probe now and then is no fault; one after the other is, until they
// are answered again.
func TestUDPIsLostWhenProbeAfterProbeIs(t *testing.T) {
	var u udpLoss
	now := time.Unix(1_000_000, 0)
	for range 3 * lostProbes {
		if u.note(now); u.lost(now) {
			t.Fatal("one lost probe in 20 s is a fault")
		}
		now = now.Add(20 * time.Second)
	}
	for range lostProbes {
		now = now.Add(time.Second)
		u.note(now)
	}
	if !u.lost(now) || u.lost(now.Add(lostWithin)) {
		t.Errorf("at once %v, a minute later %v", u.lost(now), u.lost(now.Add(lostWithin)))
	}
}

// A member that fails and comes back as the same process, twice in a while, is
// told from one that failed once.
func TestAMemberThatComesAndGoes(t *testing.T) {
	r := newRoster([16]byte{1})
	now := time.Unix(1_000_000, 0)
	goes := func(state MemberState) bool {
		now = now.Add(time.Minute)
		r.apply("b", Member{ID: [16]byte{2}}, state, now)
		return r.list()[0].Flaps(now)
	}
	for i, want := range []struct {
		state MemberState
		flaps bool
	}{{Alive, false}, {Alive, false}, {Failed, false}, {Alive, false}, {Alive, false}, {Failed, false}, {Alive, true}, {Failed, true}} {
		if got := goes(want.state); got != want.flaps {
			t.Errorf("%d: %v", i, got)
		}
	}
	if m := r.list()[0]; m.Flaps(now.Add(flapWithin)) {
		t.Error("it is still called so after it stayed")
	}
}
