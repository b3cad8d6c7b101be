package index

import (
	"testing"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/radix"
)

// predicted is how many blocks of a chain the test's replica is believed to get.
func predicted(x *Index, c *Chain) int {
	var v View
	x.Match(c.Keys, &v)
	return v.Depth(x.Ref(testStream)).Predicted
}

// A dispatch that is taken back leaves what others brought, before it and after
// it, and peers agree in whatever order they hear.
func TestADispatchTakenBackLeavesWhatOthersBrought(t *testing.T) {
	steps := []struct {
		name string
		do   func(x *Index, short, long *Chain)
		want int
	}{
		{"it brought all", func(x *Index, _, long *Chain) {
			x.Predict(testStream, long, 2_000)
			x.Unpredict(testStream, long, 0, 2_000)
		}, 0},
		{"some was there", func(x *Index, short, long *Chain) {
			x.Predict(testStream, short, 1_000)
			x.Predict(testStream, long, 2_000)
			x.Unpredict(testStream, long, 2, 2_000)
		}, 2},
		{"another brought it later", func(x *Index, _, long *Chain) {
			x.Predict(testStream, long, 2_000)
			x.Predict(testStream, long, 2_001)
			x.Unpredict(testStream, long, 0, 2_000)
		}, 4},
		{"it is announced last", func(x *Index, _, long *Chain) {
			x.Unpredict(testStream, long, 0, 2_000)
			x.Predict(testStream, long, 2_000)
		}, 0},
		{"all was there", func(x *Index, _, long *Chain) {
			x.Predict(testStream, long, 2_000)
			x.Unpredict(testStream, long, 4, 2_000)
		}, 4},
	}
	for _, c := range steps {
		x, other := newTestIndex(), newTestIndex()
		defer x.Close()
		defer other.Close()
		long := chainOf(x, 4)
		short := &Chain{Root: long.Root, Keys: long.Keys[:2], Hashes: append([]radix.TokenHash(nil), long.Hashes...)[:2]}
		c.do(x, short, long)
		if n := predicted(x, long); n != c.want {
			t.Errorf("%s: %d blocks believed, want %d", c.name, n, c.want)
		}
		own := x.OwnPredictions(nil, 10)
		for i := range own {
			other.JoinPredictions([]crdt.Prediction{own[len(own)-1-i]}, 2_002)
		}
		if n := predicted(other, long); n != c.want {
			t.Errorf("%s: %d blocks believed by a peer that hears it backwards, want %d", c.name, n, c.want)
		}
	}
}
