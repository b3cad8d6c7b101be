package simulation

import (
	"flag"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	faultSeeds = flag.Int("fault-seeds", 10, "random schedules to play")
	faultFrom  = flag.Uint64("fault-from", 1, "seed of the first")
)

// seeded is the mesh that a seed plays with.
func seeded(seed uint64) FaultConfig {
	return FaultConfig{Seed: seed, Peers: 2 + int(seed%4), Replicas: 1 + int(seed%3), Duration: 15 * time.Second}
}

// played are the reports of the random schedules, played once for all tests.
var played = sync.OnceValue(func() (out []FaultReport) {
	for i := range uint64(*faultSeeds) {
		rep, err := RunFaults(seeded(*faultFrom + i))
		if err != nil {
			panic(err)
		}
		out = append(out, rep)
	}
	return out
})

// holds fails for every violation of a property in a random run, with all that
// is needed to play it again.
func holds(t *testing.T, property string) {
	t.Helper()
	checks := 0
	for _, rep := range played() {
		checks += rep.Checks
		for _, v := range rep.Violations {
			if v.Property != property {
				continue
			}
			cfg := seeded(rep.Seed)
			t.Errorf("%s\nagain: banyan sim --seed %d --peers %d --replicas %d --duration %v --faults FILE, FILE being\n%s\n%s",
				v, rep.Seed, cfg.Peers, cfg.Replicas, cfg.Duration, rep.Schedule, strings.Join(rep.Tail[max(0, len(rep.Tail)-40):], "\n"))
			break
		}
	}
	if checks < 100**faultSeeds {
		t.Errorf("only %d states were checked", checks)
	}
}

// Safety: held after every batch, while things go wrong.

func TestOracle(t *testing.T)         { holds(t, "Oracle") }         // property 2
func TestNoResurrection(t *testing.T) { holds(t, "NoResurrection") } // property 5
func TestNoPhantom(t *testing.T)      { holds(t, "NoPhantom") }      // property 6
func TestGapSafety(t *testing.T)      { holds(t, "GapSafety") }      // property 7
func TestEpochFence(t *testing.T)     { holds(t, "EpochFence") }     // property 8
func TestBounded(t *testing.T)        { holds(t, "Bounded") }        // property 14
func TestNoLocalDelete(t *testing.T)  { holds(t, "NoLocalDelete") }  // property 22

// Liveness: held after everything healed.

func TestStrongEventualConsistency(t *testing.T) { holds(t, "StrongEventualConsistency") } // property 10
func TestConvergenceBound(t *testing.T)          { holds(t, "ConvergenceBound") }          // property 11
func TestEqualsTruth(t *testing.T)               { holds(t, "EqualsTruth") }               // property 12
func TestNoEcho(t *testing.T)                    { holds(t, "NoEcho") }                    // property 15
func TestHastyLossHeals(t *testing.T)            { holds(t, "HastyLoss") }                 // property 21
func TestOnlyKnownProperties(t *testing.T) {
	known := []string{
		"Oracle", "NoResurrection", "NoPhantom", "GapSafety", "EpochFence", "Bounded", "NoLocalDelete",
		"StrongEventualConsistency", "ConvergenceBound", "EqualsTruth", "NoEcho", "HastyLoss",
	}
	for _, rep := range played() {
		for _, v := range rep.Violations {
			if !slices.Contains(known, v.Property) {
				t.Errorf("seed %d: %s", rep.Seed, v)
			}
		}
	}
}

// The random schedules are worth their time: they bring about what they are
// there for.
func TestRandomFaultsReachTheCorners(t *testing.T) {
	var snapshots uint64
	restarts, verbs := 0, map[string]bool{}
	for _, rep := range played() {
		snapshots += rep.Snapshots
		restarts += rep.Restarts
		for line := range strings.Lines(rep.Schedule) {
			for _, verb := range FaultVerbs() {
				if strings.Contains(line, " "+verb+" ") || strings.HasSuffix(line, " join\n") {
					verbs[verb] = true
				}
			}
		}
	}
	if *faultSeeds >= 10 && (snapshots < 10 || restarts < 3 || len(verbs) < 10) {
		t.Errorf("%d snapshots, %d restarts, verbs %v", snapshots, restarts, verbs)
	}
}

// One configuration, one run (property 18), also through a faults file.
func TestFaultsAreDeterministic(t *testing.T) {
	cfg := seeded(7)
	cfg.Duration = 5 * time.Second
	first, err := RunFaults(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Faults, err = ParseFaults(strings.NewReader(first.Schedule)); err != nil {
		t.Fatal(err)
	}
	again, err := RunFaults(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if first.TraceHash != again.TraceHash || first.Checks != again.Checks {
		t.Errorf("two runs of one seed: %s and %s", first.TraceHash, again.TraceHash)
	}
	cfg.Seed++
	if other, _ := RunFaults(cfg); other.TraceHash == first.TraceHash {
		t.Error("the seed changes nothing")
	}
}
