package kvevents

import (
	"slices"

	"github.com/banyan-llm/banyan/crdt"
)

// question is what a replay is to answer.
type question uint8

const (
	verify   question = iota // is it still the incarnation whose slot was asked for?
	discover                 // which incarnation is it, and what is its earliest slot?
	recall                   // is it the one before, whose last slot was asked for?
	answered                 // decided; the rest of the replay is delivered
)

// seek is a replay that decides on the incarnation. Live slots are held
// meanwhile: they belong to the process that answers.
type seek struct {
	open     bool
	question question
	from     uint64      // first slot asked for
	base     uint64      // answered: slots behind this one must come
	suspect  bool        // a live slot speaks for a restart
	proved   bool        // the replay itself proved one
	proof    []crdt.Slot // the replayed slot that did, if any
	since    int64       // ms
	attempts int
	got      []crdt.Slot // replayed, undecided
	held     []crdt.Slot // live
	bytes    int         // of held and got bodies
}

// fetch asks the replay for holes.
type fetch struct {
	running  bool
	missing  spans
	since    int64  // ms
	attempts int    // of this fetch
	idle     int    // answered ones in a row without progress
	heard    bool   // this attempt brought something
	before   uint64 // missing when this attempt began
}

// holding reports whether live slots wait for a replay.
func (t *Tracker) holding() bool { return t.phase == Seeking || t.phase == Verifying }

// search starts a replay with a question. A fetch under way is taken up again
// afterwards.
func (t *Tracker) search(phase Phase, q question, from uint64) {
	if !t.seek.open {
		t.seek = seek{open: true, since: t.nowMs, base: t.inc.last}
	}
	t.phase = phase
	t.seek.question, t.seek.from, t.seek.attempts, t.seek.got = q, from, 1, nil
	t.fetch.running = false
	t.ask(from, false)
}

// ask puts a replay request out.
func (t *Tracker) ask(from uint64, again bool) {
	t.out.Replay = &ReplayFrom{From: from, Again: again}
	t.stats.Replays++
}

// hold keeps a live slot back, or ends the hold if there are too many.
func (t *Tracker) hold(s crdt.Slot) {
	t.seek.held = append(t.seek.held, s)
	t.seek.bytes += len(s.Body)
	t.bound()
}

// bound ends a hold that takes too much memory.
func (t *Tracker) bound() {
	if len(t.seek.held)+len(t.seek.got) > heldSlots || t.seek.bytes > heldBytes {
		t.stats.Overflows++
		t.out.StopReplay = true
		t.settle()
	}
}

// replayed takes one batch of the replay in flight.
func (t *Tracker) replayed(s crdt.Slot) {
	switch {
	case t.holding() && t.seek.question == answered:
		t.accept(s)
	case t.holding():
		t.examine(s)
	case t.fetch.running:
		t.fetched(s)
	}
}

// examine lets one replayed slot answer the question.
func (t *Tracker) examine(s crdt.Slot) {
	t.seek.got = append(t.seek.got, s)
	t.seek.bytes += len(s.Body)
	changed := t.judge(&s) == other ||
		t.seek.question == verify && s.Seq > t.seek.from && t.heldOther(&s) != nil // the slot asked for is gone
	switch {
	case t.seek.question == recall && t.prev != nil && t.prev.same(&s):
		if t.revive(*t.prev) {
			t.seek.base = t.inc.last
			t.answer(false)
		}
	case t.seek.question == recall:
		t.search(Seeking, discover, 1)
	case t.inc.epoch == 0 || t.seek.proved:
		t.answer(true)
	case t.inc.same(&s):
		t.answer(false)
	case changed && t.seek.question == verify && t.seek.from > 1:
		t.searchAnew() // restarted: what is its earliest slot?
		t.seek.proved, t.seek.proof = true, []crdt.Slot{s}
	case changed:
		t.answer(true)
	case t.seek.question == verify && s.Seq > t.seek.from:
		t.answer(false) // nothing proves a restart
	default:
		t.bound()
	}
}

// heldOther is the earliest slot held live that comes before a replayed one and
// proves, by itself, another incarnation than the one followed; nil: none does.
func (t *Tracker) heldOther(replayed *crdt.Slot) (first *crdt.Slot) {
	for i := range t.seek.held {
		h := &t.seek.held[i]
		if h.Seq < replayed.Seq && h.TS <= replayed.TS && (first == nil || h.Seq < first.Seq) && t.judge(h) == other {
			first = h
		}
	}
	return first
}

// answer decides: the slots got so far open a new incarnation, or continue the
// known one. What the replay still brings is delivered as it comes.
func (t *Tracker) answer(changed bool) {
	got := t.seek.got
	if changed {
		first := &got[0]
		if held := t.heldOther(first); held != nil {
			first = held // the replay does not reach back to it any more
		}
		if !t.settleOn(first) {
			return
		}
		t.seek.base = first.Seq
	}
	t.seek.question, t.seek.got = answered, nil
	for _, s := range got {
		t.accept(s)
	}
}

