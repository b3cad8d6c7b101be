package load

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/router/policy"
)

// newTable is the empty table of peer n, whose clock stands still.
func newTable(n byte) *Table { return New(crdt.PeerID{n}, func() int64 { return 0 }) }

func TestEveryRequestIsCountedOutExactlyOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := newTable(1)
		var costs []*Cost
		waiting, streams := map[crdt.StreamID]int{}, map[crdt.StreamID]int{}
		now := int64(1000)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now += int64(rapid.IntRange(0, 20).Draw(t, "ms"))
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0, 1:
				s := &Cost{
					Replica: crdt.NewStreamID(fmt.Sprintf("http://r%d", rapid.IntRange(0, 2).Draw(t, "replica")), 0),
					Prefill: rapid.Float64Range(0, 3).Draw(t, "s"), Tokens: int64(rapid.IntRange(1, 5000).Draw(t, "tokens")), Blocks: 7,
				}
				costs = append(costs, s)
				b.Dispatch(s, now)
				waiting[s.Replica]++
			case 2:
				if len(costs) > 0 {
					s := costs[rapid.IntRange(0, len(costs)-1).Draw(t, "which")]
					if !s.started && !s.over {
						waiting[s.Replica]--
						streams[s.Replica]++
					}
					b.FirstToken(s, now) // also a second time, or late
				}
			case 3:
				if len(costs) > 0 {
					s := costs[rapid.IntRange(0, len(costs)-1).Draw(t, "which")]
					if !s.over && s.started {
						streams[s.Replica]--
					} else if !s.over {
						waiting[s.Replica]--
					}
					b.Done(s, time.Second, 10, 5)
				}
			}
			for id := range waiting {
				if sum := b.loads.Sum(id); int(sum.Waiting) != waiting[id] || int(sum.Streams) != streams[id] {
					t.Fatalf("L1: %s has %d waiting and %d streams, want %d and %d", id, sum.Waiting, sum.Streams, waiting[id], streams[id])
				}
			}
		}
		for _, s := range costs {
			b.Done(s, 0, 0, 0)
		}
		for id := range waiting {
			sum := b.loads.Sum(id)
			if sum.Waiting != 0 || sum.Streams != 0 || sum.Prefill != 0 || sum.Tokens != 0 || sum.Blocks != 0 {
				t.Fatalf("L1: load remains after all ended: %+v", sum)
			}
		}
	})
}

func TestOwnRecentDispatchesAreYoung(t *testing.T) {
	b := newTable(1)
	id := crdt.NewStreamID("http://r", 0)
	for at := int64(0); at < 100; at += 10 {
		b.Dispatch(&Cost{Replica: id, Prefill: 1, Tokens: 100}, 1000+at)
	}
	c := filled(b, id, 1095, 25) // those of 1080 and 1090
	if c.YoungCount != 2 || c.YoungPrefill != 2 || c.Waiting != 10 {
		t.Errorf("%+v", c)
	}
	if c := filled(b, id, 1095, 0); c.YoungCount != 0 {
		t.Errorf("%+v", c)
	}
}

// filled is one fresh candidate with its load.
func filled(b *Table, id crdt.StreamID, nowMs int64, ageMs float64) policy.Candidate {
	cands := []policy.Candidate{{Weight: 1}}
	b.Snapshot(cands, []*Entry{b.Entry(id)}, nowMs, ageMs)
	return cands[0]
}

func TestIntentIsLastWriterWins(t *testing.T) {
	a, b := newTable(1), newTable(2)
	id := crdt.NewStreamID("http://r", 0)
	a.SetIntent(id, true, 100)
	b.SetIntent(id, false, 100)
	a.JoinIntents(b.Intents())
	b.JoinIntents(a.Intents())
	if a.Draining(id) != b.Draining(id) || a.Draining(id) {
		t.Errorf("a drains %v, b drains %v: at equal times the larger peer id wins", a.Draining(id), b.Draining(id))
	}
	a.SetIntent(id, true, 50) // a slow clock still comes after what it has seen
	b.JoinIntents(a.Intents())
	if !b.Draining(id) {
		t.Error("the newer word lost")
	}
	if b.JoinIntents(a.Intents()) {
		t.Error("joining twice changed something")
	}
}

