package simulation

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	faultSeeds = flag.Int("fault-seeds", 10, "random schedules to play")
	faultFrom  = flag.Uint64("fault-from", 14, "seed of the first")
	faultFresh = flag.Int("fault-fresh", 0, "schedules that TestFreshSchedules plays")
)

// seeded is the mesh that a seed plays with. Each choice is drawn by itself, so
// that every one of them meets every other.
func seeded(seed uint64) FaultConfig {
	rng := rand.New(rand.NewPCG(seed, 0x5eed))
	one := func(of ...int64) int64 { return of[rng.IntN(len(of))] }
	cfg := FaultConfig{
		Seed: seed, Peers: 2 + rng.IntN(4), Replicas: 1 + rng.IntN(4), Duration: 15 * time.Second,
		RingBytes: int(one(1_000, 20_000, 1<<20)),
		DelayMs:   one(1, 1, 5, 30), JitterMs: one(1, 4, 20),
		DetectMs: one(4_000, 6_000), RejoinMs: one(300, 3_000, 6_000),
		BatchMs: one(50, 100, 100, 400, 3_000),
	}
	for range cfg.Replicas {
		cfg.startless = append(cfg.startless, rng.IntN(3) == 0)
	}
	return cfg
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

// TestProperties plays random schedules and holds every property against every
// state, by name. A failure comes with the end of the trace and with all that is
// needed to play it again.
func TestProperties(t *testing.T) {
	for _, p := range Properties() {
		t.Run(p.Name, func(t *testing.T) {
			checks := 0
			for _, rep := range played() {
				checks += rep.checks(p.Name)
				tellViolation(t, &rep, func(v Violation) bool { return v.Property == p.Name })
			}
			if checks == 0 && *faultSeeds >= 10 {
				t.Error("was never looked at")
			}
			t.Logf("looked at %d times", checks)
		})
	}
	t.Run("Others", func(t *testing.T) {
		known := map[string]bool{}
		for _, p := range Properties() {
			known[p.Name] = true
		}
		for _, rep := range played() {
			tellViolation(t, &rep, func(v Violation) bool { return !known[v.Property] })
		}
	})
}

func (r *FaultReport) checks(property string) int {
	for _, h := range r.Properties {
		if h.Property == property {
			return h.Checks
		}
	}
	return 0
}

// tellViolation fails for the first violation of a run that is meant.
func tellViolation(t *testing.T, rep *FaultReport, meant func(Violation) bool) {
	t.Helper()
	i := slices.IndexFunc(rep.Violations, meant)
	if i < 0 {
		return
	}
	again := ""
	if cfg := seeded(rep.Seed); rep.Schedule == FaultsText(RandomFaults(cfg.Seed, cfg.Peers, cfg.Replicas, cfg.Duration)) {
		again = fmt.Sprintf("again: go test ./simulation -run TestProperties -fault-seeds 1 -fault-from %d\n%+v\n", rep.Seed, cfg)
	}
	t.Errorf("seed %d: %s\n%s%s\n%s", rep.Seed, rep.Violations[i], again, rep.Schedule, strings.Join(rep.Tail[max(0, len(rep.Tail)-40):], "\n"))
}

// Schedules that once failed, each with the reason in its head, hold for good.
func TestSchedulesThatOnceFailed(t *testing.T) {
	files, err := filepath.Glob("testdata/schedules/*.faults")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d schedules: %v", len(files), err)
	}
	for _, name := range files {
		t.Run(filepath.Base(name), func(t *testing.T) {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			head, _, _ := strings.Cut(string(text), "\n")
			cfg := headed(t, strings.TrimPrefix(head, "# "))
			if cfg.Faults, err = ParseFaults(bytes.NewReader(text)); err != nil {
				t.Fatal(err)
			}
			rep, err := RunFaults(cfg)
			if err != nil {
				t.Fatal(err)
			}
			tellViolation(t, &rep, func(Violation) bool { return true })
		})
	}
}

