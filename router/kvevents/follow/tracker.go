package follow

import "github.com/banyan-llm/banyan/crdt"

// Limits of continuity tracking.
const (
	heldSlots      = 4096     // live slots held while it is decided whose they are
	heldBytes      = 32 << 20 // their bodies
	holdMs         = 4_000    // longest wait for a replay
	maxSpans       = 256      // spans of known slots kept; the lowest are closed over
	bumpsPerMinute = 2        // more new incarnations than that: quarantine
	bumpWindowMs   = 60_000
	quarantineMs   = 60_000
	maxBackward    = 16      // live slots in a row that were heard before: hang up
	idleAttempts   = 2       // replays in a row without progress before giving up
	maxAttempts    = 8       // replays for one set of holes
	fetchMs        = 120_000 // and their time
)

// Phase is where a tracker stands.
type Phase uint8

// The phases, see the package comment.
const (
	Fresh       Phase = iota // no connection
	Asking                   // who is at the other end is not known yet
	Seeking                  // a replay looks for the incarnation's earliest slot
	Verifying                // is it still the process of the last known slot?
	Catching                 // a replay brings what was missed
	Following                // slots are delivered as they come
	Quarantined              // too many incarnations: slots are ignored
)

// String is the phase's name for status pages.
func (p Phase) String() string {
	return [...]string{"fresh", "asking", "seeking", "verifying", "catching up", "following", "quarantined"}[p]
}

// incarnation is one process as far as a tracker saw it.
type incarnation struct {
	epoch  uint64 // 0: it has no name yet
	anchor uint64 // 0: none of its slots came yet
	last   slotTime
	known  crdt.Spans // slots seen here
}

// Tracker follows one stream. It is pure: time and the mesh's knowledge are
// arguments of Step, bytes and sockets are the caller's.
type Tracker struct {
	replay bool // the engine offers one

	phase    Phase
	up       bool   // a connection stands
	start    uint64 // its start time; 0 not offered
	known    uint64 // highest epoch known when the connection came up
	heard    uint64 // highest slot that came over it live
	backward int    // slots in a row that were not above
	inc      incarnation
	broken   crdt.Spans // undecodable slots of inc: no replay can help
	bumps    []int64    // times of recent restarts, ms
	until    int64      // end of quarantine, ms
	seek     seek       // while slots are held
	fetch    fetch      // holes being asked for while Following
	stats    Stats

	// The step in progress.
	nowMs int64
	prior Prior
	out   Output
}

// New makes a tracker; replay says whether the engine offers one.
func New(replay bool) *Tracker { return &Tracker{replay: replay} }

// Phase returns where the tracker stands.
func (t *Tracker) Phase() Phase { return t.phase }

// Epoch returns the incarnation being followed; 0 if none is known.
func (t *Tracker) Epoch() uint64 { return t.inc.epoch }

// LastSeq returns the highest slot seen of it.
func (t *Tracker) LastSeq() uint64 { return t.inc.last.seq }

// Stats returns the counters.
func (t *Tracker) Stats() Stats { return t.stats }

// Step takes one event. prior is what the mesh knows at this moment. The
// returned slices are the caller's.
func (t *Tracker) Step(nowMs int64, prior Prior, ev Event) Output {
	t.nowMs, t.prior, t.out = nowMs, prior, Output{}
	t.pass()
	t.followMesh()
	switch ev := ev.(type) {
	case Connected:
		t.connected()
	case Disconnected:
		t.disconnected()
	case Identified:
		t.identified(ev.Start)
	case Live:
		t.live(ev.Slot)
	case Undecodable:
		t.broken = closed(t.broken.Add(number(ev.Seq)), maxSpans)
	case Replayed:
		t.replayed(ev.Slot)
	case ReplayEnded:
		t.replayEnded(ev.Complete)
	case Wanted:
		t.wanted(ev.Spans)
	case Tick:
		t.prove()
	}
	t.out.Epoch, t.out.Anchor = t.inc.epoch, t.inc.anchor
	t.stats.Delivered += uint64(len(t.out.Deliver))
	return t.out
}

// pass lets time pass: quarantine and waits for a replay end.
func (t *Tracker) pass() {
	switch {
	case t.phase == Quarantined && t.nowMs >= t.until:
		t.resume()
	case t.waiting() && len(t.seek.held) > 0 && t.nowMs-t.seek.since > holdMs:
		t.out.StopReplay = true
		t.waitOver()
	}
}

// resume goes on after a quarantine: with a new connection, for the mesh may
// have found another process meanwhile.
func (t *Tracker) resume() {
	t.phase = Fresh
	if t.up {
		t.hangUp()
	}
}

// followMesh takes up what the mesh knows of the process. Another owner may have met the process earlier, or
// later with more to show; it may know a generation more of its name. A higher
// epoch of another start speaks of a process that was found after this
// connection was made: only a new connection can tell.
func (t *Tracker) followMesh() {
	if t.phase != Following || t.inc.epoch == 0 {
		return
	}
	switch p := &t.prior; {
	case p.Epoch == t.inc.epoch && t.inc.anchor > p.Anchor && p.LastSeq > 0:
		t.inc.anchor = max(p.Anchor, 1) // its holes are ours to settle
	case p.Epoch <= t.inc.epoch:
	case t.start != 0 && StartOf(p.Epoch) == t.start:
		t.adopt()
		t.catchUp()
	default:
		t.hangUp()
	}
}

// connected begins to wait for the word on who is at the other end. Slots held
// so far came over the connection before, perhaps from another process.
func (t *Tracker) connected() {
	t.disconnected()
	t.up, t.known = true, max(t.prior.Epoch, t.inc.epoch)
	if t.phase != Quarantined {
		t.phase = Asking
	}
}

