package console

import (
	"fmt"
	"strings"
	"testing"

	"github.com/banyan-llm/banyan/router/requests"
)

// checked is what --check prints of a status.
func checked(t *testing.T, s *Status) string {
	t.Helper()
	s.Judge()
	var out strings.Builder
	if err := s.WriteChecks(&out, Look{}); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// A peer that reached no other cannot say that all peers agree.
func TestAPeerWithoutOthersHasNothingToCompare(t *testing.T) {
	s := &Status{
		Name: "a", Ready: true, Reason: "alone", UptimeS: 60, Peers: []Peer{{Name: "a", State: "alive", Self: true, Ready: true}}, Replicas: []Replica{{Name: "r", State: "up"}},
		Mesh: Mesh{Unjoined: []string{"10.0.0.9:7946: connection refused"}}, Problems: []Problem{{Text: "This peer is alone", Help: "Check mesh.join"}},
	}
	text := checked(t, s)
	for _, says := range []string{"× alone: no other peer was ever reached", "√ no other peer to compare load data with", "√ no other peer to compare cached blocks with", "× no seed of mesh.join was reached (1 tried)"} {
		if !strings.Contains(text, says) {
			t.Errorf("lacks %q:\n%s", says, text)
		}
	}
	for _, not := range []string{"all peers", "1 of 1 peers", "0 ms old"} {
		if strings.Contains(text, not) {
			t.Errorf("says %q:\n%s", not, text)
		}
	}
	var table strings.Builder
	if err := s.WriteTable(&table, Look{}); err != nil || strings.Contains(table.String()+s.Verdict, "1/1 peers") || !strings.Contains(table.String(), "; alone, 1/1 replicas") {
		t.Errorf("%v: %s\n%s", err, s.Verdict, table.String())
	}
	late := 9.0
	s.Mesh.Unjoined, s.Problems = nil, []Problem{{Text: "refused", Help: "."}}
	s.Peers = append(s.Peers, Peer{Name: "b", State: "alive", Refused: "its grid is 32", ViewAgeMs: &late})
	if text := checked(t, s); !strings.Contains(text, "× only 1 of 2 peers is alive and of this mesh: 1 refused") || strings.Contains(text, "all peers") {
		t.Errorf("the other one is refused:\n%s", text)
	}
	s.Peers[1].Refused, s.Problems = "", nil
	if text := checked(t, s); !strings.Contains(text, "√ all peers hold the same cached blocks") || !strings.Contains(text, "√ 2 of 2 peers are alive") {
		t.Errorf("two peers:\n%s", text)
	}
}

// What fails is not told in the words of what holds.
func TestAFailedCheckSaysWhatFails(t *testing.T) {
	late, long := 4000.0, int64(20_000)
	s := &Status{
		Ready: true, Peers: []Peer{{Name: "a", State: "alive", Self: true}, {Name: "b", State: "alive", ViewAgeMs: &late}, {Name: "c", State: "failed"}},
		Replicas: []Replica{
			{Name: "r0", State: "up", Stream: Stream{State: "ok"}},
			{Name: "r1", State: "unfit", Stream: Stream{State: "ok"}},
			{Name: "r2", State: "down", Stream: Stream{State: "ok"}},
			{Name: "r3", State: "up", Stream: Stream{State: "none"}},
			{Name: "r4", State: "up", Stream: Stream{State: "connecting", ConnectingMs: &long}},
		},
		Mesh: Mesh{Divergent: 2}, Problems: []Problem{{Text: "much", Help: "."}},
	}
	text := checked(t, s)
	for _, says := range []string{
		"× only 2 of 3 peers are alive: 1 failed", "× load data of a peer is 4.0 s old, more than 2.0 s", "× 2 of 5 replicas are down or unusable: r1, r2",
		"× connected to the events of only 1 of 5 replicas: 1 ignored or unreachable, 2 down or unusable, 1 without events (their cache is predicted)",
		"× peers disagree on the cached blocks of 2 replicas",
	} {
		if !strings.Contains(text, says) {
			t.Errorf("lacks %q:\n%s", says, text)
		}
	}
	s.Replicas, s.Problems = s.Replicas[:1], nil
	if text := checked(t, s); !strings.Contains(text, "√ connected to the events of 1 of 1 replicas") || strings.Contains(text, "heard") {
		t.Errorf("one is left:\n%s", text)
	}
}

// A restart is asked for only where it applies the change: with another grid a
// restarted peer would be refused by the others.
func TestAChangeThatNeedsANewMeshAsksForNoRestart(t *testing.T) {
	s := sample()
	s.Config = Config{Hash: "1", Restart: []string{"http.connection_age", "grid", "hedge.after"}}
	for _, text := range []string{checked(t, s), fmt.Sprint(s.optional())} {
		for _, want := range []string{
			"restart this peer to apply http.connection_age, hedge.after;", "do not restart it for grid: this needs a new mesh (deploy/README.md#upgrade-and-roll-back)",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("lacks %q:\n%s", want, text)
			}
		}
	}
	if restart, newMesh := Pending([]string{"limits.predictions", "mesh.label", "mesh.hash_secret"}); restart != nil || len(newMesh) != 3 {
		t.Errorf("restart %v, new mesh %v", restart, newMesh)
	}
}

// A drained replica is called drained once nothing is in flight there.
func TestADrainedReplicaIsCalledSo(t *testing.T) {
	r := Replica{State: "draining", Inflight: 1}
	if is := stateText(&r); is != "draining" {
		t.Errorf("with a request in flight: %s", is)
	}
	r.Inflight = 0
	if is := stateText(&r); is != "drained" {
		t.Errorf("with none: %s", is)
	}
}

// What a choice counted on is told as cached and as expected.
func TestWhySplitsWhatIsCachedFromWhatIsExpected(t *testing.T) {
	score := .04
	told := &requests.Told{Request: requests.ToldRecord{ID: "x", Status: 200}, Decisions: []requests.ToldDecision{{
		Replica: "r1", Keys: "ids", Matched: 1088, Prompt: 1223,
		Candidates: []requests.ToldCandidate{{Replica: "r0", Confirmed: 16, Score: &score}, {Replica: "r1", Expected: 1088, Score: &score}},
	}}}
	why := func() string {
		var out strings.Builder
		if err := WriteWhy(&out, told, Look{}); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	if text := why(); !strings.Contains(text, "known: of 1223 prompt tokens 0 cached there, 1088 more expected from requests sent there before (exact, by the token ids in the request)") {
		t.Error(text)
	}
	told.Decisions[0].Candidates[1].Confirmed = 1200
	if text := why(); !strings.Contains(text, "1088 cached there, 0 more expected") {
		t.Error(text)
	}
	told.Decisions[0].Candidates = nil
	if text := why(); !strings.Contains(text, "1088 cached there or expected") {
		t.Error(text)
	}
}