func TestADrainingReplicaHasNoWeight(t *testing.T) {
	b := newTable(1)
	id := crdt.NewStreamID("http://r", 0)
	if c := filled(b, id, 1, 0); c.Weight != 1 {
		t.Errorf("weight %v", c.Weight)
	}
	b.SetIntent(id, true, 1)
	if c := filled(b, id, 1, 0); c.Weight != 0 {
		t.Errorf("weight %v while draining", c.Weight)
	}
}

func TestRequestRateFollowsTheTraffic(t *testing.T) {
	b := newTable(1)
	id := crdt.NewStreamID("http://r", 0)
	now := int64(1000)
	for range 2000 {
		now += 20
		b.Dispatch(&Cost{Replica: id}, now)
	}
	if r := b.OwnRate(now); r < 40 || r > 60 {
		t.Errorf("50 requests a second read as %.1f", r)
	}
	if r := b.OwnRate(now + 60_000); r > 5 {
		t.Errorf("a minute of silence reads as %.1f a second", r)
	}
}

// Setting the wall clock changes what is told to others and read of them, and
// no time that this peer measures itself.
func TestATableOutlastsAClockThatIsSet(t *testing.T) {
	const hour = int64(time.Hour / time.Millisecond)
	for _, jump := range []int64{hour, -hour, -rateWindow * 1000} {
		b := newTable(1)
		id, other := crdt.NewStreamID("http://r", 0), crdt.NewStreamID("http://s", 0)
		now := 10 * hour
		for range 500 {
			now += 20
			b.Dispatch(&Cost{Replica: id}, now)
		}
		b.ClockSet(jump)
		for range 10 {
			now += 20
			b.Dispatch(&Cost{Replica: id}, now)
		}
		if r := b.OwnRate(now); r < 30 || r > 60 {
			t.Errorf("%+d ms: 50 requests a second read as %v", jump, r)
		}
		if c := filled(b, id, now, 100); c.YoungCount != 5 {
			t.Errorf("%+d ms: %d dispatches of the last 100 ms, want 5", jump, c.YoungCount)
		}
		b.Dispatch(&Cost{Replica: other}, now)
		if c := filled(b, other, now, 0); c.FirstToken != now+jump {
			t.Errorf("%+d ms: others are told a first token at %+d ms", jump, c.FirstToken-now)
		}
		for _, s := range []struct {
			ago   int64 // by the wall clock, when the scrape was taken
			fresh bool
		}{{500, true}, {-500, true}, {ScrapeFreshMs, false}, {-ScrapeFreshMs, false}, {-hour, false}} {
			b.ForgetReplica(other)
			b.JoinScrapes(map[crdt.StreamID]crdt.Scrape{other: {Version: uint64(now + jump - s.ago), Waiting: 7}})
			if c := filled(b, other, now, 0); (c.Queued == 7) != s.fresh {
				t.Errorf("%+d ms: a scrape of %d ms ago is read as %d waiting", jump, s.ago, c.Queued)
			}
		}
	}
}

func TestAForgottenReplicaLeavesNothing(t *testing.T) {
	b := newTable(1)
	id := crdt.NewStreamID("http://r", 0)
	b.Dispatch(&Cost{Replica: id}, 1)
	b.JoinScrapes(map[crdt.StreamID]crdt.Scrape{id: {Version: 1}})
	b.SetIntent(id, true, 1)
	if !slices.Contains(b.Held(nil), id) {
		t.Fatal("nothing to forget")
	}
	b.ForgetReplica(id)
	if slices.Contains(b.Held(nil), id) || b.loads.Sum(id).Waiting != 0 || len(b.Intents()) != 0 {
		t.Errorf("held %q, waiting %d, intents %v", b.Held(nil), b.loads.Sum(id).Waiting, b.Intents())
	}
}

