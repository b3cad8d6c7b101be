package follow

import (
	"slices"

	"github.com/banyan-llm/banyan/crdt"
)

// seek holds live slots until it is decided whose they are, or what was missed
// before them has come.
type seek struct {
	from     uint64      // first slot asked for
	since    int64       // ms
	attempts int         // replays asked for
	short    bool        // the replay does not reach back to it
	held     []crdt.Slot // live, ascending
	bytes    int         // of their bodies
}

// fetch asks the replay for holes.
type fetch struct {
	running  bool
	missing  crdt.Spans
	since    int64  // ms
	attempts int    // of this fetch
	idle     int    // answered ones in a row without progress
	heard    bool   // this attempt brought something
	before   uint64 // missing when this attempt began
}

// holding reports whether live slots wait.
func (t *Tracker) holding() bool { return t.phase == Asking || t.waiting() }

// waiting reports whether they wait for a replay.
func (t *Tracker) waiting() bool {
	return t.phase == Seeking || t.phase == Verifying || t.phase == Catching
}

// discover looks for the earliest slot of a process of which none is known.
func (t *Tracker) discover() {
	if t.phase != Quarantined {
		t.search(Seeking, 1)
	}
}

// catchUp asks for what was said since the last known slot.
func (t *Tracker) catchUp() {
	if t.inc.anchor == 0 {
		t.discover()
		return
	}
	from := t.inc.last.seq
	if t.prior.Epoch == t.inc.epoch {
		from = max(from, t.prior.LastSeq)
	}
	t.search(Catching, from)
}

// search starts a replay, or, if there is none, goes on with what was held;
// proof may come live, so Verifying waits all the same.
func (t *Tracker) search(phase Phase, from uint64) {
	held, bytes := t.seek.held, t.seek.bytes
	t.phase = phase
	t.seek = seek{from: max(from, 1), since: t.nowMs, attempts: 1, held: held, bytes: bytes}
	t.fetch.running = false
	switch {
	case phase == Verifying && t.provedLive():
		t.catchUp()
	case t.replay:
		t.ask(t.seek.from, false)
	case phase != Verifying:
		t.settle()
	}
}

// ask puts a replay request out.
func (t *Tracker) ask(from uint64, again bool) {
	t.out.Replay = &ReplayFrom{From: from, Again: again}
	t.stats.Replays++
}

// hold keeps a live slot back. Over the bounds a hold for a replay ends, and one
// for the start time begins anew: what is let go comes back as a hole.
func (t *Tracker) hold(s crdt.Slot) {
	if len(t.seek.held) == 0 {
		t.seek.since = t.nowMs
	}
	t.seek.held = append(t.seek.held, s)
	t.seek.bytes += len(s.Body)
	switch over := len(t.seek.held) > heldSlots || t.seek.bytes > heldBytes; {
	case over && t.phase == Asking:
		t.stats.Overflows++
		t.stats.Discarded += uint64(len(t.seek.held))
		t.seek = seek{}
	case over:
		t.stats.Overflows++
		t.out.StopReplay = true
		t.settle()
	default:
		t.prove()
	}
}

// waitOver ends a wait for a replay that took too long.
func (t *Tracker) waitOver() {
	switch {
	case t.prove():
	case t.phase == Verifying && t.replay:
		t.another() // what it kept of before may be had yet
	default:
		t.settle()
	}
}

// provedLive reports whether the mesh's last slot is among those held: then the
// process is the mesh's.
func (t *Tracker) provedLive() bool {
	last := t.inc.last
	if t.prior.Epoch == t.inc.epoch {
		last = t.prior.last()
	}
	return slices.ContainsFunc(t.seek.held, func(s crdt.Slot) bool { return last.is(&s) || t.inc.last.is(&s) })
}

// replayed takes one batch of the replay in flight.
func (t *Tracker) replayed(s crdt.Slot) {
	switch {
	case t.phase == Verifying:
		t.examine(s)
	case t.phase == Seeking && t.inc.anchor == 0:
		first := s
		if held := t.seek.held; len(held) > 0 && held[0].Seq < s.Seq {
			first = held[0] // the replay does not reach back to it any more
		}
		if t.meet(&first) {
			t.accept(s)
		}
	case t.waiting():
		t.accept(s)
	case t.fetch.running:
		t.fetched(s)
	}
}

// examine lets the first replayed slot tell whether the process is the mesh's.
// One past the last known tells nothing: the replay does not reach back to it.
func (t *Tracker) examine(s crdt.Slot) {
	switch {
	case t.inc.last.is(&s):
		t.phase = Catching
		t.accept(s)
	case s.Seq > t.inc.last.seq:
		t.seek.short = true
	default:
		t.another()
	}
}

