package workload

import (
	"math"
	"slices"
	"testing"
)

// dueTimes are the seconds at which requests come if answers need perToken.
func dueTimes(w *Workload, perToken float64) []float64 {
	due := make([]float64, len(w.Requests))
	for i := range w.Requests {
		r := &w.Requests[i]
		due[i] = r.At
		if r.After >= 0 {
			due[i] = due[r.After] + perToken*float64(w.Requests[r.After].Output) + r.Think
		}
	}
	return due
}

// A chat workload begins with first turns only and goes on long after its last
// session began; met on its way it is as busy in every tenth, turns are as
// mixed at the start as in the middle, and no request is lost.
func TestSteadyIsTheSameAtAnyTime(t *testing.T) {
	const perToken = .01
	for _, requests := range []int{2000, 400} { // longer and shorter than a session
		plain, err := Generate("multi_turn", Options{Seed: 5, Requests: requests})
		if err != nil {
			t.Fatal(err)
		}
		w := plain.Steady(1, perToken)
		checkOrder(t, w)
		checkFollowUps(t, w)
		length := plain.Requests[len(plain.Requests)-1].At - plain.Requests[0].At
		count := func(w *Workload) (tenths [10]int, turns [10]float64) {
			for i, at := range dueTimes(w, perToken) {
				n := int((at - plain.Requests[0].At) / length * 10)
				if n < 10 {
					tenths[n]++
					turns[n] += float64(w.Requests[i].Turn)
				}
			}
			for i := range turns {
				turns[i] /= float64(max(tenths[i], 1))
			}
			return tenths, turns
		}
		before, beforeTurns := count(plain)
		tenths, turns := count(w)
		t.Logf("%d requests: %v of turn %.1f, were %v of turn %.1f", requests, tenths, turns, before, beforeTurns)
		mean := float64(len(w.Requests)) / 10
		for i, n := range tenths {
			if math.Abs(float64(n)-mean) > .35*mean {
				t.Errorf("tenth %d has %d of %d requests", i, n, len(w.Requests))
			}
		}
		if middle := (turns[4] + turns[5]) / 2; turns[0] < .6*middle || middle < 1 {
			t.Errorf("the first tenth is at turn %.1f, the middle at %.1f", turns[0], middle)
		}
		if len(w.Requests) != len(plain.Requests) || math.Abs(w.Rate()/plain.Rate()-1) > .05 {
			t.Errorf("%d requests at %.2f a second, were %d at %.2f", len(w.Requests), w.Rate(), len(plain.Requests), plain.Rate())
		}
	}
}

// I1, and nobody else's words: what was cut off a session shares nothing with
// the rest of it but the system prompt.
func TestSteadyHasOneResultAndNewNames(t *testing.T) {
	plain, _ := Generate("multi_turn", Options{Seed: 5, Requests: 300})
	hash := plain.Hash()
	w := plain.Steady(2, .01)
	if again := plain.Steady(2, .01); again.Hash() != w.Hash() || plain.Hash() != hash {
		t.Error("I1: not the same twice, or the original was changed")
	}
	if w.Hash() == hash {
		t.Error("nothing was moved")
	}
	owner := map[uint64]int{}
	for i := range w.Requests {
		for _, s := range w.Requests[i].Prompt {
			if of, known := owner[s.ID]; known && of != w.Requests[i].Session && s.Role != System {
				t.Fatalf("sessions %d and %d share a segment that is no system prompt", of, w.Requests[i].Session)
			}
			owner[s.ID] = w.Requests[i].Session
		}
	}
}

// What has no sessions, stages of its own or no time stays as it is.
func TestSteadyLeavesOthersAlone(t *testing.T) {
	for _, name := range []string{"zipf", "hot", "few_prefixes", "b2b", "burst"} {
		w, err := Generate(name, Options{Seed: 2, Requests: 100})
		if err != nil {
			t.Fatal(err)
		}
		if got := w.Steady(1, .01); got.Hash() != w.Hash() {
			t.Errorf("%s was changed", name)
		}
	}
	w, _ := Generate("multi_turn", Options{Seed: 2, Requests: 100})
	for _, stretch := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		if got := w.Steady(stretch, .01); !slices.EqualFunc(got.Requests, w.Requests, func(a, b Request) bool { return a.At == b.At }) {
			t.Errorf("stretched by %g", stretch)
		}
	}
}