// disconnected lets go of what came over a connection and was not delivered,
// and of the replay: whoever answers from now on may be another process.
func (t *Tracker) disconnected() {
	t.stats.Discarded += uint64(len(t.seek.held))
	t.up, t.start, t.heard, t.backward = false, 0, 0, 0
	t.seek, t.fetch, t.out.StopReplay, t.out.Replay = seek{}, fetch{}, true, nil
	if t.phase != Quarantined {
		t.phase = Fresh
	}
}

// hangUp asks for a new connection. Until it stands nothing counts.
func (t *Tracker) hangUp() {
	t.disconnected()
	t.stats.HangUps++
	t.out.HangUp = true
}

// identified takes the word on who is at the other end.
func (t *Tracker) identified(start uint64) {
	if t.phase != Asking {
		return // of a connection that ended, or in quarantine
	}
	t.start = min(start, MaxStart)
	t.identify()
}

// identify decides which incarnation the process at the other end is.
func (t *Tracker) identify() {
	if t.start == 0 {
		t.verify()
		return
	}
	switch name := Name(max(t.prior.Epoch, t.inc.epoch), t.start); name {
	case t.inc.epoch:
		t.catchUp()
	case t.prior.Epoch:
		t.adopt()
		t.catchUp()
	default:
		t.open(name)
		t.discover()
	}
}

// verify asks for proof that the process is that of the last known slot. Of one
// of which only the name is known there is none: its first batch may give the
// same name again.
func (t *Tracker) verify() {
	switch {
	case t.prior.Epoch > t.inc.epoch:
		t.adopt()
	case t.prior.Epoch == t.inc.epoch && t.prior.LastSeq > t.inc.last.seq:
		t.inc.last = t.prior.last()
	}
	if t.inc.last.seq == 0 {
		t.another()
		return
	}
	t.search(Verifying, t.inc.last.seq)
}

// prove looks whether the mesh knows by now, under whatever name, what is held
// here: another owner reads on, or gave the process its name. It reports whether
// that leads on.
func (t *Tracker) prove() bool {
	switch {
	case t.phase != Verifying:
		return false
	case t.prior.Epoch > t.inc.epoch:
		t.verify()
		return true
	case !t.provedLive():
		return false
	}
	t.catchUp()
	return true
}

// live takes a batch from the live stream.
func (t *Tracker) live(s crdt.Slot) {
	switch {
	case t.phase == Quarantined || t.phase == Fresh:
		t.stats.Ignored++
	case s.Seq <= t.heard:
		t.repeated()
	default:
		t.heard, t.backward = s.Seq, 0
		if t.holding() {
			t.hold(s)
		} else {
			t.admit(s)
		}
	}
}

// repeated ignores a live slot with a number heard before on this connection.
// Many in a row are no repetition: something between us and the engine keeps
// connections over its restarts, or the publisher lies.
func (t *Tracker) repeated() {
	t.stats.Backward++
	if t.backward++; t.backward >= maxBackward {
		t.hangUp()
	}
}

// admit delivers a live slot while Following.
func (t *Tracker) admit(s crdt.Slot) {
	if t.inc.anchor == 0 && t.replay && s.Seq > 1 {
		t.discover() // it had nothing when asked, and has by now
		t.hold(s)
		return
	}
	if t.meet(&s) {
		t.accept(s)
	}
}

// meet makes s the first slot of the incarnation if there was none before, and
// gives the incarnation its name if it has none. False: there were too many, or
// the mesh found a process after this connection came up, so that only a new one
// can tell whether it is this one.
func (t *Tracker) meet(s *crdt.Slot) bool {
	if t.inc.epoch == 0 {
		known := t.prior.Epoch
		if known > t.known {
			t.hangUp()
			return false
		}
		known = max(known, t.known)
		name := known + 1
		if s.TS >= 1000 {
			name = Name(known, min(uint64(s.TS/1000), MaxStart))
		}
		if name == t.prior.Epoch { // it is the slot that gave the name
			t.adopt()
		} else if !t.open(name) {
			return false
		}
	}
	if t.inc.anchor == 0 {
		t.inc.anchor = s.Seq
	}
	return true
}

// accept delivers a slot of the incarnation being followed.
func (t *Tracker) accept(s crdt.Slot) {
	asked := t.fetch.missing.Has(s.Seq)
	switch {
	case s.Seq < t.inc.anchor:
		t.stats.Stale++
		return
	case !asked && t.inc.known.Has(s.Seq):
		t.stats.Duplicates++
		return
	}
	t.inc.known = closed(t.inc.known.Add(number(s.Seq)), maxSpans)
	if s.Seq > t.inc.last.seq {
		t.inc.last = slotTime{s.Seq, s.TS}
	}
	t.fetch.missing = t.fetch.missing.Minus([]crdt.Span{number(s.Seq)})
	t.out.Deliver = append(t.out.Deliver, s)
}

// adopt takes the mesh's incarnation over.
func (t *Tracker) adopt() {
	t.begins(incarnation{epoch: t.prior.Epoch, last: t.prior.last()})
	if t.prior.LastSeq > 0 {
		t.inc.anchor = t.prior.Anchor
	}
}

// open begins an incarnation that the mesh does not know. False: there were too
// many, and the stream is in quarantine.
func (t *Tracker) open(name uint64) bool {
	if t.prior.Epoch != 0 && !t.allowBump() {
		return false
	}
	t.begins(incarnation{epoch: name})
	t.out.Opened = true
	return true
}

// begins drops what belongs to the incarnation before, of this step too.
func (t *Tracker) begins(inc incarnation) {
	t.inc, t.broken, t.fetch = inc, nil, fetch{}
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
