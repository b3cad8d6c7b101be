package report

import (
	"strings"
	"testing"

	"github.com/banyan-llm/banyan/router/console"
	"github.com/banyan-llm/banyan/router/token"
)

// ailing is a status with all that can be wrong with a peer.
func ailing() (*console.Status, *Fleet) {
	late := 3000.0
	s := &console.Status{
		Reason: "joining", LateMs: 80, Requests: console.Requests{LogFault: "disk full", LogLost: 7}, Behind: "no digest", Config: console.Config{Fault: "a\nb"}, Mesh: console.Mesh{Divergent: 1, UDPLost: true, Unjoined: []string{"x: refused", "y: refused"}},
		Peers: []console.Peer{
			{Self: true},
			{Name: "p", State: "failed"},
			{Name: "q", Refused: "its grid is 32"},
			{Name: "r", ViewAgeMs: &late},
			{Name: "s", Flaps: true, State: "failed"},
			{Name: "t", Differs: []string{"policy", "limits"}},
			{Name: "u", Address: "1", Steady: true},
			{Name: "u", Address: "2", Steady: true},
			{Name: "u", Address: "3"},
		},
		Replicas: []console.Replica{
			{Name: "a", State: "down", Reason: "refused", Models: []string{"m"}},
			{Name: "b", State: "unfit", Reason: "no LLM", Cure: "Correct its url"},
			{Name: "c", State: "draining", Models: []string{"m"}, Stream: console.Stream{State: "quarantined", Detail: "two"}},
			{Name: "d", State: "up", Models: []string{"o"}, Stream: console.Stream{State: "none"}},
		},
		Queue: &console.Queue{Waiting: 9, Most: 10, WorkingSet: &console.WorkingSet{Share: .8, Unknown: 1, UsedTokens: 9, CacheTokens: 1, Again: 1}},
		Keys:  []console.Keying{{Model: "m", API: "chat", Off: true, Cure: KeyCure("vllm", token.Chat, token.Unsupported)}},
	}
	return s, &Fleet{
		Sources: []Source{{"dns", "no such host"}}, Strange: 3, Topic: "kv", Mode: "threshold", Apart: true,
		Listed: []Listed{
			{Name: "a", URL: "u", Serves: true, OneOfMany: true, EventRank: 2, Told: 4, Warning: "two groups"},
			{Name: "b", URL: "v", Serves: true, EventRank: -1, Ranks: 4, Told: 2},
			{Name: "c", URL: "v", Serves: true, EventRank: -1, Ranks: 4, Told: 2},
			{Name: "d", URL: "v", Serves: true, EventRank: -1},
		},
	}
}

// TestI1EverythingToldNamesACure: of a peer with all that can be wrong.
func TestI1EverythingToldNamesACure(t *testing.T) {
	s, f := ailing()
	Complete(s, f)
	for _, q := range append(s.Problems, s.Notes...) {
		if q.Text == "" || q.Help == "" {
			t.Errorf("I1: %+v", q)
		}
	}
	for _, want := range []string{
		"not ready", "waits 80 ms for the CPU", "disk full; lines lost: 7", "a is down", "b gets no requests", "Events of c are ignored", "Drained replicas still get", "Peer p failed", "refuse each other",
		"Load data of peer r is 3.0 s old", "Peer s comes and goes", "over UDP do not arrive", "Peer t is configured otherwise than this one: policy, limits", "2 peers are named u: 1, 2", "behind the mesh", "not applied: a; b", "cached blocks of 1 replicas", "9 requests wait", "Discovery by dns fails",
		"of data-parallel rank 2, not 0", "a: two groups", "u runs 4 data-parallel ranks and 1 of them", "v runs 2 data-parallel ranks, not 3",
		"3 messages, the last with the topic \"kv\"", "no replica has role: prefill nor role: decode", "Exact routing is off for chat prompts of m",
	} {
		n := 0
		for _, q := range s.Problems {
			if strings.Contains(q.Text, want) {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%q is told %d times", want, n)
		}
	}
	if len(s.Notes) != 3 || s.Verdict == "" || s.OK {
		t.Errorf("%d notes, %q", len(s.Notes), s.Verdict)
	}
}

// TestI2APeerOfWhichNothingIsWrong: it has no problem, and a note.
func TestI2APeerOfWhichNothingIsWrong(t *testing.T) {
	s := &console.Status{Ready: true, Queue: &console.Queue{Most: 10}, Replicas: []console.Replica{{Name: "a", State: "up", Engine: "vllm", Stream: console.Stream{State: "none"}}}}
	Complete(s, &Fleet{Mode: "off", Listed: []Listed{{Name: "a", URL: "u", Serves: true, Role: "both", EventRank: -1}}})
	if len(s.Problems) != 0 || len(s.Notes) != 1 || !s.OK {
		t.Errorf("I2: %+v, %+v, %v", s.Problems, s.Notes, s.OK)
	}
}
