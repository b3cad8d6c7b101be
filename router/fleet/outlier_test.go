package fleet

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// judged is a fleet of n replicas that serve one model, and its clock.
func judged(n int) (*Fleet, time.Time) {
	f := New(Config{})
	var specs []Spec
	for i := range n {
		specs = append(specs, Spec{Name: fmt.Sprintf("r%d", i), URL: fmt.Sprintf("http://10.0.0.%d:8000", i+1), Model: "m"})
	}
	now := f.began.Add(time.Hour)
	f.Set(specs, now)
	return f, now
}

var bodies uint64

// bad is a failure with a body of its own.
func bad(f *Fleet, r *Replica, now time.Time, client uint64) bool {
	bodies++
	return f.Misanswered(r, now, By{Client: client, Body: bodies}, "status 500")
}

func TestAReplicaThatFailsIsLeftOut(t *testing.T) {
	f, now := judged(2)
	r, other := f.List()[0], f.List()[1]
	for range 5 {
		f.Answered(other, now, 1, AnswerGood)
	}
	for i := range oddCount {
		if out := bad(f, r, now, 1); out != (i == oddCount-1) {
			t.Fatalf("failure %d: left out %v", i+1, out)
		}
	}
	if !r.LeftOut(now) || r.Up() != true {
		t.Error("it must be left out, and it is up")
	}
	if why, left := r.Ejected(now); why == "" || left != outlierMinMs*time.Millisecond {
		t.Errorf("%q for %v", why, left)
	}
}

// A body that fails at one replica, sent again and again, and a client whose
// requests alone fail do not leave it out while others are answered.
func TestOneBodyAndOneClientLeaveNobodyOut(t *testing.T) {
	f, now := judged(2)
	r := f.List()[0]
	for i := range 1000 {
		if f.Misanswered(r, now, By{Client: uint64(i), Body: 7}, "status 500") {
			t.Fatal("left out by one body")
		}
	}
	f, now = judged(2)
	r = f.List()[0]
	for range 4 {
		f.Answered(r, now, 2, AnswerGood)
	}
	for range 1000 {
		if bad(f, r, now, 1) {
			t.Fatal("left out by one client while another one is answered")
		}
	}
	for range windowSize { // now others see it as well
		if bad(f, r, now, 2) {
			return
		}
	}
	t.Error("two clients see it fail, and it is not left out")
}

// What fails everywhere alike leaves nobody out, and never more than half.
func TestHowManyAreLeftOut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(t, "replicas")
		f, now := judged(n)
		for range rapid.IntRange(1, 300).Draw(t, "answers") {
			r := f.List()[rapid.IntRange(0, n-1).Draw(t, "replica")]
			if client := rapid.Uint64Range(0, 3).Draw(t, "client"); rapid.Bool().Draw(t, "good") {
				f.Answered(r, now, client, AnswerGood)
			} else {
				bad(f, r, now, client)
			}
			now = now.Add(time.Duration(rapid.IntRange(0, 3000).Draw(t, "ms")) * time.Millisecond)
			out := 0
			for _, r := range f.List() {
				if _, left := r.Ejected(now); left > 0 {
					out++
				}
				if w := r.Weight(now); w <= 0 || w > 1 {
					t.Fatalf("weight %v", w)
				}
			}
			if 2*out > n {
				t.Fatalf("%d of %d left out", out, n)
			}
		}
	})
	f, now := judged(2)
	for range 100 {
		for _, r := range f.List() {
			if bad(f, r, now, bodies) {
				t.Fatal("both fail alike, and one is left out")
			}
		}
	}
}

