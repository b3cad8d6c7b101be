package index

import (
	"testing"

	"github.com/banyan-llm/banyan/crdt"
)

// Predictions are in the wall clock's time, which peers compare; how long
// something lasts here is measured by the times given.
func TestAClockThatIsSetMovesPredictionsOnly(t *testing.T) {
	const hour = int64(3_600_000)
	for _, jump := range []int64{hour, -hour} {
		x := newTestIndex()
		defer x.Close()
		now := 100 * hour
		x.Apply(&crdt.Delta{Stream: testStream, Epoch: 1, Anchor: 1, Slots: []crdt.Slot{chainSlot(t, 1, 1, 1)}}, now)
		x.ClockSet(jump)
		c := chainOf(x, 4)
		c.Exact = true
		x.Predict(testStream, c, now)
		own := x.OwnPredictions(nil, 10)
		if len(own) != 1 || own[0].Time != now+jump || own[0].TTL != dispatchTTL {
			t.Fatalf("%+d ms: predicted %+v at %d: a stream with a slot is fed by events", jump, own, now)
		}
		ahead := own[0]
		ahead.Time += crdt.PredictionAheadMs + 1
		if n := x.JoinPredictions([]crdt.Prediction{ahead}, now); n != 1 {
			t.Errorf("%+d ms: %d rejected of a prediction from the future", jump, n)
		}
		x.Maintain(now+dispatchTTL-1, 100)
		if n := x.Stats().Predicted; n != 4 {
			t.Errorf("%+d ms: %d blocks before their time, want 4", jump, n)
		}
		x.Maintain(now+dispatchTTL, 100)
		if n := x.Stats().Predicted; n != 0 {
			t.Errorf("%+d ms: %d blocks after their time", jump, n)
		}
	}
}