// TestADrainAloneIsHeld: a replica of which only an operator spoke can be
// forgotten too.
func TestADrainAloneIsHeld(t *testing.T) {
	b := newTable(1)
	id := crdt.NewStreamID("http://r", 0)
	b.JoinIntents(map[crdt.StreamID]crdt.Intent{id: {Time: 1, Drain: true}})
	if held := b.Held(nil); !slices.Equal(held, []crdt.StreamID{id}) {
		t.Errorf("%q", held)
	}
}

// TestTheLoadOfASilentPeerFades: its requests count until it has been silent for
// a while, then ever less, and fully again when it speaks (L6).
func TestTheLoadOfASilentPeerFades(t *testing.T) {
	now, other, id := int64(10_000), crdt.PeerID{2}, crdt.NewStreamID("http://r", 0)
	b := New(crdt.PeerID{1}, func() int64 { return now })
	b.JoinLoads(other, []crdt.LoadEntry{{Replica: id, Load: crdt.Load{Version: 1, Waiting: 8, Tokens: 800}}})
	waiting := func(after int64) int {
		now += after
		b.Decay(now)
		return filled(b, id, now, 0).Waiting
	}
	if n := waiting(100); n != 8 {
		t.Errorf("%d wait after 100 ms", n)
	}
	faded := waiting(20_000)
	if faded >= 8 {
		t.Errorf("%d wait after 20 s of silence", faded)
	}
	if n := waiting(60_000); n > faded || n > 1 {
		t.Errorf("%d wait after 80 s of silence", n)
	}
	b.JoinLoads(other, nil) // its heartbeat
	if n := waiting(0); n != 8 {
		t.Errorf("%d wait when it speaks again", n)
	}
}

// TestWhatOthersRepeatIsNoWordOfASilentPeer: registers that are known already,
// passed on by somebody, do not keep the load of a silent peer from fading (L6);
// newer ones do.
func TestWhatOthersRepeatIsNoWordOfASilentPeer(t *testing.T) {
	now, other, id := int64(10_000), crdt.PeerID{2}, crdt.NewStreamID("http://r", 0)
	b := New(crdt.PeerID{1}, func() int64 { return now })
	say := func(version uint64) {
		b.JoinLoads(other, []crdt.LoadEntry{{Replica: id, Load: crdt.Load{Version: version, Waiting: 8}}})
	}
	say(1)
	for range 60 {
		now += 1_000
		say(1)
		b.Decay(now)
	}
	if n := filled(b, id, now, 0).Waiting; n != 0 {
		t.Errorf("%d wait of a peer that was silent for a minute", n)
	}
	say(2)
	b.Decay(now)
	if n := filled(b, id, now, 0).Waiting; n != 8 {
		t.Errorf("%d wait when a newer register comes through others", n)
	}
}

// TestANewTableKnowsItsRateAtOnce: ten requests within a second are ten a
// second, also when nothing came before.
func TestANewTableKnowsItsRateAtOnce(t *testing.T) {
	b := newTable(1)
	now := int64(1_000)
	for range 11 {
		b.Dispatch(&Cost{Replica: crdt.NewStreamID("http://r", 0), Prefill: .5}, now)
		now += 100
	}
	if r := b.OwnRate(now - 100); r < 8 || r > 12 {
		t.Errorf("10 requests a second read as %.1f after the first second", r)
	}
	if _, meanS := b.FleetRate(now); meanS != .5 {
		t.Errorf("every prefill took .5 s, the mean is %v", meanS)
	}
}

