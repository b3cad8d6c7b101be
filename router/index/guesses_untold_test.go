package index

import "testing"

// What waits for the mesh is bounded, and what did not fit is counted.
func TestPredictionsThatWaitAreBoundedAndCounted(t *testing.T) {
	x := newTestIndex()
	defer x.Close()
	c := chainOf(x, 1)
	for range maxOwn + 3 {
		x.Predict(testStream, c, 1_000)
	}
	if own, untold := len(x.OwnPredictions(nil, 2*maxOwn)), x.Stats().Untold; own != maxOwn || untold != 3 {
		t.Errorf("%d predictions wait and %d were not told, want %d and 3", own, untold, maxOwn)
	}
}
