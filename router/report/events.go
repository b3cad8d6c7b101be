package report

import (
	"fmt"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/router/console"
)

// Feed is where a replica's events are read, and what came of it.
type Feed struct {
	Events  string // where they are read; "": nowhere, or they are no socket's
	Topic   string
	Tells   string // where the engine says that it publishes; "": it does not say
	Started uint64 // when its process began, ms since 1970; 0: no event came
	Floor   uint64 // batches folded
	Facts   crdt.Sum
	// Untrue of Checked answers reported much fewer cached tokens than these events
	// promised.
	Untrue, Checked int
}

// history is what came of a feed: equal for two only if it is one log.
type history struct{ started, floor, count, facts uint64 }

func (a *Feed) history() history {
	return history{a.Started, a.Floor, a.Facts.Count, a.Facts.Facts}
}

// eventProblems says where a replica's events are not its own.
func (f *Fleet) eventProblems() (out []console.Problem) {
	told := map[string]bool{}
	add := func(text, help string, who ...string) {
		out = append(out, console.Problem{Text: text, Help: help})
		for _, name := range who {
			told[name] = true
		}
	}
	histories, addresses, publishers := map[history]*Listed{}, map[[2]string]*Listed{}, map[string]*Listed{}
	for i := range f.Listed {
		a := &f.Listed[i]
		if !a.Serves {
			continue
		}
		came, from := a.Feed.history(), [2]string{a.Feed.Events, a.Feed.Topic}
		if b := histories[came]; came.count > 0 && b != nil && a.URL != b.URL {
			add(fmt.Sprintf("%s and %s are one engine under two URLs: both began at the same time, and their events are the same", b.Name, a.Name),
				"Take one of them out of `replicas`: the engine gets the requests of two", a.Name, b.Name)
		} else if b := addresses[from]; from[0] != "" && b != nil && a.URL != b.URL {
			add(fmt.Sprintf("The events of %s and %s are read from one address, %s", b.Name, a.Name, a.Feed.Events),
				"Set `events` of each to where its own engine publishes, or leave it out if the engine reports it", a.Name, b.Name)
		}
		histories[came], addresses[from], publishers[a.Feed.Tells] = a, a, a
	}
	for i := range f.Listed {
		a := &f.Listed[i]
		if told[a.Name] || !a.Serves {
			continue
		}
		if b := publishers[a.Feed.Events]; a.Feed.Events != "" && a.Feed.Tells != "" && a.Feed.Tells != a.Feed.Events && b != nil {
			add(fmt.Sprintf("The events that are read for %s are those of %s: %s publishes at %s", a.Name, b.Name, a.Name, a.Feed.Tells),
				"Correct `events` (and `replay`), or leave them out: the engine reports them", a.Name)
		} else if a.Feed.Checked >= leastChecked && 4*a.Feed.Untrue > a.Feed.Checked {
			add(fmt.Sprintf("What the events of %s say does not come true: %d of %d answers reported less than three quarters of the cached tokens that they promised", a.Name, a.Feed.Untrue, a.Feed.Checked),
				"Check that `events` is the address of this engine and not of another one, and that nothing between router and engine changes prompts", a.Name)
		}
	}
	return out
}

// leastChecked is how many answers say whether events are true. Of two replicas
// with crossed events some 40 % of the promises are untrue: what is computed
// where it is not cached is cached there afterwards.
const leastChecked = 16
