package simulation

import (
	"flag"
	"fmt"
	"testing"
)

var (
	faultSeeds = flag.Int("fault-seeds", 12, "random schedules per test")
	faultFrom  = flag.Uint64("fault-from", 1, "first seed")
)

func TestRandomFaults(t *testing.T) {
	for i := range uint64(*faultSeeds) {
		seed := *faultFrom + i
		rep, err := RunFaults(FaultConfig{Seed: seed, Peers: 2 + int(seed%4), Replicas: 1 + int(seed%3)})
		if err != nil {
			t.Fatal(err)
		}
		if !rep.OK() {
			t.Errorf("seed %d: %v\nreplay: banyan sim --seed %d --peers %d --replicas %d --faults FILE, with\n%s", seed, rep.Violations, seed, 2+int(seed%4), 1+int(seed%3), rep.Schedule)
		}
		if testing.Verbose() {
			rep.Tail, rep.Schedule = nil, ""
			fmt.Printf("%+v\n", rep)
		}
	}
}
