package policy

import (
	"testing"

	"pgregory.net/rapid"
)

// TestBurstsAreDrawnAsTheyWere: of twelve that come together through twelve
// peers each hears of eleven, and what it draws next is any place among them.
func TestBurstsAreDrawnAsTheyWere(t *testing.T) {
	var b Bursts
	rnd := seeded(1)
	for i := range 8 {
		at := float64(1000 * i)
		b.Sent(at)
		b.Heard(7, at+.9, 1)
		b.Heard(4, at+1.8, 1)
		b.Heard(100, at+2.1, 1) // too late to have come with it
	}
	seen := map[int]int{}
	for range 6000 {
		seen[b.Draw(9000, 1, .01, rnd)]++
	}
	for n := range 11 { // one neighbour is to be expected
		if got := seen[n]; got < 400 || got > 700 {
			t.Errorf("place %d was drawn %d times of 6,000, want 545", n, got)
		}
	}
	if len(seen) != 11 {
		t.Errorf("drawn: %v", seen)
	}
	for evenly, want := range map[float64]bool{.5: true, .999: true, 1: false, 40: false} {
		if got := b.Draw(9000, 1, evenly, seeded(3)) > 0; got != want {
			t.Errorf("%v are expected anyway: a burst %v, want %v", evenly, got, want)
		}
	}
}

// TestAYoungDispatchTellsNothingYet: what came with it is still on its way.
func TestAYoungDispatchTellsNothingYet(t *testing.T) {
	var b Bursts
	b.Sent(10)
	b.Heard(11, 11, 1)
	if got := b.Draw(12, 1, 0, seeded(1)); got != 0 {
		t.Errorf("%d drawn while others may still be heard of", got)
	}
	most := 0
	for seed := range uint64(40) {
		most = max(most, b.Draw(12.5, 1, 0, seeded(seed)))
	}
	if most < 9 || most > 11 {
		t.Errorf("at most %d drawn of 11", most)
	}
}

func TestBurstsDrawNoMoreThanWasHeard(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b Bursts
		now, heard := 0.0, 0
		for range rapid.IntRange(0, 100).Draw(t, "steps") {
			now += rapid.Float64Range(0, 3).Draw(t, "ms")
			if rapid.Bool().Draw(t, "own") {
				b.Sent(now)
				continue
			}
			n := rapid.IntRange(0, 20).Draw(t, "others")
			b.Heard(n, now, rapid.Float64Range(0, 2).Draw(t, "age"))
			heard += n
		}
		evenly := rapid.Float64Range(0, 2).Draw(t, "evenly")
		if got := b.Draw(now, rapid.Float64Range(0, 2).Draw(t, "age"), evenly, seeded(1)); got < 0 || got > heard {
			t.Fatalf("%d drawn of %d", got, heard)
		}
	})
}

// TestABurstIsPlacedAsIfOneCameAfterTheOther: twelve peers that see the same
// send twelve requests whose beginning one replica holds. In the order of their
// places they go where one router would send them that sees every one.
func TestABurstIsPlacedAsIfOneCameAfterTheOther(t *testing.T) {
	p := mustNew(t, "ttft", nil)
	req := &Request{Tokens: 5500}
	apart := idle(16)
	apart[3].GPU = 4000
	seeing := append([]Candidate(nil), apart...)
	together, inTurn := map[int]int{}, map[int]int{}
	for n := range 12 {
		v := quiet(uint64(n))
		v.Together = n
		together[decide(t, p, req, v, apart).Pos]++

		d := decide(t, p, req, quiet(uint64(n)), seeing)
		inTurn[d.Pos]++
		c := &seeing[d.Pos]
		c.Waiting++
		c.Prefill += d.Prefill
		c.Predicted = max(c.Predicted, 4000)
	}
	most := 0
	for _, n := range together {
		most = max(most, n)
	}
	if together[3] < 2 || most > 4 || len(together) < 6 {
		t.Errorf("twelve are placed %v, one after the other %v", together, inTurn)
	}
	off := mustNew(t, "ttft", func(c *Config) { c.TTFT.BurstCap = 0 })
	v := quiet(1)
	v.Together = 11
	if d := decide(t, off, req, v, apart); d.Pos != 3 {
		t.Errorf("replica %d with bursts switched off", d.Pos)
	}
	v = quiet(1)
	v.Together = 11
	d := decide(t, p, req, v, apart)
	if want := apart[d.Pos].Rates.Prefill(5500-max(apart[d.Pos].GPU, 0), 5500); d.Prefill != want {
		t.Errorf("replica %d: a prefill of %v s is told, it takes %v", d.Pos, d.Prefill, want)
	}
}
