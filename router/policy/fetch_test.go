package policy

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// A replica that is busy holds 40 k tokens; an idle one can fetch them.
func TestAnIdleReplicaFetchesWhatABusyOneHolds(t *testing.T) {
	p := mustNew(t, "ttft", nil)
	req := &Request{Tokens: 40_512}
	fleet := func(fetch int) []Candidate {
		cands := idle(2)
		cands[0].GPU, cands[0].Prefill, cands[0].Waiting = 40_000, 1.5, 5
		cands[1].Fetch = fetch
		return cands
	}
	if d := p.Decide(req, quiet(1), fleet(0), nil); d.Pos != 0 || d.Fetched != 0 || d.Moving != 0 {
		t.Errorf("nothing to fetch: %+v, want the holder and no fetch", d)
	}
	d := p.Decide(req, quiet(1), fleet(40_000), nil)
	rest := DefaultRates().Prefill(512, req.Tokens)
	if d.Pos != 1 || d.Fetched != 40_000 || d.Matched != 0 || d.FetchTo != 40_000 {
		t.Fatalf("%+v, want the idle replica to fetch 40,000 tokens", d)
	}
	if moving := .05 + 40_000*1e-5; math.Abs(d.Moving-moving) > 1e-9 || math.Abs(d.Prefill-rest) > 1e-9 || math.Abs(d.Predicted-moving-rest) > 1e-9 {
		t.Errorf("%+v, want %.3f s of moving, then %.3f s of prefill", d, moving, rest)
	}
}

// Fetching a few tokens takes longer than computing them.
func TestShortPromptsAreComputed(t *testing.T) {
	p := mustNew(t, "ttft", nil)
	cands := idle(1)
	cands[0].Fetch = 1000
	if d := p.Decide(&Request{Tokens: 1100}, quiet(1), cands, nil); d.Fetched != 0 {
		t.Errorf("fetched %d of 1,100 tokens", d.Fetched)
	}
	cands[0].Fetch = 8000
	if d := p.Decide(&Request{Tokens: 8100}, quiet(1), cands, nil); d.Fetched != 8000 {
		t.Errorf("fetched %d of 8,100 tokens, want 8,000", d.Fetched)
	}
}

// What is expected at a replica may still be on its way there: it is told whom
// to ask, and the decision counts on what is expected.
func TestWhatIsOnlyExpectedIsFetchedIfItIsNotThere(t *testing.T) {
	p := mustNew(t, "ttft", nil)
	cands := idle(1)
	cands[0].Fetch, cands[0].Predicted = 20_000, 20_000
	d := p.Decide(&Request{Tokens: 20_100}, quiet(1), cands, nil)
	if d.Fetched != 0 || d.Matched != 20_000 || d.FetchTo != 20_000 {
		t.Errorf("%+v, want 20,000 tokens expected and a source for them", d)
	}
	cands[0].GPU = 20_000
	if d = p.Decide(&Request{Tokens: 20_100}, quiet(1), cands, nil); d.FetchTo != 0 {
		t.Errorf("%+v: told whom to ask for what it holds", d)
	}
}

// A source that hands out to others is waited for, and for as many more as other
// peers may have sent there unseen.
func TestABusySourceIsWaitedFor(t *testing.T) {
	p := mustNew(t, "ttft", nil)
	cands := idle(1)
	cands[0].Fetch, cands[0].FetchWait = 20_000, .2
	req, view := &Request{Tokens: 20_100}, quiet(1)
	if d := p.Decide(req, view, cands, nil); math.Abs(d.Moving-(.05+.2+.2)) > 1e-9 || d.Fetched != 20_000 {
		t.Errorf("%+v, want .45 s of moving, .2 of them for the source", d)
	}
	if view.Peers = 8; p.Decide(req, view, cands, nil).Fetched != 0 {
		t.Error("fetched from a source that eight peers may have sent others to")
	}
}

