package kvevents

import (
	"slices"

	"github.com/banyan-llm/banyan/crdt"
)

// Limits of continuity tracking.
const (
	heldSlots       = 4096     // live slots held while a replay decides
	heldBytes       = 32 << 20 // their bodies
	holdMs          = 4_000    // longest hold before live slots pass anyway
	rememberedTimes = 1024     // (slot, time) pairs kept to recognise an incarnation
	knownSpans      = 256      // spans of known slots kept; the lowest are closed over
	bumpsPerMinute  = 2        // more new incarnations than that: quarantine
	bumpWindowMs    = 60_000
	quarantineMs    = 60_000
	idleAttempts    = 2       // replays in a row without progress before giving up
	maxAttempts     = 8       // replays for one set of holes
	fetchMs         = 120_000 // and their time
)

// Prior is what the mesh knows of a stream: from the replicated state, not
// from this peer's own connection.
type Prior struct {
	Epoch   uint64 // 0: the mesh knows nothing
	Anchor  uint64
	Floor   uint64
	LastSeq uint64 // highest known slot
	LastTS  int64  // its engine time, microseconds
	// FirstSeq is the lowest slot that came to this peer; 0: not known.
	FirstSeq uint64
	FirstTS  int64 // its engine time
	// Shadows are the epochs outranked within the last minute that can be
	// revived.
	Shadows []uint64
}

// Phase is where a tracker stands.
type Phase uint8

// The phases, see the package comment.
const (
	Fresh       Phase = iota // nothing seen yet
	Seeking                  // a replay looks for the incarnation's earliest slot
	Verifying                // a replay is compared with what was known before
	Following                // slots are delivered as they come
	Quarantined              // too many incarnations: slots are ignored
)

// String is the phase's name for status pages.
func (p Phase) String() string {
	switch p {
	case Fresh:
		return "fresh"
	case Seeking:
		return "seeking"
	case Verifying:
		return "verifying"
	case Following:
		return "following"
	case Quarantined:
		return "quarantined"
	}
	return "unknown"
}

// Event kinds of a Tracker.
type (
	// Connected says that a connection to the engine came up.
	Connected struct{}
	// Live is a batch from the live stream.
	Live struct{ Slot crdt.Slot }
	// Undecodable is a live or replayed batch of which only the slot number
	// is known.
	Undecodable struct{ Seq uint64 }
	// Replayed is a batch of the replay in flight.
	Replayed struct{ Slot crdt.Slot }
	// ReplayEnded ends the replay in flight: Complete if the end marker came.
	ReplayEnded struct{ Complete bool }
	// Wanted asks for slots that no peer of the mesh has.
	Wanted struct{ Spans []crdt.Span }
	// Tick lets time pass; about four a second.
	Tick struct{}
)

// TrackerEvent is one of the event kinds above.
type TrackerEvent interface{ trackerEvent() }

func (Connected) trackerEvent()   {}
func (Live) trackerEvent()        {}
func (Undecodable) trackerEvent() {}
func (Replayed) trackerEvent()    {}
func (ReplayEnded) trackerEvent() {}
func (Wanted) trackerEvent()      {}
func (Tick) trackerEvent()        {}

// Output is what one step decided.
type Output struct {
	// Deliver holds new slots of incarnation Epoch, whose first obtainable slot
	// is Anchor, ascending except where a hole was filled.
	Deliver       []crdt.Slot
	Epoch, Anchor uint64
	Minted        bool // Epoch is a new incarnation that this step proved or met first

	// Revive, if not 0, is an outranked epoch whose incarnation is the engine's
	// present one and is to be brought back as Epoch before Deliver. Anew: its
	// restart was a false alarm; else Epoch is another owner's name for it.
	Revive uint64
	Anew   bool

	// Replay asks for a replay from slot From on; one in flight before is to be
	// abandoned. Again says that it repeats an attempt: wait a moment.
	Replay *ReplayFrom
	// StopReplay says that nothing more of the replay in flight is needed.
	StopReplay bool

	// Exhausted are slots of Epoch that the engine's replay cannot give.
	Exhausted []crdt.Span
}