// TestOthersRequestsAreCountedInTheirRegisters: what another peer holds more
// than before it sent since; its first word, an answer that ends and a copy of
// what is known say nothing.
func TestOthersRequestsAreCountedInTheirRegisters(t *testing.T) {
	now := int64(1_000)
	b := New(crdt.PeerID{1}, func() int64 { return now })
	other, id := crdt.PeerID{2}, crdt.NewStreamID("http://r", 0)
	version := uint64(0)
	hear := func(waiting, streams int32) {
		version++
		b.JoinLoads(other, []crdt.LoadEntry{{Replica: id, Load: crdt.Load{Version: version, Waiting: waiting, Streams: streams}}})
	}
	hear(40, 2)
	if r, _ := b.FleetRate(now); r != 0 {
		t.Errorf("a peer's first word read as %.1f requests a second", r)
	}
	for i := range int32(20) {
		hear(1, i+1) // sent
		hear(0, i+2) // its first token
		hear(0, i+1) // an end
		now += 100
	}
	if r, _ := b.FleetRate(now); r < 8 || r > 12 {
		t.Errorf("10 requests a second of another peer read as %.1f", r)
	}
	if r := b.OwnRate(now); r != 0 {
		t.Errorf("another peer's requests are counted as own: %.1f", r)
	}
}

// TestWaitingBeginsAnewWhileOthersDecode: what comes when nobody waits has not
// been worked on since the last first token, however long that is ago.
func TestWaitingBeginsAnewWhileOthersDecode(t *testing.T) {
	b := newTable(1)
	id := crdt.NewStreamID("http://r", 0)
	first, second := &Cost{Replica: id, Prefill: 1}, &Cost{Replica: id, Prefill: 1}
	b.Dispatch(first, 1_000)
	b.FirstToken(first, 2_000)
	b.Dispatch(second, 9_000)
	if c := filled(b, id, 9_000, 0); c.FirstToken != 9_000 {
		t.Errorf("what waits since 9,000 ms is held to be worked on since %d", c.FirstToken)
	}
	b.Dispatch(&Cost{Replica: id, Prefill: 1}, 9_500)
	if c := filled(b, id, 9_500, 0); c.FirstToken != 9_000 {
		t.Errorf("another one that waits moved it to %d", c.FirstToken)
	}
}

// TestADispatchIsYoungUntilItsFirstToken: what others did like it at that time
// is over as well.
func TestADispatchIsYoungUntilItsFirstToken(t *testing.T) {
	b := newTable(1)
	id := crdt.NewStreamID("http://r", 0)
	costs := []*Cost{{Replica: id, Prefill: 1}, {Replica: id, Prefill: 2}, {Replica: id, Prefill: 4}}
	for i, c := range costs {
		b.Dispatch(c, 1_000+int64(i))
	}
	b.Resize(costs[1], 3, 10)
	b.FirstToken(costs[1], 1_500)
	b.Done(costs[0], time.Second, 0, 0)
	if c := filled(b, id, 1_500, 1_000); c.YoungCount != 1 || c.YoungPrefill != 4 {
		t.Errorf("%d young dispatches of %v s", c.YoungCount, c.YoungPrefill)
	}
}

// What a replica hands to others takes its time one after the other, and is over
// some day.
func TestHandOutsAddUp(t *testing.T) {
	x := newTable(1)
	entries := []*Entry{x.Entry("a"), x.Entry("b")}
	x.HandOut("a", .5, 1000)
	x.HandOut("a", .25, 1100)
	x.HandOut("a", math.NaN(), 1100)
	x.HandOut("a", 1e9, 1100)
	for _, c := range []struct {
		nowMs int64
		want  float64
	}{{1100, .65}, {1700, .05}, {9000, 0}} {
		if got := x.HandOuts(nil, entries, c.nowMs); math.Abs(got[0]-c.want) > 1e-9 || got[1] != 0 {
			t.Errorf("at %d ms: busy for %v s, want %v and 0", c.nowMs, got, c.want)
		}
	}
}
