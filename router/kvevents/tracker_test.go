package kvevents

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/banyan-llm/banyan/crdt"
)

// slot makes a batch whose time is seq*10 ms behind a process's start.
func slot(process int, seq uint64) crdt.Slot {
	return crdt.Slot{Seq: seq, TS: int64(process)*1_000_000_000 + int64(seq)*10_000, Body: []byte{0, 0, 0, byte(process)}}
}

// epochOf is the epoch of a process whose earliest slot is seq.
func epochOf(process int, seq uint64) uint64 { return uint64(slot(process, seq).TS / 1000) }

// script drives a tracker and writes down what it put out.
type script struct {
	t     *testing.T
	tr    *Tracker
	now   int64
	prior Prior
}

// do feeds an event and compares the outcome with want: "deliver 1 2 epoch E
// anchor A", "replay N", "again N", "stop", "exhausted A-B", in this order.
func (s *script) do(ev TrackerEvent, want string) {
	s.t.Helper()
	s.now += 10
	out := s.tr.Step(s.now, s.prior, ev)
	var parts []string
	if len(out.Deliver) > 0 {
		seqs := ""
		for _, d := range out.Deliver {
			seqs += fmt.Sprintf(" %d", d.Seq)
		}
		parts = append(parts, fmt.Sprintf("deliver%s epoch %d anchor %d", seqs, out.Epoch, out.Anchor))
	}
	if out.StopReplay {
		parts = append(parts, "stop")
	}
	if out.Replay != nil && out.Replay.Again {
		parts = append(parts, fmt.Sprintf("again %d", out.Replay.From))
	} else if out.Replay != nil {
		parts = append(parts, fmt.Sprintf("replay %d", out.Replay.From))
	}
	for _, sp := range out.Exhausted {
		parts = append(parts, fmt.Sprintf("exhausted %d-%d", sp.From, sp.To))
	}
	if got := strings.Join(parts, "; "); got != want {
		s.t.Fatalf("%T%+v in %s:\n got %q\nwant %q", ev, ev, s.tr.Phase(), got, want)
	}
}

func newScript(t *testing.T, replay bool) *script {
	return &script{t: t, tr: NewTracker(replay), now: 1000}
}

func deliver(process int, anchor uint64, seqs ...uint64) string {
	s := ""
	for _, x := range seqs {
		s += fmt.Sprintf(" %d", x)
	}
	return fmt.Sprintf("deliver%s epoch %d anchor %d", s, epochOf(process, anchor), anchor)
}

func TestTrackerColdStartWithReplay(t *testing.T) {
	s := newScript(t, true)
	s.do(Connected{}, "replay 1")
	s.do(Live{slot(1, 5)}, "") // held
	s.do(Replayed{slot(1, 3)}, deliver(1, 3, 3))
	s.do(Replayed{slot(1, 4)}, deliver(1, 3, 4))
	s.do(Replayed{slot(1, 5)}, deliver(1, 3, 5))
	s.do(ReplayEnded{true}, "")
	s.do(Live{slot(1, 5)}, "") // known
	s.do(Live{slot(1, 6)}, deliver(1, 3, 6))
}

func TestTrackerColdStartWithoutReplay(t *testing.T) {
	s := newScript(t, false)
	s.do(Connected{}, "")
	s.do(Live{slot(1, 7)}, deliver(1, 7, 7))
	s.do(Live{slot(1, 9)}, deliver(1, 7, 9)) // past the hole at once
	s.do(Wanted{[]crdt.Span{{From: 8, To: 8}}}, "exhausted 8-8")
	s.do(Live{slot(2, 1)}, deliver(2, 1, 1)) // smaller number, later time
}

func TestTrackerReplayFailsOpen(t *testing.T) {
	s := newScript(t, true)
	s.do(Connected{}, "replay 1")
	s.do(Live{slot(1, 5)}, "")
	s.do(ReplayEnded{false}, "again 1")
	s.do(ReplayEnded{false}, deliver(1, 5, 5))
}