// ReplayFrom is a request for a replay.
type ReplayFrom struct {
	From  uint64
	Again bool
}

// TrackerStats counts what a tracker saw.
type TrackerStats struct {
	Delivered  uint64 // slots
	Duplicates uint64 // slots known before
	Gaps       uint64 // live slots that came behind a hole
	Restarts   uint64 // new incarnations proved
	Revived    uint64 // outranked incarnations taken up again
	Adopted    uint64 // incarnations taken over from the mesh
	Ignored    uint64 // slots ignored in quarantine
	Stale      uint64 // slots older than the incarnation's first
	Discarded  uint64 // held slots of a connection that ended
	Overflows  uint64 // holds that ended because too much was held
	TimeJumps  uint64 // slots whose time went back
	Replays    uint64 // asked for
	Quarantine uint64 // times entered
}

// Tracker follows one stream's incarnation and slot numbers. It is pure: time
// and the mesh's knowledge are arguments of Step, bytes and sockets are the
// caller's.
type Tracker struct {
	replay bool // the engine offers one

	phase  Phase
	inc    incarnation
	sure   bool         // the connection is to inc's process, by what came over it
	prev   *incarnation // followed before inc; nil: none, or longer ago than a shadow lasts
	prevAt int64        // when it was left, ms
	heard  uint64       // highest slot of inc that came live over this connection; 0: none
	lowest uint64       // lowest slot of inc that did
	before uint64       // heard of prev
	broken spans        // undecodable slots of inc: no replay can help
	doubt  bool         // the last replay was empty: the next live slot asks again
	bumps  []int64      // times of recent restarts, ms
	until  int64        // end of quarantine, ms
	seek   seek         // while Seeking or Verifying
	fetch  fetch        // holes being asked for while Following
	stats  TrackerStats

	// The step in progress.
	nowMs int64
	prior Prior
	out   Output
}

// NewTracker makes a tracker; replay says whether the engine offers one.
func NewTracker(replay bool) *Tracker { return &Tracker{replay: replay} }

// Phase returns where the tracker stands.
func (t *Tracker) Phase() Phase { return t.phase }

// Epoch returns the incarnation being followed; 0 if none is known.
func (t *Tracker) Epoch() uint64 { return t.inc.epoch }

// LastSeq returns the highest slot seen of it.
func (t *Tracker) LastSeq() uint64 { return t.inc.last }

// Stats returns the counters.
func (t *Tracker) Stats() TrackerStats { return t.stats }

// Step takes one event. prior is what the mesh knows at this moment. The
// returned slices are the caller's.
func (t *Tracker) Step(nowMs int64, prior Prior, ev TrackerEvent) Output {
	t.nowMs, t.prior, t.out = nowMs, prior, Output{}
	t.pass()
	t.heed()
	switch ev := ev.(type) {
	case Connected:
		t.connected()
	case Live:
		t.live(ev.Slot)
	case Undecodable:
		t.broken.add(ev.Seq, ev.Seq)
		t.broken.trim(knownSpans)
	case Replayed:
		t.replayed(ev.Slot)
	case ReplayEnded:
		t.replayEnded(ev.Complete)
	case Wanted:
		t.wanted(ev.Spans)
	case Tick:
	}
	t.out.Epoch, t.out.Anchor = t.inc.epoch, t.inc.anchor
	t.stats.Delivered += uint64(len(t.out.Deliver))
	return t.out
}

// pass lets time pass: quarantine and holds end, shadows go.
func (t *Tracker) pass() {
	if t.prev != nil && t.nowMs-t.prevAt > crdt.ShadowMs {
		t.prev = nil
	}
	switch {
	case t.phase == Quarantined && t.nowMs >= t.until:
		t.phase = Fresh
	case t.holding() && t.nowMs-t.seek.since > holdMs:
		t.out.StopReplay = true
		t.settle()
	}
}

