package simulation

import (
	"testing"
	"time"
)

// TestHalvesOfACutUniteWhatTheyKnow plays schedules in which peers that did not
// hear each other gave up slots that others had.
func TestHalvesOfACutUniteWhatTheyKnow(t *testing.T) {
	for _, seed := range []uint64{15000523, 771000692} {
		rep, err := RunFaults(FaultConfig{Seed: seed, Peers: 2 + int(seed%4), Replicas: 1 + int(seed%3), Duration: 15 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range rep.Violations {
			t.Errorf("%d: %s", seed, v)
		}
	}
}