func TestTrackerAsksAgainWhenThereIsSomething(t *testing.T) {
	s := newScript(t, true)
	s.do(Connected{}, "replay 1")
	s.do(ReplayEnded{true}, "") // a young engine
	s.do(Live{slot(1, 3)}, "replay 1")
	s.do(Replayed{slot(1, 1)}, deliver(1, 1, 1))
	s.do(Replayed{slot(1, 2)}, deliver(1, 1, 2))
	s.do(ReplayEnded{true}, deliver(1, 1, 3))
}

func TestTrackerHoldEnds(t *testing.T) {
	s := newScript(t, true)
	s.do(Connected{}, "replay 1")
	s.do(Live{slot(1, 5)}, "")
	s.now += holdMs
	s.do(Tick{}, deliver(1, 5, 5)+"; stop")
}

func TestTrackerReconnectProvesNothing(t *testing.T) {
	s := newScript(t, true)
	s.do(Connected{}, "replay 1")
	s.do(Replayed{slot(1, 1)}, deliver(1, 1, 1))
	s.do(ReplayEnded{true}, "")
	s.do(Live{slot(1, 2)}, deliver(1, 1, 2))
	s.do(Connected{}, "replay 2")
	s.do(Live{slot(1, 4)}, "")
	s.do(Replayed{slot(1, 2)}, "") // the same slot: the same process
	s.do(Replayed{slot(1, 3)}, deliver(1, 1, 3))
	s.do(ReplayEnded{true}, deliver(1, 1, 4))
}

func TestTrackerRestartBehindOurBack(t *testing.T) {
	s := newScript(t, true)
	s.do(Connected{}, "replay 1")
	s.do(Replayed{slot(1, 1)}, deliver(1, 1, 1))
	s.do(Replayed{slot(1, 2)}, deliver(1, 1, 2))
	s.do(ReplayEnded{true}, "")
	s.do(Connected{}, "replay 2") // the new process is past slot 2 already
	s.do(Live{slot(2, 4)}, "")
	s.do(Replayed{slot(2, 2)}, "replay 1")
	s.do(Replayed{slot(2, 1)}, deliver(2, 1, 1))
	s.do(Replayed{slot(2, 2)}, deliver(2, 1, 2))
	s.do(Replayed{slot(2, 3)}, deliver(2, 1, 3))
	s.do(ReplayEnded{true}, deliver(2, 1, 4))
}

func TestTrackerRestartedEngineHasLittle(t *testing.T) {
	s := newScript(t, true)
	s.prior = Prior{Epoch: epochOf(1, 1), Anchor: 1, Floor: 9, LastSeq: 9, LastTS: slot(1, 9).TS}
	s.do(Connected{}, "replay 9")
	s.do(ReplayEnded{true}, "replay 1") // nothing that high: look at all
	s.do(Replayed{slot(2, 1)}, deliver(2, 1, 1))
	s.do(ReplayEnded{true}, "")
}

func TestTrackerDropsHeldSlotsOfAnotherProcess(t *testing.T) {
	for name, tc := range map[string]struct {
		old, young int
		reconnect  bool
	}{
		"older than the new process":           {1, 2, false},
		"of the connection before, clock back": {5, 2, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t, true)
			s.do(Connected{}, "replay 1")
			s.do(Replayed{slot(tc.old, 1)}, deliver(tc.old, 1, 1))
			s.do(Replayed{slot(tc.old, 2)}, deliver(tc.old, 1, 2))
			s.do(ReplayEnded{true}, "")
			s.do(Connected{}, "replay 2")
			s.do(Live{slot(tc.old, 3)}, "") // held; its process dies now
			if tc.reconnect {
				s.do(Connected{}, "replay 2")
			}
			s.do(Replayed{slot(tc.young, 2)}, "replay 1")
			s.now += 10
			if out := s.tr.Step(s.now, s.prior, Replayed{slot(tc.young, 1)}); !out.Minted || len(out.Deliver) != 1 {
				t.Fatalf("%+v", out)
			}
			s.do(ReplayEnded{true}, "")
		})
	}
}

