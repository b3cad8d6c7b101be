package fleet

import "testing"

// TestTheDroppedPageIsAHabit: a page less in answer after answer is one, a page
// less now and then is not, and it is given up as it was learned.
func TestTheDroppedPageIsAHabit(t *testing.T) {
	r := &Replica{}
	r.facts.Store(&Facts{BlockSize: 16})
	note := func(matched, cached, times int) {
		for range times {
			r.NoteMatch(matched, cached)
		}
	}
	note(64, 48, 7)
	note(64, 64, 1) // it took all
	note(64, 48, 7)
	note(16, 0, 20)  // that may be anything
	note(96, 16, 20) // evicted meanwhile
	note(64, 80, 20) // stored meanwhile
	if r.DropsLast() {
		t.Error("learned from what is no habit")
	}
	note(64, 48, 1)
	if !r.DropsLast() {
		t.Error("not learned")
	}
	note(48, 48, 20) // as it is believed now
	note(48, 64, 7)
	note(48, 48, 1)
	note(48, 64, 7)
	if !r.DropsLast() {
		t.Error("given up too soon")
	}
	note(16, 32, 1)
	if r.DropsLast() {
		t.Error("not given up")
	}
	r.facts.Store(&Facts{})
	note(64, 48, 20)
	if r.DropsLast() {
		t.Error("learned without a page size")
	}
}
