package simulation

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestFaultsFileIsReadAsTheContractSays(t *testing.T) {
	got, err := ParseFaults(strings.NewReader(`
		# a comment
		at=12s for=10s cut a b
		cut a>b            # from the start, for ever
		at=1s slow a 10x
		at=2s kill a
		at=2s restart r0
		at=3s drop-events r0 0.01
		at=4s for=5s skew a +3s
		at=5s cut p27 r12
	`))
	if err != nil {
		t.Fatal(err)
	}
	want := []Fault{
		{Verb: "cut", Peer: "a", Other: "b", OneWay: true},
		{At: time.Second, Verb: "slow", Peer: "a", Factor: 10},
		{At: 2 * time.Second, Verb: "kill", Peer: "a"},
		{At: 2 * time.Second, Verb: "restart", Target: "r0"},
		{At: 3 * time.Second, Verb: "drop-events", Target: "r0", Factor: 0.01},
		{At: 4 * time.Second, For: 5 * time.Second, Verb: "skew", Peer: "a", Skew: 3 * time.Second},
		{At: 5 * time.Second, Verb: "cut", Peer: "p27", Other: "r12"},
		{At: 12 * time.Second, For: 10 * time.Second, Verb: "cut", Peer: "a", Other: "b"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestFaultsFileFaultsAreNamedByLine(t *testing.T) {
	for text, want := range map[string]string{
		"cut a":                       "line 1",
		"\n\nfly a":                   `line 3: unknown fault "fly"`,
		"cut a a":                     "with itself",
		"at=soon cut a b":             "at=soon",
		"at=-1s cut a b":              "at=-1s",
		"in=1s cut a b":               `unknown key "in"`,
		"at=1s":                       "no fault named",
		"slow a 10":                   "want a factor",
		"slow a 0.1x":                 "want a factor",
		"slow a NaNx":                 "want a factor",
		"drop-events r0 2":            "want a share",
		"drop-events r0 NaN":          "want a share",
		"drop-events a 0.1":           "is no replica",
		"restart r01":                 "is no replica",
		"kill r0":                     "is no peer",
		"kill p3":                     "is no peer",
		"kill a b":                    "want kill PEER",
		"skew a 3":                    "want a time",
		"suspect a b":                 "want suspect a>b",
		"break a>b":                   "breaks both ways",
		"join a":                      "want join",
		"rotate a":                    "want rotate",
		"relist a":                    "is no replica",
		"cut a b\ncut b\nkill a\nfly": "line 2",
	} {
		if _, err := ParseFaults(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q in it", text, err, want)
		}
	}
}

func TestEveryFaultSurvivesItsFile(t *testing.T) {
	for seed := range uint64(50) {
		want := RandomFaults(seed, 5, 3, time.Minute)
		got, err := ParseFaults(strings.NewReader(FaultsText(want)))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d: %v\n%v", seed, got, want)
		}
	}
}

func TestFaultsOfNobodyAreRefused(t *testing.T) {
	for _, text := range []string{"kill c", "cut a r1", "restart r1", "cut a c"} {
		faults, err := ParseFaults(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := RunFaults(FaultConfig{Peers: 2, Replicas: 1, Faults: faults}); err == nil {
			t.Errorf("%q was played with two peers and one replica", text)
		}
	}
	if _, err := RunFaults(FaultConfig{Peers: 65, Replicas: -1, Duration: -1}); err == nil || strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("three faults of a configuration: %v", err)
	}
}

func FuzzParseFaults(f *testing.F) {
	f.Add(FaultsText(RandomFaults(1, 3, 2, 20*time.Second)))
	f.Add("at=1s for=2s cut a > b # x\nskew a -3s")
	f.Fuzz(func(t *testing.T, text string) {
		faults, err := ParseFaults(strings.NewReader(text))
		if err != nil {
			return
		}
		again, err := ParseFaults(strings.NewReader(FaultsText(faults)))
		if err != nil || fmt.Sprint(again) != fmt.Sprint(faults) {
			t.Fatalf("%q reads as %v, written and read again %v (%v)", text, faults, again, err)
		}
	})
}