func TestTrackerDoubtsForgetfulReplay(t *testing.T) {
	s := newScript(t, true)
	s.do(Connected{}, "replay 1")
	s.do(Replayed{slot(1, 1)}, deliver(1, 1, 1))
	s.do(ReplayEnded{true}, "")
	s.do(Connected{}, "replay 1")
	s.do(ReplayEnded{true}, "") // a process that remembers nothing
	s.do(Live{slot(2, 3)}, "replay 1")
	s.do(Replayed{slot(2, 1)}, deliver(2, 1, 1))
	s.do(ReplayEnded{true}, deliver(2, 1, 3)+"; replay 1") // slot 2 is missing
}

func TestTrackerTakesOverFromMesh(t *testing.T) {
	s := newScript(t, true)
	s.prior = Prior{Epoch: epochOf(1, 1), Anchor: 1, Floor: 9, LastSeq: 9, LastTS: slot(1, 9).TS}
	s.do(Connected{}, "replay 9")
	s.do(Replayed{slot(1, 9)}, deliver(1, 1, 9))
	s.do(Replayed{slot(1, 10)}, deliver(1, 1, 10))
	s.do(ReplayEnded{true}, "")
	s.do(Live{slot(1, 11)}, deliver(1, 1, 11))
}

func TestTrackerEvictedSlotProvesNothing(t *testing.T) {
	s := newScript(t, true)
	s.prior = Prior{Epoch: epochOf(1, 1), Anchor: 1, Floor: 9, LastSeq: 9, LastTS: slot(1, 9).TS}
	s.do(Connected{}, "replay 9")
	s.do(Replayed{slot(1, 20)}, deliver(1, 1, 20))
	s.do(ReplayEnded{true}, "replay 9") // the hole, from the slot before it
	s.do(Replayed{slot(1, 20)}, "stop; again 9")
	s.do(Replayed{slot(1, 20)}, "stop; exhausted 10-19")
}

func TestTrackerReplayIsLossy(t *testing.T) {
	s := newScript(t, true)
	s.do(Connected{}, "replay 1")
	for _, seq := range []uint64{1, 2, 5, 6, 9} { // 3, 4, 7 and 8 were dropped on the way
		s.do(Replayed{slot(1, seq)}, deliver(1, 1, seq))
	}
	s.do(ReplayEnded{true}, "replay 2")
	s.do(Replayed{slot(1, 2)}, "")
	s.do(Replayed{slot(1, 3)}, deliver(1, 1, 3))
	s.do(Replayed{slot(1, 4)}, deliver(1, 1, 4))
	s.do(Live{slot(1, 10)}, deliver(1, 1, 10)) // live slots do not wait for holes
	s.do(ReplayEnded{true}, "again 6")
	s.do(Replayed{slot(1, 8)}, deliver(1, 1, 8)+"; stop; again 6")
	s.do(ReplayEnded{true}, "again 6")
	s.do(ReplayEnded{true}, "exhausted 7-7")
}

func TestTrackerUnansweredReplayIsNoAnswer(t *testing.T) {
	s := newScript(t, true)
	s.do(Connected{}, "replay 1")
	s.do(Replayed{slot(1, 1)}, deliver(1, 1, 1))
	s.do(ReplayEnded{true}, "")
	s.do(Live{slot(1, 3)}, deliver(1, 1, 3))
	s.do(Wanted{[]crdt.Span{{From: 2, To: 2}}}, "replay 1")
	for range maxAttempts - 1 {
		s.do(ReplayEnded{false}, "again 1")
	}
	s.do(ReplayEnded{false}, "exhausted 2-2")
}

func TestTrackerUndecodableIsGivenUpAtOnce(t *testing.T) {
	s := newScript(t, true)
	s.do(Connected{}, "replay 1")
	s.do(Replayed{slot(1, 1)}, deliver(1, 1, 1))
	s.do(ReplayEnded{true}, "")
	s.do(Undecodable{2}, "")
	s.do(Live{slot(1, 3)}, deliver(1, 1, 3))
	s.do(Wanted{[]crdt.Span{{From: 2, To: 2}}}, "exhausted 2-2")
}

