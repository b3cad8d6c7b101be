package pick

import (
	"math/rand/v2"
	"testing"

	"github.com/banyan-llm/banyan/router/load"
	"github.com/banyan-llm/banyan/router/policy"
)

// idle are replicas that have nothing to do; the first one holds most of the
// prompt.
func idle(n int) []policy.Candidate {
	cands := make([]policy.Candidate, n)
	for i := range cands {
		cands[i] = policy.Candidate{ID: uint64(i) + 1, Index: i, Weight: 1, Rates: policy.DefaultRates(), Running: -1, Queued: -1, KVUse: -1}
	}
	cands[0].GPU, cands[0].CPU, cands[0].Disk = 2048, 2048, 2048
	return cands
}

// burst plays requests that all chose the first replica at once, each through
// its own peer, and returns where they go after their second look.
func burst(t *testing.T, n, replicas int) map[int]int {
	t.Helper()
	pol, err := policy.New(policy.Default, policy.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	req := &policy.Request{Tokens: 4096, Key: 7, Prefix: 7}
	view := &policy.View{NowMs: 1, Peers: n, AgeMs: 1, Rand: rand.New(rand.NewPCG(1, 2))}
	first := pol.Decide(req, view, idle(replicas), nil)
	if first.Pos != 0 {
		t.Fatalf("chose %d", first.Pos)
	}
	went := map[int]int{}
	for turn := range n {
		cands := idle(replicas)
		cands[0].Waiting, cands[0].Prefill, cands[0].Tokens = n, float64(n)*first.Prefill, int64(n)*2048
		var sent []load.Sent
		for other := range n {
			if other != turn {
				sent = append(sent, load.Sent{Prefill: first.Prefill, Tokens: 2048, Before: other < turn})
			}
		}
		d := Again(pol, req, view, cands, nil, 0, &load.Cost{Prefill: first.Prefill, Tokens: 2048}, sent)
		went[d.Pos]++
	}
	return went
}

// oneByOne is where one router that knows all sends the same requests.
func oneByOne(t *testing.T, n, replicas int) map[int]int {
	t.Helper()
	pol, _ := policy.New(policy.Default, policy.DefaultConfig())
	view := &policy.View{NowMs: 1, Peers: 1, Rand: rand.New(rand.NewPCG(1, 2))}
	cands, went := idle(replicas), map[int]int{}
	for range n {
		d := pol.Decide(&policy.Request{Tokens: 4096, Key: 7, Prefix: 7}, view, cands, nil)
		cands[d.Pos].Waiting++
		cands[d.Pos].Prefill += d.Prefill
		went[d.Pos]++
	}
	return went
}

// TestABurstIsPlacedAsOneRouterWould: peers that look again and know the same
// place their requests as one router would have placed them one by one: nobody
// herds to the first replica, nor all to the second.
func TestABurstIsPlacedAsOneRouterWould(t *testing.T) {
	for _, n := range []int{2, 5, 12, 30} {
		got, want := burst(t, n, 6), oneByOne(t, n, 6)
		most, least, wantMost, wantLeast := 0, n, 0, n
		for k := range 6 {
			most, least = max(most, got[k]), min(least, got[k])
			wantMost, wantLeast = max(wantMost, want[k]), min(wantLeast, want[k])
		}
		if most > wantMost+1 || least < wantLeast-1 || got[0] == 0 {
			t.Errorf("%d requests went %v, one router sends them %v", n, got, want)
		}
	}
}

// TestWhatIsSmallIsNotLookedAtAgain: others' small requests stay where they are,
// and count.
func TestWhatIsSmallIsNotLookedAtAgain(t *testing.T) {
	pol, _ := policy.New(policy.Default, policy.DefaultConfig())
	view := &policy.View{NowMs: 1, Peers: 2, AgeMs: 1, Rand: rand.New(rand.NewPCG(1, 2))}
	cands := idle(2)
	const own, small = .2, worthAgain * .9
	sent := make([]load.Sent, 100) // they come later in the order
	for i := range sent {
		sent[i] = load.Sent{Prefill: small, Tokens: 100}
	}
	cands[0].Waiting, cands[0].Prefill = 101, own+100*small
	req := &policy.Request{Tokens: 4096, Key: 7, Prefix: 7}
	if d := Again(pol, req, view, cands, nil, 0, &load.Cost{Prefill: own}, sent); d.Pos != 1 {
		t.Error("stays behind a hundred requests that nobody will move")
	}
	worth := policy.Decision{Prefill: worthAgain}
	if !WorthAgain(pol, view, &worth, 2) {
		t.Error("a long prefill is not looked at again")
	}
	for name, no := range map[string]bool{
		"a small one":        WorthAgain(pol, view, &policy.Decision{Prefill: small}, 2),
		"the only replica":   WorthAgain(pol, view, &worth, 1),
		"the only peer":      WorthAgain(pol, &policy.View{Peers: 1}, &worth, 2),
		"what is heard late": WorthAgain(pol, &policy.View{Peers: 2, AgeMs: AgainMs + 1}, &worth, 2),
	} {
		if no {
			t.Errorf("%s is looked at again", name)
		}
	}
}
