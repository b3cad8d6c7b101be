package proxy

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// hedged is a rig with hedging on, and how its hedges ended.
func hedged(t *testing.T, change func(*Config), upstreams ...http.HandlerFunc) (*rig, func() []HedgeOutcome) {
	var mu sync.Mutex
	var seen []HedgeOutcome
	g := newRig(t, func(c *Config) {
		c.Hedge = Hedge{After: 20 * time.Millisecond, Ratio: 1}
		c.Hedged = func(how HedgeOutcome) {
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, how)
		}
		if change != nil {
			change(c)
		}
	}, upstreams...)
	return g, func() []HedgeOutcome {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(seen)
	}
}

// TestAHedgeAnswersForASlowReplica: and the slow one is cancelled, told to
// Done as lost, and blamed for nothing.
func TestAHedgeAnswersForASlowReplica(t *testing.T) {
	ended := make(chan struct{})
	g, seen := hedged(t, nil, func(w http.ResponseWriter, r *http.Request) {
		stallAfterHeader(w, r)
		close(ended)
	}, ok)
	if a := g.chat(streamedChat); a.status != 200 || a.header.Get("X-Banyan-Replica") != "r1" {
		t.Fatalf("%+v", a)
	}
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		t.Fatal("the slower replica works on")
	}
	lost, answered := g.last(), g.last()
	if answered.Lost {
		lost, answered = answered, lost
	}
	if !lost.Lost || lost.Answered || lost.Cause != CauseNone || !answered.Answered || answered.Lost {
		t.Errorf("%+v %+v", lost, answered)
	}
	if got := seen(); !slices.Equal(got, []HedgeOutcome{HedgeWon}) {
		t.Errorf("%v", got)
	}
	if !g.calls[1].Hedge || g.calls[1].Attempt != 0 || !slices.Equal(g.calls[1].Tried, []string{"r0"}) || g.calls[0].Hedge {
		t.Errorf("%+v %+v", g.calls[0], g.calls[1])
	}
}

func TestAHedgeThatIsSlowerIsCancelled(t *testing.T) {
	second := make(chan struct{})
	g, seen := hedged(t, nil, func(w http.ResponseWriter, r *http.Request) {
		readAll(r)
		<-second
		writeChunks(w, stream...)
	}, func(w http.ResponseWriter, r *http.Request) {
		close(second)
		stall(w, r)
	})
	if a := g.chat(streamedChat); a.status != 200 || a.header.Get("X-Banyan-Replica") != "r0" || !strings.Contains(a.body, "[DONE]") {
		t.Fatalf("%+v", a)
	}
	if got := seen(); !slices.Equal(got, []HedgeOutcome{HedgeLost}) {
		t.Errorf("%v", got)
	}
}

// TestARaceSurvivesFailures: whoever is left answers, and when nobody is, a
// retry goes to a third.
func TestARaceSurvivesFailures(t *testing.T) {
	// pair is a replica that goes on when the other is reached, and that other.
	pair := func(then, other http.HandlerFunc) (a, b http.HandlerFunc) {
		reached := make(chan struct{})
		return func(w http.ResponseWriter, r *http.Request) {
				readAll(r)
				<-reached
				then(w, r)
			}, func(w http.ResponseWriter, r *http.Request) {
				close(reached)
				other(w, r)
			}
	}
	a, b := pair(die, func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(50 * time.Millisecond) // most often after the other one died; either way it answers
		ok(w, r)
	})
	g, seen := hedged(t, nil, a, b)
	if a := g.chat(streamedChat); a.status != 200 || a.header.Get("X-Banyan-Replica") != "r1" || !slices.Equal(seen(), []HedgeOutcome{HedgeWon}) {
		t.Fatalf("%+v %v", a, seen())
	}
	a, b = pair(die, die)
	g, seen = hedged(t, nil, a, b, ok)
	if a := g.chat(streamedChat); a.status != 200 || a.header.Get("X-Banyan-Replica") != "r2" || !slices.Equal(seen(), []HedgeOutcome{HedgeFailed}) {
		t.Fatalf("%+v %v", a, seen())
	}
}

func TestHedgesAreRare(t *testing.T) {
	// waits says that the next request is not to be answered before its hedge
	// has come; it comes at once then, or never.
	var waits atomic.Bool
	var hedge chan struct{}
	slow := func(w http.ResponseWriter, r *http.Request) {
		readAll(r)
		if waits.Load() {
			select {
			case <-hedge:
			case <-time.After(10 * time.Second):
			}
		} else {
			time.Sleep(30 * time.Millisecond)
		}
		ok(w, r)
	}
	second := func(w http.ResponseWriter, r *http.Request) {
		select { // taken by the one that waits for this hedge, not by a later one
		case hedge <- struct{}{}:
		case <-time.After(10 * time.Second):
		}
		ok(w, r)
	}
	for name, c := range map[string]struct {
		change func(*Config)
		body   string
		want   int // of 8 requests, evenly
	}{
		"whole answers":         {nil, plainChat, 0},
		"no budget":             {func(c *Config) { c.Hedge.Ratio = 0.01 }, streamedChat, 0},
		"off":                   {func(c *Config) { c.Hedge = Hedge{Ratio: 1} }, streamedChat, 0},
		"percentile yet to be":  {func(c *Config) { c.Hedge = Hedge{Percentile: .5, Ratio: 1} }, streamedChat, 0},
		"a budget of every 2nd": {func(c *Config) { c.Hedge.Ratio, c.Hedge.After = 0.5, time.Millisecond }, streamedChat, 4},
	} {
		hedge = make(chan struct{})
		g, seen := hedged(t, c.change, slow, second)
		for i := range 8 {
			waits.Store(c.want > 0 && i%(8/c.want) == 8/c.want-1)
			if a := g.chat(c.body); a.status != 200 {
				t.Fatalf("%s: %+v", name, a)
			}
		}
		if got := len(seen()); got != c.want {
			t.Errorf("%s: %d hedges, want %d", name, got, c.want)
		}
	}
}

func TestPercentilesOfFirstBytes(t *testing.T) {
	var w waits
	for i := range 31 {
		w.add(time.Duration(i), .9)
	}
	if _, known := w.percentile(); known {
		t.Error("known of 31")
	}
	for i := 31; i < 1024; i++ {
		w.add(time.Duration(i%100), .9)
	}
	if at, known := w.percentile(); !known || at < 85 || at > 95 {
		t.Errorf("%v %v", at, known)
	}
}