// What moves while the request waits costs nothing.
func TestAFetchBehindAQueueCostsNoTime(t *testing.T) {
	p := mustNew(t, "ttft", nil)
	cands := idle(1)
	cands[0].Fetch, cands[0].Prefill, cands[0].Waiting = 20_000, 3, 1
	d := p.Decide(&Request{Tokens: 20_100}, quiet(1), cands, nil)
	if want := 3 + DefaultRates().Prefill(100, 20_100); math.Abs(d.Predicted-want) > 1e-9 {
		t.Errorf("predicted %.3f s, want the queue of 3 s and the prefill: %.3f", d.Predicted, want)
	}
}

// Whoever says that it fetched and computed all the same is soon left alone,
// and asked again when that is long ago.
func TestReplicasThatDoNotFetchAreLeftAloneForAWhile(t *testing.T) {
	p := mustNew(t, "ttft", nil)
	cands := idle(1)
	cands[0].Fetch = 20_000
	req := &Request{Tokens: 20_100}
	c := NewCalibrator(DefaultRates())
	decide := func() Decision {
		cands[0].Rates = Blend(nil, []Calibrator{c})[0]
		return p.Decide(req, quiet(1), cands, nil)
	}
	misses := 0
	for d := decide(); d.Fetched > 0; d = decide() {
		if misses++; misses > 5 {
			t.Fatalf("still asked after %d misses", misses)
		}
		c = c.Fetch(&d, 1.2, false)
	}
	for n := 0; decide().Fetched == 0; n++ {
		if n > 500 {
			t.Fatal("never asked again")
		}
		d := decide()
		c = c.FirstToken(Sample{Predicted: d.Predicted, Prefill: d.Prefill, Seen: d.Predicted})
	}
	if misses == 0 {
		t.Error("nothing was ever fetched")
	}
}

// What fetching takes is learned where it shows.
func TestWhatFetchingTakesIsLearned(t *testing.T) {
	p := mustNew(t, "ttft", nil)
	rapid.Check(t, func(t *rapid.T) {
		really := rapid.Float64Range(.1, 8).Draw(t, "factor")
		c := NewCalibrator(DefaultRates())
		cands := idle(1)
		cands[0].Fetch = 100_000
		for range 200 {
			cands[0].Rates = c.Rates()
			d := p.Decide(&Request{Tokens: 100_100}, quiet(1), cands, nil)
			if d.Fetched == 0 {
				t.Fatalf("%+v: not fetched", d)
			}
			c = c.Fetch(&d, d.Prefill+really*(.05+100_000*1e-5), true)
		}
		if got := c.Rates().Fetch; math.Abs(math.Log(got/really)) > .05 {
			t.Errorf("learned a factor of %.3f, really %.3f", got, really)
		}
	})
	c := NewCalibrator(DefaultRates())
	hidden := Decision{Fetched: 1000, Moving: .06, Prefill: .01, Predicted: 2}
	if c.Fetch(&hidden, 5, true) != c {
		t.Error("learned of a fetch that nobody saw")
	}
}

// I7: whatever a Calibrator is told of fetches, its factor stays in its clamp.
func TestI7FetchFactorStaysInItsClamp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := NewCalibrator(DefaultRates())
		for range rapid.IntRange(1, 60).Draw(t, "samples") {
			d := Decision{
				Fetched: rapid.IntRange(-1, 9000).Draw(t, "fetched"), Moving: drawSeconds(t, "moving"),
				Prefill: drawSeconds(t, "prefill"), Predicted: drawSeconds(t, "predicted"),
			}
			c = c.Fetch(&d, drawSeconds(t, "seen"), rapid.Bool().Draw(t, "got"))
		}
		if f := c.Rates().Fetch; !(f >= 1/maxFactor*.999 && f <= maxFactor*1.001) {
			t.Errorf("I7: a factor of %v", f)
		}
	})
}