func TestTrackerFalseAlarmIsSeen(t *testing.T) {
	// The engine's clock was set back, then a lost slot from before that comes
	// by: it looks like a restart until the replay shows a known slot.
	s := newScript(t, true)
	late := slot(1, 2)
	late.TS += 100_000
	s.do(Connected{}, "replay 1")
	s.do(Replayed{slot(1, 1)}, deliver(1, 1, 1))
	s.do(ReplayEnded{true}, "")
	s.do(Live{slot(1, 3)}, deliver(1, 1, 3))
	s.do(Live{late}, "replay 1")
	s.do(Replayed{slot(1, 1)}, "")
	s.do(Replayed{late}, deliver(1, 1, 2))
	s.do(ReplayEnded{true}, "")
	if s.tr.Stats().Restarts != 0 {
		t.Fatal("a false alarm was counted as a restart")
	}
}

func TestTrackerFollowsMeshToHigherEpoch(t *testing.T) {
	s := newScript(t, false)
	s.do(Live{slot(1, 1)}, deliver(1, 1, 1))
	s.prior = Prior{Epoch: 77_000_000, Anchor: 1, LastSeq: 1, LastTS: slot(1, 1).TS}
	s.do(Live{slot(1, 2)}, "deliver 2 epoch 77000000 anchor 1")
	s.prior = Prior{Epoch: 88_000_000, Anchor: 1, LastSeq: 1, LastTS: 5}
	s.do(Live{slot(1, 3)}, "deliver 3 epoch 77000000 anchor 1") // not ours: no proof, no move
}

func TestTrackerClockBackStillRestarts(t *testing.T) {
	s := newScript(t, false)
	s.do(Live{slot(5, 1)}, deliver(5, 1, 1))
	s.do(Live{slot(2, 1)}, fmt.Sprintf("deliver 1 epoch %d anchor 1", epochOf(5, 1)+1))
}

func TestTrackerQuarantine(t *testing.T) {
	s := newScript(t, false)
	s.do(Live{slot(1, 1)}, deliver(1, 1, 1))
	s.do(Live{slot(2, 1)}, deliver(2, 1, 1))
	s.do(Live{slot(3, 1)}, deliver(3, 1, 1))
	s.do(Live{slot(4, 1)}, "stop")
	if s.tr.Phase() != Quarantined {
		t.Fatalf("phase %s", s.tr.Phase())
	}
	s.do(Live{slot(4, 2)}, "")
	s.now += quarantineMs
	s.do(Live{slot(5, 1)}, deliver(5, 1, 1))
}

// TestTrackerEpochIsOneProcess: whatever is lost, repeated or restarted, an
// epoch holds slots of one process only, a process has one epoch, and epochs
// rise with processes; when all is quiet the mesh has every slot that the
// engine could still give.
func TestTrackerEpochIsOneProcess(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e, m := newSimEngine(rapid.SampledFrom([]int{1000, 1000, 30}).Draw(t, "keep")), newSimMesh()
		owners := []*simOwner{newSimOwner(t, e, m, true)}
		if rapid.Bool().Draw(t, "two owners") {
			owners = append(owners, newSimOwner(t, e, m, true))
		}
		lossy := rapid.Bool().Draw(t, "lossy replay")
		for _, o := range owners {
			o.loss = func() bool { return lossy && rapid.IntRange(0, 3).Draw(t, "loss") == 0 }
		}
		now := int64(1_000_000)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now += 10
			simStep(t, &now, e, owners, e.keep == 1000)
		}
		for _, o := range owners {
			o.loss = func() bool { return false }
			o.connect(now)
		}
		last := e.emit()
		for _, o := range owners {
			o.step(now, Live{last})
			o.quiesce(now)
		}
		checkEpochs(t, e, m)
		checkComplete(t, e, m)
	})
}