// another begins an incarnation of its own: nothing proves that it is the one
// known. Its first slot will name it.
func (t *Tracker) another() {
	t.begins(incarnation{})
	t.discover()
}

// replayEnded ends the replay in flight.
func (t *Tracker) replayEnded(complete bool) {
	switch {
	case t.waiting() && !complete && t.seek.attempts < idleAttempts:
		t.seek.attempts++
		t.ask(t.seek.from, true)
	case t.phase == Verifying && complete && !t.seek.short:
		t.another()
	case t.phase == Verifying: // the live stream may prove it yet, until the wait is over
	case t.waiting():
		t.settle()
	case t.fetch.running:
		t.fetchEnded(complete)
	}
}

// settle ends a hold with what is known and delivers what was held.
func (t *Tracker) settle() {
	s, phase := t.seek, t.phase
	t.seek, t.phase = seek{}, Following
	if phase == Verifying {
		t.begins(incarnation{}) // unproved
	}
	for _, slot := range s.held {
		if t.phase == Following && t.meet(&slot) {
			t.accept(slot)
		} else {
			t.stats.Ignored++
		}
	}
	switch {
	case t.phase != Following:
	case t.inc.anchor == 0:
		t.begin(nil)
	case phase == Seeking:
		t.begin(t.holes(t.inc.anchor))
	default:
		t.begin(t.holes(max(s.from, t.inc.anchor) + 1))
	}
}

// wanted asks for slots that nobody in the mesh has.
func (t *Tracker) wanted(want []crdt.Span) {
	if t.inc.anchor == 0 || t.phase == Quarantined || t.phase == Fresh || t.phase == Asking || t.phase == Verifying {
		return
	}
	top := t.inc.last.seq
	if t.prior.Epoch == t.inc.epoch {
		top = max(top, t.prior.LastSeq)
	}
	var missing crdt.Spans
	for _, sp := range want {
		missing = missing.Add(crdt.Span{From: max(sp.From, t.inc.anchor, 1), To: min(sp.To, top)})
	}
	if !t.replay {
		t.exhaust(missing)
		return
	}
	t.begin(missing)
}

// holes are the numbers from here to the last that are not known.
func (t *Tracker) holes(from uint64) crdt.Spans {
	return crdt.Spans(nil).Add(crdt.Span{From: from, To: t.inc.last.seq}).Minus(t.inc.known)
}

// begin adds holes to the fetch and starts it unless a replay is in flight.
func (t *Tracker) begin(missing crdt.Spans) {
	t.fetch.missing = t.fetch.missing.Union(missing)
	if !t.replay {
		t.fetch = fetch{}
		return
	}
	t.giveUpBroken()
	t.fetch.missing = t.fetch.missing[:min(len(t.fetch.missing), maxSpans)]
	if len(t.fetch.missing) == 0 || t.fetch.running || t.phase != Following {
		return
	}
	t.fetch = fetch{missing: t.fetch.missing, since: t.nowMs}
	t.attempt(false)
}

// giveUpBroken reports slots whose bytes came and could not be decoded.
func (t *Tracker) giveUpBroken() {
	gone := crdt.Overlap(t.broken, t.fetch.missing)
	t.fetch.missing = t.fetch.missing.Minus(gone)
	t.exhaust(gone)
}

// attempt asks for the replay from the first hole on.
func (t *Tracker) attempt(again bool) {
	t.fetch.running, t.fetch.heard = true, false
	t.fetch.attempts++
	t.fetch.before = t.fetch.missing.Size()
	t.ask(t.fetch.missing[0].From, again)
}

// fetched takes one replayed slot while holes are being filled.
func (t *Tracker) fetched(s crdt.Slot) {
	t.fetch.heard = true
	t.accept(s)
	m := t.fetch.missing
	if len(m) == 0 || s.Seq >= m[len(m)-1].To {
		t.out.StopReplay = true
		t.fetchEnded(true)
	}
}

// fetchEnded decides whether to ask again: the replay is lossy, so a hole is
// given up only after attempts without progress. One that was not answered at
// all says nothing about the holes.
func (t *Tracker) fetchEnded(complete bool) {
	f := &t.fetch
	f.running = false
	t.giveUpBroken()
	n := f.missing.Size()
	switch {
	case n < f.before:
		f.idle = 0
	case complete || f.heard:
		f.idle++
	}
	switch {
	case n == 0:
		t.fetch = fetch{}
	case f.idle >= idleAttempts || f.attempts >= maxAttempts || t.nowMs-f.since > fetchMs:
		t.exhaust(f.missing)
		t.fetch = fetch{}
	default:
		t.attempt(true)
	}
}

// exhaust reports slots that the engine cannot give any more.
func (t *Tracker) exhaust(gone []crdt.Span) {
	t.out.Exhausted = append(t.out.Exhausted, gone...)
}
