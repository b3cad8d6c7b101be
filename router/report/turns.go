package report

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/banyan-llm/banyan/router/console"
)

// turnsWindow is how long waits are averaged; lateMs the mean that an operator
// should hear of. A machine whose cores are all busy stays below a few ms; a
// container that may use 3 % of a core reaches 80.
const (
	turnsWindow = 15 * time.Second
	lateMs      = 40
)

// Turns measures how late a process gets the CPU: how long after it should have
// been woken a goroutine that does little runs. Note has one caller at a time.
type Turns struct {
	began time.Time // of the window; zero before the first
	late  time.Duration
	n     int
	mean  atomic.Int64 // of the last full window, ns
}

// Note adds one wake-up, so late, at now.
func (t *Turns) Note(late time.Duration, now time.Time) {
	if t.began.IsZero() {
		t.began = now
	}
	t.late, t.n = t.late+max(0, late), t.n+1
	if now.Sub(t.began) >= turnsWindow {
		t.mean.Store(int64(t.late) / int64(t.n))
		t.began, t.late, t.n = now, 0, 0
	}
}

// MeanMs is the mean of the last full window; 0 before its end.
func (t *Turns) MeanMs() float64 { return float64(t.mean.Load()) / 1e6 }

// turnProblems says when the process waits for the CPU.
func turnProblems(ms float64) []console.Problem {
	if ms < lateMs {
		return nil
	}
	return []console.Problem{{
		Text: fmt.Sprintf("This peer waits %.0f ms for the CPU each time it has something to do", ms),
		Help: "Requests and load data wait as long, several times each. Raise its CPU limit (in a container, resources.limits.cpu), or take other work off the machine",
	}}
}
