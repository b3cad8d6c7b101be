package pick

import (
	"context"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/banyan-llm/banyan/radix"
	"github.com/banyan-llm/banyan/router/index"
)

// chainOf is a prompt of n blocks below a first one.
func chainOf(first radix.Key, n int) index.Chain {
	k := index.Chain{}
	for i := range n {
		k.Keys = append(k.Keys, first+radix.Key(i)<<32)
	}
	return k
}

// TestADecisionSeesWhatWasAnnouncedOfItsPrompt plays dispatches and decisions,
// emptying the queue at any moment: everything is announced once and in order,
// and a decision never misses a dispatch whose prompt begins like its own.
func TestADecisionSeesWhatWasAnnouncedOfItsPrompt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var done []int64
		late, full := 0, 0
		add := func(a *Announcer, n Notice) {
			if a.running && a.n == maxNotices {
				full++
			}
			a.Add(n)
		}
		a := NewAnnouncer(func(n *Notice) { done = append(done, n.AtMs) }, func() { late++ })
		firsts := map[int64]radix.Key{}
		running, next := false, int64(0)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			first := radix.Key(rapid.IntRange(1, 3).Draw(t, "prompt"))
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0:
				running = !running
				a.Serve(running)
				if !running {
					a.Settle()
				}
			case 1:
				a.Settle()
				if len(done) != int(next) {
					t.Fatalf("%d of %d announced", len(done), next)
				}
			case 2:
				for range maxNotices - 1 {
					firsts[next] = 9
					add(a, Notice{Chain: chainOf(9, 1), AtMs: next})
					next++
				}
			case 3, 4:
				firsts[next] = first
				add(a, Notice{Chain: chainOf(first, rapid.IntRange(0, 3).Draw(t, "blocks")), AtMs: next})
				if next++; !running && len(done) != int(next) {
					t.Fatalf("nobody empties the queue, and %d of %d are announced", len(done), next)
				}
			case 5:
				before := len(done)
				a.Before(chainOf(first, 2).Keys)
				for at := range next {
					if k := firsts[at]; k == first && !slices.Contains(done, at) && a.concerns(first) {
						t.Fatalf("dispatch %d is not seen", at)
					}
				}
				if first == 3 && len(done) > before && !slices.ContainsFunc(done[before:], func(at int64) bool { return firsts[at] == first }) {
					t.Fatal("a decision waited for others' prompts")
				}
			}
			if a.n > maxNotices || int(a.waiting.Load()) != a.n {
				t.Fatalf("%d wait, %d are told", a.n, a.waiting.Load())
			}
		}
		a.Settle()
		slices.Sort(done)
		for at := range next {
			if int(at) >= len(done) || done[at] != at {
				t.Fatalf("of %d dispatches %v were announced", next, done)
			}
		}
		if late != full {
			t.Fatalf("%d were late, %d found the queue full", late, full)
		}
	})
}

// TestNothingIsLeftUnannounced: whoever adds while the owner ends.
func TestNothingIsLeftUnannounced(t *testing.T) {
	var mu sync.Mutex
	done := 0
	a := NewAnnouncer(func(*Notice) { mu.Lock(); done++; mu.Unlock() }, func() {})
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var wg sync.WaitGroup
	a.Serve(true)
	wg.Go(func() {
		for {
			select {
			case <-a.Wake():
				a.Settle()
			case <-ctx.Done():
				a.Serve(false)
				a.Settle()
				return
			}
		}
	})
	const writers, each = 4, 500
	var adding sync.WaitGroup
	for w := range writers {
		adding.Go(func() {
			for range each {
				a.Add(Notice{Chain: chainOf(radix.Key(w+1), 1)})
				a.Before(chainOf(radix.Key(w+1), 1).Keys)
				if a.concerns(radix.Key(w + 1)) {
					t.Error("an own dispatch is not announced")
				}
			}
		})
		if w == writers/2 {
			stop()
		}
	}
	adding.Wait()
	wg.Wait()
	if a.Settle(); done != writers*each {
		t.Errorf("%d of %d announced", done, writers*each)
	}
}
