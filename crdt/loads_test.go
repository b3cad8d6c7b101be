package crdt_test

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/banyan-llm/banyan/crdt"
)

func drawLoad(t *rapid.T) crdt.Load {
	return crdt.Load{
		Version: rapid.Uint64Range(1, 9).Draw(t, "version"),
		Waiting: rapid.Int32Range(0, 50).Draw(t, "waiting"), Prefill: float64(rapid.IntRange(0, 9999).Draw(t, "ms")) / 1000,
		Tokens: rapid.Int64Range(0, 1e6).Draw(t, "tokens"), Streams: rapid.Int32Range(0, 50).Draw(t, "streams"),
		Blocks: rapid.Int64Range(0, 1e5).Draw(t, "blocks"), FirstToken: rapid.Int64Range(0, 1000).Draw(t, "first"),
	}
}

// sumRegisters adds registers up from scratch.
func sumRegisters(tables map[crdt.PeerID]map[crdt.StreamID]crdt.Load, id crdt.StreamID) (sum crdt.Load) {
	for _, regs := range tables {
		r := regs[id]
		sum.Waiting += r.Waiting
		sum.Prefill += r.Prefill
		sum.Tokens += r.Tokens
		sum.Streams += r.Streams
		sum.Blocks += r.Blocks
		sum.FirstToken = max(sum.FirstToken, r.FirstToken)
	}
	return sum
}

func equalLoad(a, b crdt.Load) bool {
	d := math.Abs(a.Prefill - b.Prefill)
	a.Prefill, b.Prefill, a.Version, b.Version = 0, 0, 0, 0
	return a == b && d < 1e-6
}

// TestCleanup plays updates, relays, late frames, silence, failures and
// returns: the running sums are always those of the registers that count.
func TestCleanup(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		self := crdt.PeerID{1}
		l := crdt.NewLoads(self)
		model := map[crdt.PeerID]map[crdt.StreamID]crdt.Load{}
		ids := []crdt.StreamID{"a", "b", "c"}
		held := l.Hold("a") // before the first register, and for ever
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			at := crdt.PeerID{byte(rapid.IntRange(1, 4).Draw(t, "peer"))}
			if rapid.IntRange(0, 6).Draw(t, "drop") == 0 && at != self {
				l.Drop(at)
				delete(model, at)
			} else {
				id := rapid.SampledFrom(ids).Draw(t, "replica")
				load := drawLoad(t)
				if at == self {
					l.SetOwn(id, load)
				} else {
					l.Join(at, []crdt.LoadEntry{{Replica: id, Load: load}}, nil)
				}
				if model[at] == nil {
					model[at] = map[crdt.StreamID]crdt.Load{}
				}
				if have, ok := model[at][id]; !ok || load.Version > have.Version {
					model[at][id] = load
				}
			}
			for _, id := range ids {
				if got, want := l.Sum(id), sumRegisters(model, id); !equalLoad(got, want) {
					t.Fatalf("sum of %s is %+v, want %+v", id, got, want)
				}
			}
			got := crdt.Load{
				Waiting: held.Waiting(), Prefill: held.Prefill(), Tokens: held.Tokens(),
				Streams: held.Streams(), Blocks: held.Blocks(), FirstToken: held.FirstToken(),
			}
			if want := l.Sum("a"); got != want || held.Load() != want {
				t.Fatalf("the held sum is %+v, want %+v", got, want)
			}
		}
		for at := range model {
			l.Drop(at)
		}
		for _, id := range ids {
			if got := l.Sum(id); got != (crdt.Load{}) {
				t.Fatalf("a dead peer's load stays: %+v", got)
			}
		}
	})
}