// heed follows the mesh to a higher epoch when that is the incarnation seen
// here: the mesh's last slot is among ours with the same time, or its anchor
// with the time that names it. Anything less waits for proof, because slots of
// an old connection may still be queued. What the mesh knew under our epoch is
// then joined to it, unless the name is another process's and only what came
// later ours (see spoiled): then ours comes back, if all that tells them
// apart came over one connection.
func (t *Tracker) heed() {
	if t.phase == Following && t.inc.epoch != 0 && t.prior.Epoch == t.inc.epoch && t.prior.Anchor < t.inc.anchor {
		t.inc.anchor, t.inc.anchorTS = max(t.prior.Anchor, 1), 0 // another owner met it earlier: its holes are ours to settle
	}
	if t.phase != Following || t.inc.epoch == 0 || t.prior.Epoch <= t.inc.epoch {
		return
	}
	last, first := t.inc.time(t.prior.LastSeq), t.inc.time(t.prior.Anchor)
	if (last == 0 || last != t.prior.LastTS) && (first == 0 || uint64(first/1000) != t.prior.Epoch) {
		return
	}
	if t.spoiled() {
		if t.unbroken() && t.prior.keeps(t.inc.epoch) {
			t.revive(t.inc)
		}
		return
	}
	anchor := t.prior.Anchor
	if t.prior.keeps(t.inc.epoch) {
		t.out.Revive = t.inc.epoch // its anchor, if lower, becomes the mesh's by that
		t.stats.Revived++
	}
	t.inc.epoch, t.inc.anchor = t.prior.Epoch, anchor
	t.inc.forgetBefore(int64(t.prior.Epoch) * 1000)
	t.stats.Adopted++
	// A hold that ended in this step may have let slots go that the mesh does
	// not count to this incarnation.
	kept := slices.DeleteFunc(t.out.Deliver, func(s crdt.Slot) bool { return s.Seq < anchor })
	t.stats.Stale += uint64(len(t.out.Deliver) - len(kept))
	t.out.Deliver = kept
}

// connected begins to find out which incarnation is at the other end. Without
// a replay nothing can be asked: slots will tell.
func (t *Tracker) connected() {
	if t.phase == Quarantined {
		return
	}
	// Slots held so far came over the connection before: perhaps from another
	// process than the one that answers from now on.
	t.stats.Discarded += uint64(len(t.seek.held))
	t.seek, t.sure, t.heard, t.lowest, t.before = seek{}, false, 0, 0, 0
	if t.prior.Epoch > t.inc.epoch {
		t.adopt()
	}
	switch {
	case !t.replay:
		t.phase = Following
	case t.inc.epoch == 0:
		t.search(Seeking, discover, 1)
	default:
		t.search(Verifying, verify, t.inc.last)
	}
}

// live takes a batch from the live stream.
func (t *Tracker) live(s crdt.Slot) {
	if t.phase == Fresh {
		t.connected()
	}
	switch {
	case t.phase == Quarantined:
		t.stats.Ignored++
	case t.holding():
		t.hold(s)
	case t.doubt:
		t.doubt = false
		t.search(Verifying, verify, t.inc.last)
		t.hold(s)
	default:
		t.admit(s)
	}
}

// admit delivers a live slot unless it is known or proves a restart.
func (t *Tracker) admit(s crdt.Slot) {
	switch {
	case t.inc.epoch == 0 && t.replay && s.Seq > 1:
		t.search(Seeking, discover, 1) // it had nothing when asked, and has by now
		t.hold(s)
		return
	case t.inc.epoch == 0:
		t.settleOn(&s)
	}
	if t.phase == Quarantined {
		t.stats.Ignored++
		return
	}
	if t.judge(&s) == other {
		t.restarted(s)
		return
	}
	if t.outlived(&s) && !t.revive(t.inc) || t.resumed(&s) && !t.revive(*t.prev) {
		t.stats.Ignored++
		return
	}
	t.acceptLive(s)
}

// acceptLive is accept for a slot that came over the present connection.
func (t *Tracker) acceptLive(s crdt.Slot) {
	t.accept(s)
	if t.wasOnItsWay(&s) {
		t.before = s.Seq
		return
	}
	t.heard = max(t.heard, s.Seq)
	if t.lowest == 0 || s.Seq < t.lowest {
		t.lowest = s.Seq
	}
}

