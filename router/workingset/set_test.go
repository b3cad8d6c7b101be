package workingset

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/radix"
)

// TestW1W3TokensAreWhatWasUsedWithinTheWindow compares a set that samples every
// block with a list of all uses, told in any order and twice.
func TestW1W3TokensAreWhatWasUsedWithinTheWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := New(finest)
		type told struct {
			at   crdt.StreamID
			key  uint64
			step int64
		}
		var all []told
		now := int64(7_000_000)
		for range rapid.IntRange(1, 60).Draw(t, "uses") {
			now += rapid.SampledFrom([]int64{0, 1, stepMs, 9 * stepMs, Window / 2, 2 * Window}).Draw(t, "later")
			at := crdt.StreamID(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "at"))
			keys := rapid.SliceOfNDistinct(rapid.Uint64Range(0, 12), 0, 6, rapid.ID).Draw(t, "keys")
			when := now - rapid.SampledFrom([]int64{0, stepMs, 3 * stepMs}).Draw(t, "ago")
			for range rapid.IntRange(1, 2).Draw(t, "times") {
				s.Use(at, keys, when, now)
			}
			for _, k := range keys {
				all = append(all, told{at, k, when / stepMs})
			}
			now += rapid.SampledFrom([]int64{0, Window - stepMs, Window}).Draw(t, "rest")
			want := map[crdt.StreamID]int64{"a": 0, "b": 0}
			last := map[uint64]told{}
			for _, u := range all { // who told first of a step keeps it
				if old, ok := last[u.key]; u.step > now/stepMs-steps && (!ok || u.step > old.step) {
					last[u.key] = u
				}
			}
			for _, u := range last {
				want[u.at] += finest
			}
			for at, tokens := range want {
				if got := s.Tokens(at, now); got != tokens {
					t.Fatalf("at %s: %d tokens, want %d", at, got, tokens)
				}
			}
		}
	})
}

// TestW2SamplesAreBoundedAndFair: a thousand times as many blocks as are kept
// are counted to a few in a hundred, and what is not used is forgotten.
func TestW2SamplesAreBoundedAndFair(t *testing.T) {
	s := New(16)
	rnd := rand.New(rand.NewPCG(1, 2))
	keys := make([]uint64, 1000)
	const prompts = 4000
	for i := range prompts {
		for j := range keys {
			keys[j] = rnd.Uint64()
		}
		s.Use(crdt.StreamID(fmt.Sprint(i%2)), keys, 1000, 1000)
		if len(s.kept) > Samples {
			t.Fatalf("%d blocks are kept", len(s.kept))
		}
	}
	for _, at := range []crdt.StreamID{"0", "1"} {
		want := float64(prompts * len(keys) / 2 * 16)
		if got := float64(s.Tokens(at, 1000)); math.Abs(got/want-1) > .05 {
			t.Errorf("%.0f tokens, %.0f were used", got, want)
		}
	}
	if n := s.Tokens("0", 1000+Window+stepMs); n != 0 || len(s.replicas) != 0 {
		t.Errorf("%d tokens of %d replicas are in use after the window", n, len(s.replicas))
	}
}

// TestKeysWithEqualLowBitsAreSampled: a hash need not be good in every bit.
func TestKeysWithEqualLowBitsAreSampled(t *testing.T) {
	s := New(16)
	keys := make([]uint64, 20_000)
	for i := range keys {
		keys[i] = uint64(i) << 20
	}
	s.Use("a", keys, 0, 0)
	if got, want := float64(s.Tokens("a", 0)), 16*20_000.0; math.Abs(got/want-1) > .1 {
		t.Errorf("%v tokens, %v were used", got, want)
	}
}

func keysOf(from, n int) []uint64 {
	out := make([]uint64, n)
	for i := range out {
		out[i] = uint64(from + i)
	}
	return out
}

func radixKeys(keys []uint64) []radix.Key {
	out := make([]radix.Key, len(keys))
	for i, k := range keys {
		out[i] = radix.Key(k)
	}
	return out
}

