package report

import (
	"testing"
	"time"
)

// TestAStarvedProcessIsTold: by the mean of a window, so that one late wake-up is
// no trouble, and no longer than it lasts.
func TestAStarvedProcessIsTold(t *testing.T) {
	var w Turns
	now := time.Unix(1_000_000, 0)
	pass := func(late time.Duration) (told bool) {
		for range 2 * turnsWindow / (100 * time.Millisecond) {
			now = now.Add(100 * time.Millisecond)
			w.Note(late, now)
		}
		return turnProblems(w.MeanMs()) != nil
	}
	if pass(-time.Millisecond) || pass(3*time.Millisecond) {
		t.Error("a busy machine is called starved")
	}
	if w.Note(5*time.Second, now); pass(0) {
		t.Error("one late turn is called starvation")
	}
	if !pass(80 * time.Millisecond) {
		t.Errorf("80 ms late each time, told %.0f ms", w.MeanMs())
	}
	if pass(0) {
		t.Error("it is told after it is over")
	}
}