// TestTrackerOwnersAgree: two owners whose mesh is slow name every process
// alike, and in the end follow the same epoch. (Where a process dies before it
// answered a replay, the owners' earliest slots may differ, and with them the
// epochs: joining those is the stream's part.)
func TestTrackerOwnersAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e, all := newSimEngine(1000), newSimMesh()
		e.polite = true
		a, b := newSimOwner(t, e, newSimMesh(), true), newSimOwner(t, e, newSimMesh(), true)
		a.other, b.other = b.mesh, a.mesh
		owners := []*simOwner{a, b}
		now := int64(1_000_000)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now += 10
			simStep(t, &now, e, owners, true)
			for _, o := range owners {
				if rapid.IntRange(0, 3).Draw(t, "gossip") == 0 {
					o.gossip()
				}
			}
		}
		for _, o := range owners {
			o.connect(now)
		}
		last := e.emit()
		for range 2 {
			for _, o := range owners {
				o.gossip()
				o.step(now, Live{last})
				o.quiesce(now)
			}
		}
		for _, o := range owners {
			o.gossip()
			all.join(o.mesh)
		}
		checkEpochs(t, e, all)
		checkComplete(t, e, all)
		if a.tracker.Epoch() != b.tracker.Epoch() || a.tracker.Epoch() != all.top {
			t.Fatalf("owners follow epochs %d and %d, the mesh is at %d", a.tracker.Epoch(), b.tracker.Epoch(), all.top)
		}
	})
}

// connect ends the live connection and begins another.
func (o *simOwner) connect(now int64) {
	o.process = o.engine.process
	o.step(now, Connected{})
}

// simStep does one random thing. An engine with a short buffer never restarts:
// a restart it had forgotten by then could not be seen.
func simStep(t *rapid.T, clock *int64, e *simEngine, owners []*simOwner, restarts bool) {
	o, now := owners[rapid.IntRange(0, len(owners)-1).Draw(t, "owner")], *clock
	switch k := rapid.IntRange(0, 9).Draw(t, "what"); {
	case k <= 4: // batches; each owner may miss each
		for range rapid.IntRange(1, 12).Draw(t, "batches") {
			s := e.emit()
			for _, o := range owners {
				if o.process == e.process && rapid.IntRange(0, 4).Draw(t, "missed") != 0 {
					o.step(now, Live{s})
				}
			}
		}
	case k == 5 && restarts:
		for _, o := range owners {
			for e.polite && o.running {
				o.pump(now)
			}
		}
		e.restart()
		for _, o := range owners {
			if o.running { // cut off; what follows is answered by the new process
				o.running = false
				o.step(now, ReplayEnded{})
			}
			for o.running {
				o.pump(now)
			}
		}
		*clock += 40_000 // at most two a minute
		now = *clock
		if rapid.Bool().Draw(t, "noticed") {
			for _, o := range owners {
				o.connect(now)
			}
		}
	case k == 6:
		o.connect(now)
	case k == 7: // a repeat of something of the same process
		if all := e.all[e.process]; len(all) > 0 && o.process == e.process {
			o.step(now, Live{all[rapid.IntRange(0, len(all)-1).Draw(t, "repeat")]})
		}
	case k == 8:
		o.quiesce(now)
	default:
		for range rapid.IntRange(1, 8).Draw(t, "pump") {
			o.pump(now)
		}
	}
}

// checkEpochs holds epochs against processes.
func checkEpochs(t *rapid.T, e *simEngine, m *simMesh) {
	epochs := map[int]uint64{}
	for epoch, slots := range m.slots {
		process := 0
		for _, s := range slots {
			if p := processOf(s); process != 0 && p != process {
				t.Fatalf("epoch %d holds slots of processes %d and %d", epoch, process, p)
			}
			process = processOf(s)
		}
		if was, ok := epochs[process]; ok {
			t.Fatalf("process %d has epochs %d and %d", process, was, epoch)
		}
		epochs[process] = epoch
	}
	for a, ea := range epochs {
		for b, eb := range epochs {
			if a < b && ea >= eb {
				t.Fatalf("epochs %d of process %d and %d of process %d are out of order", ea, a, eb, b)
			}
		}
	}
}

// checkComplete: the newest epoch is the living process, with every slot from
// its anchor on that the engine's buffer still holds and a lossy replay did not
// make an owner give up.
func checkComplete(t *rapid.T, e *simEngine, m *simMesh) {
	slots, prior := m.slots[m.top], m.prior()
	for _, s := range e.buffer {
		got, ok := slots[s.Seq]
		if s.Seq >= prior.Anchor && !m.lost.has(s.Seq) && (!ok || processOf(got) != e.process) {
			t.Fatalf("slot %d of process %d is missing from epoch %d (anchor %d, last %d)", s.Seq, e.process, m.top, prior.Anchor, prior.LastSeq)
		}
	}
	if h := m.holes(); len(h) > 0 {
		left := spans(h)
		for _, sp := range m.lost {
			left.remove(sp.From, sp.To)
		}
		if len(left) > 0 {
			t.Fatalf("holes %v were neither filled nor given up", left)
		}
	}
}

