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

// While the wall clock is off nothing is booked here; what other peers predict is
// joined.
func TestNothingIsPredictedWhileTheClockIsOff(t *testing.T) {
	x := newTestIndex()
	defer x.Close()
	c := chainOf(x, 4)
	for _, on := range []bool{false, true} {
		x.Predicting(on)
		x.Predict(testStream, c, 1_000)
		x.Evidence(testStream, c, 2, 0, 1_000)
		if own := x.OwnPredictions(nil, 10); (len(own) == 2) != on || (x.Stats().Predicted > 0) != on {
			t.Errorf("predicting %v: %d to be sent, %d blocks", on, len(own), x.Stats().Predicted)
		}
	}
	x.Predicting(false)
	if n := x.JoinPredictions([]crdt.Prediction{{Space: crdt.PredictionSpace{Replica: testStream, Root: 9}, Time: 1_000, TTL: lastingTTL, Keys: []uint64{77}}}, 1_000); n != 0 || x.Stats().Predicted != 5 {
		t.Errorf("%d of another peer's rejected, %d blocks", n, x.Stats().Predicted)
	}
}