// headed is the mesh that the head of a kept schedule names. In the first ones all
// peers heard of a new one at once.
func headed(t *testing.T, head string) FaultConfig {
	t.Helper()
	cfg := FaultConfig{together: true}
	for word := range strings.FieldsSeq(head) {
		key, value, _ := strings.Cut(word, "=")
		n, err := strconv.ParseInt(value, 10, 64)
		switch key {
		case "seed":
			cfg.Seed = uint64(n)
		case "peers":
			cfg.Peers = int(n)
		case "replicas":
			cfg.Replicas = int(n)
		case "ring":
			cfg.RingBytes = int(n)
		case "rejoin":
			cfg.RejoinMs = n
		case "duration":
			cfg.Duration, err = time.ParseDuration(value)
		case "news":
			cfg.together, err = value != "spread", nil
		case "startless":
			cfg.startless, err = make([]bool, cfg.Replicas), nil
			cfg.startless[replicaSlot(value)] = true
		default:
			t.Fatalf("%q is no key of a schedule's head", key)
		}
		if err != nil {
			t.Fatalf("%s: %v", word, err)
		}
	}
	return cfg
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
	checks := 0
	for _, rep := range played() {
		checks += rep.Checks
	}
	if checks < 100**faultSeeds {
		t.Errorf("only %d states were checked in %d runs", checks, *faultSeeds)
	}
	if *faultSeeds >= 10 && (snapshots < 10 || restarts < 3 || len(verbs) < 10) {
		t.Errorf("%d snapshots, %d restarts, verbs %v", snapshots, restarts, verbs)
	}
}

// What the corners of random schedules are drawn for came about in the sample.
func TestRandomFaultsReachEveryCorner(t *testing.T) {
	reached := map[string]int{}
	for _, rep := range played() {
		for corner, n := range rep.Reached {
			reached[corner] += n
		}
	}
	// What happens meanwhile spoils some, so they have schedules of their own.
	cut := Fault{At: 3 * time.Second, For: 8 * time.Second, Verb: "cut", Peer: "a", Other: "b"}
	for _, faults := range [][]Fault{
		{{At: 3 * time.Second, For: 8 * time.Second, Verb: "half", Target: "r0"}},
		{cut, {At: 4 * time.Second, Verb: "rotate"}},
	} {
		alone, err := RunFaults(FaultConfig{Seed: 3, Peers: 4, Replicas: 1, RingBytes: 1_000, Faults: faults})
		if err != nil {
			t.Fatal(err)
		}
		tellViolation(t, &alone, func(Violation) bool { return true })
		for corner, n := range alone.Reached {
			reached[corner] += n
		}
	}
	for _, corner := range corners {
		t.Logf("%7d %s", reached[corner], corner)
		if reached[corner] == 0 && *faultSeeds >= 10 {
			t.Errorf("%q never came about", corner)
		}
		delete(reached, corner)
	}
	if len(reached) > 0 {
		t.Errorf("not on the list: %v", reached)
	}
}

// corners is the closed list of what schedules are there to bring about, besides
// what their verbs say. FaultReport.Reached counts them.
var corners = []string{
	"a start before the one before", "half-heard, and a ring rolled over", "salts", "pages of several blocks",
	"equal handles across a restart", "three restarts in a minute", "a quarantine", "clears", "departed and forgotten",
	"a joiner after a departure", "slow reader", "torn connection", "one process under two URLs", "disk", "keys rotated in a cut", "listed more than once",
}

// TestFreshSchedules plays many schedules and keeps none: a line every 500, and
// one for each that fails.
func TestFreshSchedules(t *testing.T) {
	if *faultFresh == 0 {
		t.Skip("plays -fault-fresh schedules")
	}
	checks, batches, failed, reached := 0, 0, 0, map[string]int{}
	for i := range *faultFresh {
		rep, err := RunFaults(seeded(*faultFrom + uint64(i)))
		if err != nil {
			t.Fatal(err)
		}
		checks, batches = checks+rep.Checks, batches+rep.Batches
		for corner, n := range rep.Reached {
			reached[corner] += min(n, 1)
		}
		if !rep.OK() {
			failed++
			fmt.Printf("seed %d: %v\n", rep.Seed, rep.Violations[:min(2, len(rep.Violations))])
			t.Fail()
		}
		if n := i + 1; n%500 == 0 || n == *faultFresh {
			fmt.Printf("%d schedules from seed %d: %d failed, %d batches, %d states checked; schedules that reached: %v\n", n, *faultFrom, failed, batches, checks, reached)
		}
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
