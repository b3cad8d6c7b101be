package fleet

import "sync/atomic"

// lastPage is what answers tell of an engine's habit to take a page less from its
// cache than it finds there: vLLM with EAGLE or MTP computes the last one again
// for its drafter, and says so nowhere.
type lastPage struct {
	dropped atomic.Bool
	against atomic.Int32 // answers in a row that contradict dropped
}

// habitual is how many answers that differ by just a page, and none that does not
// differ, are a habit.
const habitual = 8

// NoteMatch compares the tokens that events vouched for when a request was sent,
// with what DropsLast takes off them, to those that the answer told to be cached.
// Answers that differ by anything but a page say nothing: pages come and go.
func (r *Replica) NoteMatch(matched, cached int) {
	page, l := r.Page(), &r.lastPage
	if page < 1 {
		return
	}
	if matched >= promisedPages*page {
		r.belief.add(untrue(matched, cached))
	}
	dropped, least := l.dropped.Load(), 2*page // else nothing cached would look like a page less
	off := page
	if dropped {
		off, least = -page, page
	}
	switch {
	case matched < least:
	case matched == cached:
		l.against.Store(0)
	case matched-cached == off:
		if l.against.Add(1) >= habitual {
			l.against.Store(0)
			l.dropped.Store(!dropped)
		}
	}
}

// DropsLast reports whether the engine takes a page less from its cache than it
// finds there.
func (r *Replica) DropsLast() bool { return r.lastPage.dropped.Load() }

// forget begins anew, for another process.
func (l *lastPage) forget() {
	l.dropped.Store(false)
	l.against.Store(0)
}
