package workload

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestAgentxSessionsAreRead plays sessions that agentx-harness 1.0.12 wrote: a
// turn is what was said before, its answer and what the line adds.
func TestAgentxSessionsAreRead(t *testing.T) {
	w, err := ReadFile("testdata/agentx.jsonl", 1)
	if err != nil {
		t.Fatal(err)
	}
	checkOrder(t, w)
	sessions := map[int]*Request{}
	for i := range w.Requests {
		r := &w.Requests[i]
		if r.Think > maxPause {
			t.Errorf("request %d comes after %g s", i, r.Think)
		}
		if n := tokensOf(r.Prompt); n != r.Tokens {
			t.Errorf("request %d has %d tokens, its segments %d", i, r.Tokens, n)
		}
		if before := sessions[r.Session]; before != nil {
			if r.After != before.ID || r.Tokens <= before.Tokens+before.Output || !slices.Equal(r.Prompt[:len(before.Prompt)], before.Prompt) || r.Prompt[len(before.Prompt)].ID != before.Reply {
				t.Errorf("request %d does not go on where %d ended", i, before.ID)
			}
		} else if r.Prompt[0].Role != System || r.After != -1 {
			t.Errorf("session %d begins with a %s after %d", r.Session, r.Prompt[0].Role, r.After)
		}
		sessions[r.Session] = r
	}
	if hit := w.IdealHit(); hit < .8 || hit > .99 {
		t.Errorf("an endless cache finds %.3f", hit)
	}
	if !strings.Contains(w.Told, "were cut to it; all") {
		t.Errorf("told %q", w.Told)
	}
	if w.Rate() > 1e6 {
		t.Error("all sessions begin at once")
	}
}

func tokensOf(prompt []Segment) (n int) {
	for _, s := range prompt {
		n += s.Tokens
	}
	return n
}

// TestBadAgentxLinesAreNamed: I5.
func TestBadAgentxLinesAreNamed(t *testing.T) {
	const good = `{"session_id":"a","input_length":600,"output_length":5,"hash_ids":[0,1],"timestamp":0}` + "\n"
	for _, bad := range []string{
		`{"session_id":"a","output_length":5}`,
		`{"session_id":"a","input_length":-1,"output_length":5}`,
		`{"session_id":"a","input_length":1,"output_length":99999999}`,
		`{"session_id":"a","input_length":1,"output_length":1,"hash_ids":[1,2]}`,
		`{"session_id":"a","input_length":1,"output_length":1,"delay":-3}`,
		`{"session_id":"a","input_length":16777216,"output_length":1}`,
	} {
		if _, err := ReadTrace(strings.NewReader(good+bad), 1); err == nil || !strings.HasPrefix(err.Error(), "line 2: ") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// TestCodingIsAsPublished holds the second generator to AgentX's figures, as
// wide as a few sessions scatter.
func TestCodingIsAsPublished(t *testing.T) {
	w, err := Generate("coding", Options{Seed: 3, Requests: 12000})
	if err != nil {
		t.Fatal(err)
	}
	checkOrder(t, w)
	var in, out []int
	turns, forked, kids := map[int]int{}, map[int]bool{}, 0
	for i := range w.Requests {
		r := &w.Requests[i]
		in, out = append(in, r.Tokens), append(out, r.Output)
		if r.Tokens > codingMost || r.Think > maxPause {
			t.Fatalf("request %d: %d tokens after %g s", i, r.Tokens, r.Think)
		}
		if r.Lineage == 0 {
			turns[r.Session]++
			continue
		}
		forked[r.Family()] = true
		if r.Turn == 0 {
			kids++
			if caller := &w.Requests[r.After]; caller.Family() != r.Family() || r.Think > .005 {
				t.Errorf("subagent %d of session %d comes %g s after a turn of %d", i, r.Family(), r.Think, caller.Family())
			}
		}
	}
	slices.Sort(in)
	slices.Sort(out)
	between := func(what string, got, low, high float64) {
		if got < low || got > high {
			t.Errorf("%s: %g, want %g to %g", what, got, low, high)
		}
	}
	between("median tokens in", float64(in[len(in)/2]), 115_000, 160_000)
	between("median tokens out", float64(out[len(out)/2]), 400, 490)
	between("turns of a session, mean", float64(len(w.Requests))/float64(len(turns)+kids), 5, 80)
	between("share of sessions that fork", float64(len(forked))/float64(len(turns)), .25, .6)
	between("seen before", w.IdealHit(), .95, 1)
	again, _ := Generate("coding", Options{Seed: 3, Requests: 12000})
	if again.Hash() != w.Hash() {
		t.Error("I1: one seed, two workloads")
	}
}

// TestSubagentsStayWithTheirSessionInASteadyWorkload: a part of a session that
// is sent by somebody else takes its subagents along.
func TestSubagentsStayWithTheirSessionInASteadyWorkload(t *testing.T) {
	w, err := Generate("coding", Options{Seed: 4, Requests: 3000})
	if err != nil {
		t.Fatal(err)
	}
	s := w.Steady(.2, .02)
	checkOrder(t, s)
	for i := range s.Requests {
		if r := &s.Requests[i]; r.After >= 0 && s.Requests[r.After].Family() != r.Family() {
			t.Fatalf("request %d of session %d follows one of %d", i, r.Family(), s.Requests[r.After].Family())
		}
	}
}

func TestBurstsComeTogether(t *testing.T) {
	w, err := Bursts(Burst{Size: 5, Within: .002, Bursts: 7, Gap: 1, Head: 300, Own: 50, Output: 3, Warm: true, Replicas: 4, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	from, count := map[int]float64{}, map[int]int{}
	for i := range w.Requests {
		r := &w.Requests[i]
		if r.Session < 0 {
			continue
		}
		if count[r.Session]++; count[r.Session] == 1 {
			from[r.Session] = r.At
		} else if r.At-from[r.Session] > .002 {
			t.Errorf("burst %d takes %g s", r.Session, r.At-from[r.Session])
		}
	}
	if len(w.Requests) != 7*6 || fmt.Sprint(count) != "map[0:5 1:5 2:5 3:5 4:5 5:5 6:5]" {
		t.Errorf("%d requests, by burst %v", len(w.Requests), count)
	}
	if _, err := Bursts(Burst{}); err == nil {
		t.Error("a burst of nothing is made")
	}
}