// accept delivers a slot that is of the incarnation being followed.
func (t *Tracker) accept(s crdt.Slot) {
	asked := t.fetch.missing.has(s.Seq)
	switch {
	case s.Seq < t.inc.anchor || s.TS != 0 && s.TS < t.inc.anchorTS:
		t.stats.Stale++
		return
	case !asked && t.inc.known.has(s.Seq):
		t.sure = t.sure || t.inc.same(&s)
		t.stats.Duplicates++
		return
	}
	t.sure = t.sure || t.inc.same(&s)
	if t.inc.last != 0 && s.Seq > t.inc.last+1 {
		t.stats.Gaps++
	}
	if s.Seq > t.inc.last && s.TS != 0 && s.TS < t.inc.maxTS {
		t.stats.TimeJumps++
	}
	t.inc.note(&s)
	t.fetch.missing.remove(s.Seq, s.Seq)
	t.out.Deliver = append(t.out.Deliver, s)
}

// restarted handles a live slot that proves another incarnation. If the mesh
// knows it already, follow the mesh; else look for its earliest slot.
func (t *Tracker) restarted(s crdt.Slot) {
	if t.prior.Epoch > t.inc.epoch && !t.prior.contradicts(&s) {
		t.adopt()
		t.acceptLive(s)
		return
	}
	if t.replay && s.Seq > 1 {
		t.searchAnew()
		t.seek.suspect = true
		t.hold(s)
		return
	}
	if t.mint(&s) {
		t.acceptLive(s)
	}
}

// settleOn decides on an incarnation by its earliest slot at hand: the mesh's
// if it knows one that s does not contradict, else a new one.
func (t *Tracker) settleOn(s *crdt.Slot) bool {
	if t.prior.Epoch > t.inc.epoch && !t.prior.contradicts(s) {
		t.adopt()
		return true
	}
	return t.mint(s)
}

// adopt takes the mesh's incarnation over.
func (t *Tracker) adopt() {
	t.leave()
	t.inc = incarnation{epoch: t.prior.Epoch, anchor: t.prior.Anchor, last: t.prior.LastSeq}
	t.inc.remember(t.prior.LastSeq, t.prior.LastTS)
	t.forget()
	t.stats.Adopted++
}

// mint opens a new incarnation with s as its first obtainable slot. Its epoch
// is the engine's time of that slot, in any case above what it replaces. False
// means that there were too many and the stream is in quarantine.
func (t *Tracker) mint(s *crdt.Slot) bool {
	old := max(t.inc.epoch, t.prior.Epoch)
	if old != 0 && !t.allowBump() {
		return false
	}
	epoch := max(uint64(s.TS/1000), old+1)
	t.leave()
	t.sure = true
	t.inc = incarnation{epoch: epoch, anchor: s.Seq, anchorTS: s.TS}
	t.forget()
	t.out.Minted = true
	return true
}

// forget drops what belongs to the incarnation before, of this step too:
// nobody sees it any more.
func (t *Tracker) forget() {
	t.broken, t.fetch, t.doubt = nil, fetch{}, false
	t.out.Deliver, t.out.Exhausted = nil, nil
}

// allowBump counts a restart; more than bumpsPerMinute begin a quarantine.
func (t *Tracker) allowBump() bool {
	recent := t.bumps[:0]
	for _, at := range t.bumps {
		if t.nowMs-at < bumpWindowMs {
			recent = append(recent, at)
		}
	}
	t.bumps = append(recent, t.nowMs)
	t.stats.Restarts++
	if len(t.bumps) <= bumpsPerMinute {
		return true
	}
	t.phase, t.until = Quarantined, t.nowMs+quarantineMs
	t.stats.Quarantine++
	t.stats.Ignored += uint64(len(t.seek.held))
	t.seek, t.fetch = seek{}, fetch{}
	t.out.Replay, t.out.StopReplay = nil, true
	return false
}