// TestWhoBeginsAConversation: whoever brings a quarter of blocks or more that
// nobody used of late, however old its session is.
func TestWhoBeginsAConversation(t *testing.T) {
	s := New(finest)
	s.Use("a", keysOf(0, 100), 10_000, 10_000)
	for _, c := range []struct {
		name   string
		keys   []uint64
		now    int64
		begins bool
	}{
		{"the same again", keysOf(0, 100), 10_000, false},
		{"a turn", keysOf(0, 110), 40_000, false},
		{"a quarter is new", keysOf(25, 100), 40_000, true},
		{"all is new", keysOf(500, 100), 10_000, true},
		{"a turn after the window", keysOf(0, 110), 10_000 + Window + stepMs, true},
		{"too short to tell", nil, 10_000, false},
	} {
		if got := s.Begins(radixKeys(c.keys), c.now); got != c.begins {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// TestWhenCachesAreCrowded: only where more is in use than may be, its size is
// known, and what is evicted would be missed.
func TestWhenCachesAreCrowded(t *testing.T) {
	pool := []Cache{{"a", 50 * finest}, {"b", 50 * finest}}
	s := New(finest)
	s.Use("a", keysOf(0, 60), 0, 0)
	s.Use("b", keysOf(100, 30), 0, 0)
	if s.Crowded(.8, pool, 0) {
		t.Error("prompts that nobody repeats are kept out")
	}
	s.Use("a", keysOf(0, 60), stepMs, stepMs)
	s.Use("b", keysOf(100, 30), stepMs, stepMs)
	for _, c := range []struct {
		name    string
		share   float64
		pool    []Cache
		now     int64
		crowded bool
	}{
		{"90 of 100 are in use, 80 may be", .8, pool, stepMs, true},
		{"95 may be", .95, pool, stepMs, false},
		{"one engine does not tell its size", .8, []Cache{pool[0], {"b", 0}}, stepMs, false},
		{"a third replica", .8, append(pool[:2:2], Cache{"c", 50 * finest}), stepMs, false},
		{"its own pool has room", .8, []Cache{{"b", 50 * finest}}, stepMs, false},
		{"nobody serves it", .8, nil, stepMs, false},
		{"later", .8, pool, Window + 3*stepMs, false},
	} {
		if got := s.Crowded(c.share, c.pool, c.now); got != c.crowded {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// TestARuleLetsWaitWhoBeginsWhereThereIsNoRoom: nobody else, and nobody where the
// rule is off; who comes behind others waits whatever the room.
func TestARuleLetsWaitWhoBeginsWhereThereIsNoRoom(t *testing.T) {
	s := New(finest)
	for now := range int64(2) {
		s.Use("a", keysOf(0, 90), now*stepMs, stepMs)
	}
	known, fresh := radixKeys(keysOf(0, 90)), radixKeys(keysOf(500, 100))
	for _, c := range []struct {
		name                 string
		share                float64
		tokens               int64
		keys                 []radix.Key
		behind, waits, letIn bool
	}{
		{"off", 0, 50 * finest, fresh, true, false, true},
		{"no room", .8, 100 * finest, fresh, false, true, false},
		{"a turn", .8, 100 * finest, known, true, false, false},
		{"room", .8, 200 * finest, fresh, false, false, true},
		{"room, behind others", .8, 200 * finest, fresh, true, true, true},
	} {
		r := Rule{Set: s, Share: c.share, Pool: func() []Cache { return []Cache{{"a", c.tokens}} }}
		if got := r.Waits(c.keys, c.behind, stepMs); got != c.waits {
			t.Errorf("%s: waits %v", c.name, got)
		}
		if got := r.LetsIn(0, 2, stepMs, 0); got != c.letIn {
			t.Errorf("%s: let in %v", c.name, got)
		}
	}
	if r := (Rule{Set: s, Share: .8, Pool: func() []Cache { return []Cache{{"a", 200 * finest}} }}); r.LetsIn(1, 2, stepMs, 0) {
		t.Error("W4: it is let in at another peer's turn")
	}
}

// TestW4OnePeerHasItsTurn at any time, and every peer has one soon.
func TestW4OnePeerHasItsTurn(t *testing.T) {
	for _, peers := range []int{0, 1, 2, 7, 64} {
		had := map[int]bool{}
		for ms := int64(0); ms < int64(max(peers, 1))*turnMs; ms += 10 {
			turns := 0
			for rank := range max(peers, 1) {
				if Turn(rank, peers, ms) {
					turns++
					had[rank] = true
				}
			}
			if turns != 1 {
				t.Fatalf("%d of %d peers have their turn", turns, peers)
			}
		}
		if len(had) != max(peers, 1) {
			t.Errorf("%d of %d peers had a turn", len(had), peers)
		}
	}
}

// BenchmarkUse is what one prompt of 32 k tokens costs, in use already.
func BenchmarkUse(b *testing.B) {
	s := New(16)
	keys := make([]uint64, 2048)
	for i := range keys {
		keys[i] = rand.Uint64()
	}
	var now int64
	for b.Loop() {
		now += stepMs
		s.Use("a", keys, now, now)
	}
}

// BenchmarkBegins is what the request waits for.
func BenchmarkBegins(b *testing.B) {
	s := New(16)
	keys := make([]uint64, 2048)
	for i := range keys {
		keys[i] = rand.Uint64()
	}
	s.Use("a", keys, 1000, 1000)
	prompt := radixKeys(keys)
	for b.Loop() {
		s.Begins(prompt, 1000)
	}
}