// TestLoadsConverge joins tables in any order, relayed or not.
func TestLoadsConverge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := crdt.NewLoads(crdt.PeerID{1}), crdt.NewLoads(crdt.PeerID{2})
		writer := crdt.NewLoads(crdt.PeerID{3})
		for v := range rapid.Uint64Range(1, 10).Draw(t, "writes") {
			load := drawLoad(t)
			load.Version = v + 1
			writer.SetOwn("r", load)
			for _, e := range writer.Own(nil, rapid.Bool().Draw(t, "dirty")) {
				if rapid.Bool().Draw(t, "arrives") {
					a.Join(crdt.PeerID{3}, []crdt.LoadEntry{e}, nil)
				}
			}
		}
		a.Join(crdt.PeerID{3}, writer.Own(nil, false), nil)
		for range 2 { // relayed, twice
			for _, p := range a.All(nil) {
				b.Join(p.Peer, p.Loads, nil)
			}
		}
		want := writer.Own(nil, false)[0].Load
		if x, y := a.Sum("r"), b.Sum("r"); !equalLoad(x, want) || !equalLoad(y, want) {
			t.Fatalf("%+v and %+v, want %+v", x, y, want)
		}
	})
}

// TestNobodyWritesForUs holds that a relayed copy of the own registers changes
// nothing.
func TestNobodyWritesForUs(t *testing.T) {
	l := crdt.NewLoads(crdt.PeerID{1})
	l.SetOwn("r", crdt.Load{Version: 1, Waiting: 1})
	if changed := l.Join(crdt.PeerID{1}, []crdt.LoadEntry{{Replica: "r", Load: crdt.Load{Version: 9, Waiting: 5}}}, nil); changed != 0 || l.Sum("r").Waiting != 1 {
		t.Fatalf("sum %+v", l.Sum("r"))
	}
}

// TestSilenceDecays holds a silent peer's load, lets it decay and come back.
func TestSilenceDecays(t *testing.T) {
	l := crdt.NewLoads(crdt.PeerID{1})
	at := crdt.PeerID{2}
	full := crdt.Load{Version: 1, Waiting: 10, Streams: 4, Prefill: 2, Tokens: 1000, Blocks: 100, FirstToken: 5}
	l.Join(at, []crdt.LoadEntry{{Replica: "r", Load: full}}, nil)
	l.Heard(at, 1000)
	for _, c := range []struct {
		now int64
		min int32
		max int32
	}{{2499, 10, 10}, {3500, 4, 9}, {6000, 1, 3}, {11_000, 0, 0}} {
		l.Decay(c.now, 2000)
		if got := l.Sum("r"); got.Waiting < c.min || got.Waiting > c.max {
			t.Errorf("at %d ms: %+v", c.now, got)
		}
	}
	l.Heard(at, 12_000)
	if got := l.Sum("r"); !equalLoad(got, full) {
		t.Errorf("a false suspicion does not restore: %+v", got)
	}
	l.Drop(at)
	l.Heard(at, 13_000)
	if got := l.Sum("r"); got != (crdt.Load{}) {
		t.Errorf("late news of a dead peer: %+v", got)
	}
}

// TestDirty holds what makes an own register worth sending.
func TestDirty(t *testing.T) {
	l := crdt.NewLoads(crdt.PeerID{1})
	version := uint64(0)
	set := func(load crdt.Load) int {
		version++
		load.Version = version
		l.SetOwn("r", load)
		return len(l.Own(nil, true))
	}
	base := crdt.Load{Streams: 3, Blocks: 1000}
	for _, c := range []struct {
		load crdt.Load
		want int
	}{
		{base, 1},
		{crdt.Load{Streams: 3, Blocks: 1015}, 0},
		{crdt.Load{Streams: 3, Blocks: 1016}, 1},
		{crdt.Load{Streams: 3, Waiting: 1, Blocks: 1016}, 1},
		{crdt.Load{Streams: 3, Waiting: 1, Blocks: 20}, 1},
		{crdt.Load{Streams: 3, Waiting: 1, Blocks: 22}, 1},
		{crdt.Load{Streams: 3, Waiting: 1, Blocks: 23}, 0},
	} {
		if got := set(c.load); got != c.want {
			t.Errorf("%+v: %d dirty, want %d", c.load, got, c.want)
		}
	}
	if all := l.Own(nil, false); len(all) != 1 || all[0].Load.Blocks != 23 {
		t.Errorf("the full table says %+v", all)
	}
	l.Forget("r")
	if len(l.Own(nil, false)) != 0 || l.Sum("r") != (crdt.Load{}) {
		t.Error("a forgotten replica stays")
	}
}