// TestTrackerSurvivesLies: an engine that lies about numbers and times, and a
// replay that fails, cost neither memory nor order: no panic, bounded holds,
// deliveries only from the anchor on.
func TestTrackerSurvivesLies(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tr := NewTracker(rapid.Bool().Draw(t, "replay"))
		now := int64(1)
		seq := rapid.OneOf(rapid.Uint64Range(1, 12), rapid.Uint64Range(1, maxSeq+1))
		lie := rapid.Custom(func(t *rapid.T) crdt.Slot {
			return crdt.Slot{Seq: seq.Draw(t, "seq"), TS: rapid.Int64Range(0, 30).Draw(t, "ts") * 1000}
		})
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			now += rapid.Int64Range(0, 3000).Draw(t, "ms")
			prior := Prior{}
			if rapid.Bool().Draw(t, "mesh") {
				s := lie.Draw(t, "prior")
				prior = Prior{Epoch: rapid.Uint64Range(1, 40).Draw(t, "epoch"), Anchor: rapid.Uint64Range(1, s.Seq).Draw(t, "anchor"), LastSeq: s.Seq, LastTS: s.TS}
			}
			before := tr.Epoch()
			var ev TrackerEvent
			switch rapid.IntRange(0, 6).Draw(t, "event") {
			case 0:
				ev = Connected{}
			case 1, 2:
				ev = Live{lie.Draw(t, "live")}
			case 3:
				ev = Replayed{lie.Draw(t, "replayed")}
			case 4:
				ev = ReplayEnded{rapid.Bool().Draw(t, "complete")}
			case 5:
				from := seq.Draw(t, "from")
				ev = Wanted{[]crdt.Span{{From: from, To: from + rapid.Uint64Range(0, 50).Draw(t, "n")}}}
			default:
				ev = Undecodable{seq.Draw(t, "bad")}
			}
			out := tr.Step(now, prior, ev)
			for _, s := range out.Deliver {
				if s.Seq < out.Anchor || out.Epoch == 0 {
					t.Fatalf("delivered slot %d below anchor %d of epoch %d", s.Seq, out.Anchor, out.Epoch)
				}
			}
			if tr.Epoch() < before {
				t.Fatalf("epoch fell from %d to %d", before, tr.Epoch())
			}
			if len(tr.inc.known) > knownSpans || len(tr.seek.held) > heldSlots || len(tr.fetch.missing) > knownSpans {
				t.Fatalf("unbounded: %d known, %d held, %d missing", len(tr.inc.known), len(tr.seek.held), len(tr.fetch.missing))
			}
		}
	})
}

func TestSpansAgainstSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s spans
		set := map[uint64]bool{}
		for range rapid.IntRange(1, 40).Draw(t, "ops") {
			from := rapid.Uint64Range(1, 40).Draw(t, "from")
			to := from + rapid.Uint64Range(0, 6).Draw(t, "len")
			add := rapid.Bool().Draw(t, "add")
			if add {
				s.add(from, to)
			} else {
				s.remove(from, to)
			}
			for x := from; x <= to; x++ {
				set[x] = add
			}
		}
		n := uint64(0)
		for x := uint64(1); x < 60; x++ {
			if s.has(x) != set[x] {
				t.Fatalf("%v: has(%d) = %v", s, x, s.has(x))
			}
			if set[x] {
				n++
			}
		}
		if s.count() != n {
			t.Fatalf("%v: count %d, want %d", s, s.count(), n)
		}
		for i := 1; i < len(s); i++ {
			if s[i].From <= s[i-1].To+1 {
				t.Fatalf("%v touches", s)
			}
		}
		for x := uint64(1); x < 60; x++ {
			if m := s.missing(3, 50); m.has(x) != (x >= 3 && x <= 50 && !set[x]) {
				t.Fatalf("missing %v of %v: %d", m, s, x)
			}
		}
	})
}
