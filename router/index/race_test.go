package index

import (
	"fmt"
	"sync"
	"testing"

	"github.com/banyan-llm/banyan/crdt"
)

// TestLooksBesideWrites matches a doubted, anchored stream while it is written
// to, answered, snapshot and forgotten; for the race detector, and because
// nothing may be deeper than the prompt.
func TestLooksBesideWrites(t *testing.T) {
	for _, hold := range []int{2, foldFacts} { // folds in steps that all help with, and whole ones
		t.Run(fmt.Sprint(hold), func(t *testing.T) { looksBesideWrites(t, hold) })
	}
}

func looksBesideWrites(t *testing.T, hold int) {
	x := newTestIndex()
	defer x.Close()
	x.hold = hold
	c := chainOf(x, 40)
	var wg sync.WaitGroup
	run := func(n int, f func(i int)) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := range n {
				f(i)
			}
		}()
	}
	run(300, func(i int) {
		epoch, seq := uint64(1+i/100), uint64(i%100+2)
		switch {
		case i%100 == 99:
			x.Forget(testStream)
		case i%100 == 50:
			x.Declare(testStream, epoch, []crdt.Span{{From: 40, To: 40}}, int64(i+1))
		case seq == 40:
		default:
			from := uint64(3 + i%37)
			x.Apply(&crdt.Delta{Stream: testStream, Epoch: epoch, Anchor: 2, Slots: []crdt.Slot{chainSlot(t, seq, from, min(from+uint64(i%7), 40))}}, int64(i+1))
		}
	})
	run(300, func(i int) { x.Evidence(testStream, c, i%40, 0, int64(i+1)) })
	run(20, func(int) { x.Cut(testStream) })
	run(100, func(i int) {
		x.Digest(testStream)
		x.Since(testStream, &crdt.Context{Epoch: uint64(1 + i/34), Anchor: 2, Floor: 1}, 1<<16)
		x.Holes(testStream)
	})
	run(50, func(i int) {
		x.Maintain(int64(i), 100)
		x.Stats()
		x.Top(3)
	})
	for range 2 {
		run(300, func(int) {
			if d := depthOf(x, c); d.GPU > 40 || d.Predicted > 40 || d.Suspect > 40 {
				t.Errorf("%+v of 40 blocks", d)
			}
		})
	}
	wg.Wait()
}
