package console

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

func TestEventsTellChanges(t *testing.T) {
	c := New(nil)
	c.Observe(sample())
	s := sample()
	s.Replicas = append(s.Replicas[1:], Replica{Name: "r9", State: "up"})
	s.Replicas[0].State, s.Replicas[0].Stream.State = "up", "ok"
	s.Peers[1].State = "failed"
	s.Peers = append(s.Peers[:2], Peer{Name: "c", State: "alive", Ready: true})
	s.Mesh.Divergent = 1
	c.Observe(s)
	c.Observe(s) // nothing new
	s.Mesh.Divergent = 0
	c.Observe(s)
	var got []string
	for _, e := range c.events.last(MaxEvents, 1) {
		got = append(got, e.Level+" "+e.Text)
	}
	want := []string{
		"bad 1 streams differ between peers", "ok peers agree again", "ok replica r3 up", "ok events of r3: ok", "ok new replica r9 up",
		"warn replica r2 was removed", "bad peer b failed", "ok peer c joined, ready", "ok peer gone left",
	}
	for _, w := range want {
		if !strings.Contains(strings.Join(got, "\n")+"\n", w+"\n") {
			t.Errorf("missing %q in %q", w, got)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d events, want %d: %q", len(got), len(want), got)
	}
}

func TestEventsAreBounded(t *testing.T) {
	c := New(nil)
	for i := range 1000 {
		c.Observe(&Status{Replicas: []Replica{{Name: fmt.Sprint(i), State: "up"}}})
	}
	if got := c.events.last(5000, 0); len(got) != MaxEvents || got[0].Seq < 1000 {
		t.Errorf("C5: %d events, newest %d", len(got), got[0].Seq)
	}
}

func TestDecisionsCopyAndBound(t *testing.T) {
	var d decisions
	options := make([]Option, MaxCandidates+3)
	options[0] = Option{Replica: "x", Score: math.MaxFloat64}
	options[1] = Option{Replica: "y", Score: math.NaN()}
	options[2] = Option{Replica: "z", Score: 2}
	d.add(&Choice{Replica: "z", Candidates: options, PredictedSeconds: math.Inf(1)})
	options[2].Replica = "changed"
	got := d.last(9, 0)
	if len(got) != 1 || got[0].Count != MaxCandidates+3 || len(got[0].Candidates) != MaxCandidates || got[0].Predicted != nil {
		t.Fatalf("%+v", got)
	}
	q := got[0].Candidates
	if q[0].Score != nil || q[1].Score != nil || *q[2].Score != 2 || q[2].Replica != "z" {
		t.Errorf("C2, C5: %+v", q[:3])
	}
	if len(d.last(9, 1)) != 0 || d.newest() != 1 {
		t.Error("numbers begin with 1")
	}
}

func BenchmarkDecided(b *testing.B) {
	c := New(nil)
	choice := &Choice{Replica: "r0", Candidates: make([]Option, 8)}
	b.ReportAllocs()
	for b.Loop() {
		c.Decided(choice)
	}
}

func TestVerdict(t *testing.T) {
	for _, test := range []struct {
		level, head string
		change      func(*Status)
	}{
		{LevelOK, "Converged. 2/2 peers, 1/1 replicas, 0 divergent", func(*Status) {}},
		{LevelOK, "Well, without other peers. 1/1", func(s *Status) { s.Peers = s.Peers[:1] }},
		{LevelWarn, "Peer b failed. 1/2 peers", func(s *Status) { s.Peers[1].State = "failed"; s.Problems = []Problem{{Text: "Peer b failed"}} }},
		{LevelBad, "No replica is up: r is down.", func(s *Status) { s.Replicas[0].State = "down"; s.Problems = []Problem{{Text: "r is down"}} }},
		{LevelBad, "Peers disagree.", func(s *Status) { s.Mesh.Divergent = 2 }},
		{LevelBad, "Not ready: joining.", func(s *Status) { s.Ready, s.Reason = false, "joining" }},
		{LevelWarn, "Draining.", func(s *Status) { s.Ready, s.Draining, s.Problems = false, true, make([]Problem, 1) }},
	} {
		s := &Status{Ready: true, Replicas: []Replica{{State: "up"}}, Peers: []Peer{{State: "alive"}, {State: "alive"}}}
		test.change(s)
		s.Judge()
		if s.Level != test.level || !strings.HasPrefix(s.Verdict, test.head) {
			t.Errorf("%s %q, want %s %q", s.Level, s.Verdict, test.level, test.head)
		}
	}
}