// TestNewestWins holds the joins of scrapes, vitals and intents.
func TestNewestWins(t *testing.T) {
	a, b := &crdt.Scrape{Version: 1}, &crdt.Scrape{Version: 2}
	v, w := &crdt.Vitals{Version: 1}, &crdt.Vitals{Version: 2}
	if a.Newer(b) || !b.Newer(a) || a.Newer(a) || v.Newer(w) || !w.Newer(v) {
		t.Error("larger versions win, equal ones do not")
	}
	rapid.Check(t, func(t *rapid.T) {
		draw := func(l string) *crdt.Intent {
			return &crdt.Intent{Time: rapid.Int64Range(0, 2).Draw(t, l), Peer: crdt.PeerID{byte(rapid.IntRange(0, 2).Draw(t, l))}}
		}
		a, b := draw("a"), draw("b")
		if same := a.Time == b.Time && a.Peer == b.Peer; same != (!a.Newer(b) && !b.Newer(a)) || a.Newer(b) && b.Newer(a) {
			t.Fatalf("no order between %+v and %+v", a, b)
		}
	})
}

// TestClockOffset holds the minimum over a minute against a dumb twin.
func TestClockOffset(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type sample struct{ at, v int64 }
		var o crdt.ClockOffset
		var all []sample
		now := int64(0)
		for range rapid.IntRange(1, 80).Draw(t, "frames") {
			now += 1000 * rapid.Int64Range(1, 5).Draw(t, "gap") // whole seconds: nothing is coalesced
			delay := rapid.Int64Range(-50, 50).Draw(t, "delay")
			o.Add(now-delay, now)
			all = append(all, sample{now, delay})
			want := delay
			for _, s := range all {
				if now-s.at <= 60_000 {
					want = min(want, s.v)
				}
			}
			if o.Value() != want {
				t.Fatalf("offset %d, want %d", o.Value(), want)
			}
			if age := o.Age(now-delay, now); age != max(0, delay-want) {
				t.Fatalf("age %d", age)
			}
		}
	})
}

// TestJoinTellsWhatChanged: each register that a word changes is told with what
// it was before, and none of a peer's first word.
func TestJoinTellsWhatChanged(t *testing.T) {
	l := crdt.NewLoads(crdt.PeerID{1})
	at, was := crdt.PeerID{2}, map[crdt.StreamID]crdt.Load{}
	for version := uint64(1); version < 6; version++ {
		word := []crdt.LoadEntry{
			{Replica: "r", Load: crdt.Load{Version: version, Waiting: int32(7 * version % 5)}},
			{Replica: "s", Load: crdt.Load{Version: 1, Waiting: 3}}, // old news but once
		}
		told := 0
		changed := l.Join(at, word, func(from crdt.PeerID, e *crdt.LoadEntry, before crdt.Load) {
			told++
			if from != at || e.Replica != "r" || e.Load != word[0].Load || before != was["r"] {
				t.Errorf("version %d: told %v %+v, which was %+v", version, from, e, before)
			}
		})
		was["r"] = word[0].Load
		wantChanged, wantTold := 1, 1
		if version == 1 {
			wantChanged, wantTold = 2, 0
		}
		if changed != wantChanged || told != wantTold {
			t.Errorf("version %d: %d changed, %d told", version, changed, told)
		}
		if changed := l.Join(at, word, func(crdt.PeerID, *crdt.LoadEntry, crdt.Load) { t.Error("told twice") }); changed != 0 {
			t.Errorf("version %d a second time: %d changed", version, changed)
		}
	}
}