// It comes back by degrees, and is left out for longer if it still fails.
func TestALeftOutReplicaComesBackByDegrees(t *testing.T) {
	f, now := judged(2)
	r, other := f.List()[0], f.List()[1]
	var last time.Duration
	for round := range 10 {
		for range 5 {
			f.Answered(other, now, 1, AnswerGood)
		}
		for !bad(f, r, now, 1) {
		}
		_, left := r.Ejected(now)
		if want := min(max(2*last, outlierMinMs*time.Millisecond), outlierMaxMs*time.Millisecond); left != want {
			t.Fatalf("round %d: left out for %v, want %v", round, left, want)
		}
		last = left
		now = now.Add(left)
		if r.LeftOut(now) {
			t.Fatal("it never comes back")
		}
		if w := r.Weight(now); w != leastTrust {
			t.Errorf("it comes back with %v of its weight", w)
		}
		if w := r.Weight(now.Add(outlierRamp / 2)); w < .5 || w > .6 {
			t.Errorf("half way it has %v", w)
		}
	}
	now = now.Add(outlierRamp + outlierMemory*time.Millisecond)
	if why, _ := r.Ejected(now); why != "" || r.Weight(now) != 1 {
		t.Errorf("still %q, weight %v", why, r.Weight(now))
	}
	for !bad(f, r, now, 1) {
	}
	if _, left := r.Ejected(now); left != outlierMinMs*time.Millisecond {
		t.Errorf("after it did well it is left out for %v", left)
	}
}

// A share that is small, yet larger than the others', costs a part of the weight.
func TestAFewFailuresCostWeight(t *testing.T) {
	f, now := judged(2)
	r := f.List()[0]
	for i := range 100 {
		f.Answered(r, now, 1, AnswerGood)
		if i%10 == 0 && bad(f, r, now, 1) {
			t.Fatal("left out for one in ten")
		}
	}
	if w := r.Weight(now); w > .95 || w < .7 {
		t.Errorf("weight %v", w)
	}
	if w := r.Weight(now.Add(2 * windowMs * time.Millisecond)); w != 1 {
		t.Errorf("a minute later %v", w)
	}
	if failed, answered := r.FailedShare(now); failed < 2 || answered != windowSize {
		t.Errorf("%d of %d", failed, answered)
	}
}

// Refusals are doubted at a replica that refuses more than others do.
func TestRefusalsOfOneReplicaAreDoubted(t *testing.T) {
	f, now := judged(2)
	r, other := f.List()[0], f.List()[1]
	for range oddCount {
		f.Answered(r, now, 1, AnswerRefused)
		f.Answered(other, now, 1, AnswerGood)
	}
	if !f.Doubtful(r, now) || f.Doubtful(other, now) {
		t.Error("the one that refuses all is to be doubted, the other one not")
	}
	for range 5 * oddCount {
		f.Answered(other, now, 1, AnswerRefused)
	}
	if f.Doubtful(r, now) {
		t.Error("both refuse")
	}
	alone, now := judged(1)
	for range 10 * oddCount {
		alone.Answered(alone.List()[0], now, 1, AnswerRefused)
	}
	if alone.Doubtful(alone.List()[0], now) {
		t.Error("there is nobody else to ask")
	}
}

// A replica that asks for a pause gets it, and no shorter one afterwards.
func TestAReplicaRests(t *testing.T) {
	f, now := judged(1)
	r := f.List()[0]
	r.Rest(now, 5*time.Second)
	r.Rest(now, time.Second)
	if !r.LeftOut(now.Add(4*time.Second)) || r.LeftOut(now.Add(5*time.Second)) {
		t.Error("it asked for five seconds")
	}
	if why, _ := r.Ejected(now); why != "" {
		t.Error("who rests has not failed")
	}
}

// However long it did well, what begins to fail is found out within so many answers.
func TestAReplicaThatBeginsToFailIsFoundOutSoon(t *testing.T) {
	f, now := judged(2)
	r, other := f.List()[0], f.List()[1]
	for range 10_000 {
		f.Answered(r, now, 1, AnswerGood)
		f.Answered(other, now, 1, AnswerGood)
	}
	for n := 0; !bad(f, r, now, 1); n += 2 {
		if f.Answered(r, now, 1, AnswerGood); n > windowSize {
			t.Fatalf("every second answer of %d failed", n)
		}
	}
}