// replayEnded ends the replay in flight.
func (t *Tracker) replayEnded(complete bool) {
	switch {
	case t.holding() && t.seek.question == answered:
		t.settle()
	case t.holding() && !complete && t.seek.attempts < idleAttempts:
		t.seek.attempts++
		t.seek.got = nil
		t.ask(t.seek.from, true)
	case t.holding() && complete && t.seek.question == verify && t.seek.from > 1 && len(t.seek.got) == 0:
		t.search(Verifying, discover, 1) // it has nothing that high: perhaps it restarted
	case t.holding() && complete && t.seek.question == recall && len(t.seek.got) == 0:
		t.search(Seeking, discover, 1)
	case t.holding() && complete && len(t.seek.got) == 0 && len(t.seek.held) > 0:
		t.contradicted()
	case t.holding() && complete && len(t.seek.got) == 0 && t.inc.epoch != 0:
		t.doubt = true // who has nothing is hardly the process we know
		t.settle()
	case t.holding():
		t.settle()
	case t.fetch.running:
		t.fetchEnded(complete)
	}
}

// contradicted handles a replay that holds nothing while live slots came: they
// came behind its end, or from a process that is gone.
func (t *Tracker) contradicted() {
	if t.seek.attempts < idleAttempts {
		t.seek.attempts++
		t.ask(t.seek.from, true)
		return
	}
	if t.inc.epoch != 0 {
		t.dropUnproved()
	}
	t.settle()
}

// dropUnproved drops the slots held before the first that proves, by itself,
// another incarnation than the one followed: delivering them could mix two
// processes. The proof stays: the slots that come next may not prove it again.
func (t *Tracker) dropUnproved() {
	first := slices.IndexFunc(t.seek.held, func(s crdt.Slot) bool { return t.judge(&s) == other })
	if first < 0 {
		first = len(t.seek.held)
	}
	t.stats.Discarded += uint64(first)
	t.seek.held = t.seek.held[first:]
}

// settle ends a hold with what is known and delivers what was held. A replay
// that could not answer does not stop the stream: its slots decide by
// themselves.
func (t *Tracker) settle() {
	s := t.seek
	t.seek, t.phase = seek{}, Following
	if s.question != answered {
		t.settleUnanswered(&s)
	}
	for _, slot := range s.held {
		if t.phase != Following {
			t.stats.Ignored++
			continue
		}
		if s.question == answered {
			t.acceptLive(slot)
		} else {
			t.admitHeld(slot)
		}
	}
	if s.question == answered && t.phase == Following {
		t.begin(t.inc.known.missing(max(s.base, t.inc.anchor)+1, t.inc.last))
	} else if t.phase == Following {
		t.begin(nil)
	}
}

// settleUnanswered delivers what an undecided replay brought. If nothing spoke
// for a restart, it continues what is known. A slot that proved one to a replay
// before stands in for one that brought nothing.
func (t *Tracker) settleUnanswered(s *seek) {
	if len(s.got) == 0 {
		s.got = s.proof
	}
	if len(s.got) == 0 || (s.suspect || s.proved) && !t.settleOn(&s.got[0]) {
		return
	}
	for _, slot := range s.got {
		t.accept(slot)
	}
}

// admitHeld admits a held slot without asking for another replay.
func (t *Tracker) admitHeld(s crdt.Slot) {
	if t.inc.epoch == 0 || t.judge(&s) == other {
		if !t.settleOn(&s) {
			t.stats.Ignored++
			return
		}
	}
	t.acceptLive(s)
}

// wanted asks for slots that nobody in the mesh has.
func (t *Tracker) wanted(want []crdt.Span) {
	if t.inc.epoch == 0 || t.phase == Quarantined || t.inc.last == 0 {
		return
	}
	top := t.inc.last
	if t.prior.Epoch == t.inc.epoch {
		top = max(top, t.prior.LastSeq)
	}
	var missing spans
	for _, sp := range want {
		missing.add(max(sp.From, t.inc.anchor, 1), min(sp.To, top))
	}
	if !t.replay {
		t.exhaust(missing)
		return
	}
	t.begin(missing)
}

// begin adds holes to the fetch and starts it unless a replay is in flight.
func (t *Tracker) begin(missing spans) {
	for _, sp := range missing {
		t.fetch.missing.add(sp.From, sp.To)
	}
	if !t.replay {
		t.fetch = fetch{}
		return
	}
	t.giveUpBroken()
	t.fetch.missing.trimHigh(knownSpans)
	if len(t.fetch.missing) == 0 || t.fetch.running || t.holding() {
		return
	}
	t.fetch = fetch{missing: t.fetch.missing, since: t.nowMs}
	t.attempt(false)
}

// giveUpBroken reports slots whose bytes came and could not be decoded.
func (t *Tracker) giveUpBroken() {
	var gone spans
	for _, b := range t.broken {
		for _, sp := range slices.Clone(t.fetch.missing) {
			from, to := max(b.From, sp.From), min(b.To, sp.To)
			if from <= to {
				gone.add(from, to)
				t.fetch.missing.remove(from, to)
			}
		}
	}
	t.exhaust(gone)
}

// attempt asks for the replay from just before the first hole: the slot before
// it tells whether it is still the same incarnation.
func (t *Tracker) attempt(again bool) {
	t.fetch.running, t.fetch.heard = true, false
	t.fetch.attempts++
	t.fetch.before = t.fetch.missing.count()
	t.ask(max(t.fetch.missing[0].From-1, 1), again)
}

// fetched takes one replayed slot while holes are being filled.
func (t *Tracker) fetched(s crdt.Slot) {
	t.fetch.heard = true
	if t.judge(&s) == other {
		t.searchAnew()
		t.seek.suspect, t.seek.proof = true, []crdt.Slot{s}
		return
	}
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
	n := f.missing.count()
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
func (t *Tracker) exhaust(gone spans) {
	t.out.Exhausted = append(t.out.Exhausted, gone...)
}
