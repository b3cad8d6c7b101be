package report

import (
	"strings"
	"testing"

	"github.com/banyan-llm/banyan/router/console"
)

func TestADownReplicaSaysWhereRequestsGo(t *testing.T) {
	s := console.Status{Ready: true, Replicas: []console.Replica{{Name: "r0", State: "down", Reason: "refused"}, {Name: "r1", State: "up"}}}
	help := func() (out string) {
		for _, p := range problems(&s) {
			if strings.Contains(p.Text, "r0 is down") {
				out = p.Help
			}
		}
		return out
	}
	if got := help(); !strings.HasPrefix(got, "Requests go to the others") {
		t.Errorf("one is up: %q", got)
	}
	s.Replicas[1].State = "down"
	if got := help(); !strings.HasPrefix(got, "No replica is left") {
		t.Errorf("none is up: %q", got)
	}
	s.Replicas[1].State, s.Replicas[1].Kind = "up", "pool"
	if got := help(); !strings.HasPrefix(got, "No replica is left") {
		t.Errorf("a store is up: %q", got)
	}
	s.Replicas[0].Kind, s.Replicas[1].Kind = "pool", ""
	if got := help(); !strings.HasPrefix(got, "What it holds is computed again elsewhere") {
		t.Errorf("it is a store: %q", got)
	}
	s.Replicas[0].Kind = ""
	s.Replicas[1].State = "draining" // still gets what no other serves
	if got := help(); strings.Contains(got, "503") || !strings.HasPrefix(got, "Only r1 still serves its model, and it is drained") || !strings.Contains(got, "banyan undrain r1") {
		t.Errorf("the other one is drained: %q", got)
	}
	s.Replicas = append(s.Replicas, console.Replica{Name: "r2", State: "draining"})
	if got := help(); !strings.HasPrefix(got, "Only r1, r2 still serve its model, and they are drained") {
		t.Errorf("two others are drained: %q", got)
	}
	s.Replicas = s.Replicas[:2]
	s.Replicas[1].State = "up"
	s.Replicas[0].Models, s.Replicas[1].Models = []string{"a"}, []string{"b"}
	if got := help(); !strings.HasPrefix(got, "No other replica serves its model") {
		t.Errorf("the other one serves another model: %q", got)
	}
}

// A drain that cannot hold is trouble; one that holds is not.
func TestADrainedReplicaThatIsNeededIsAProblem(t *testing.T) {
	s := console.Status{Ready: true, Replicas: []console.Replica{{Name: "r0", State: "draining", Models: []string{"m"}}, {Name: "r1", State: "up", Models: []string{"m"}}}}
	if got := problems(&s); len(got) != 0 {
		t.Errorf("another one is up: %+v", got)
	}
	s.Replicas[1].State = "draining"
	if got := problems(&s); len(got) != 1 || !strings.Contains(got[0].Text, "still get all requests for m") || !strings.Contains(got[0].Help, "banyan undrain r0") {
		t.Errorf("both are drained: %+v", got)
	}
}

func TestADownReplicaOfAPairSaysWhoDoesItsWork(t *testing.T) {
	is := func(role, engine, state string) console.Replica {
		return console.Replica{Role: role, Engine: engine, State: state}
	}
	for name, c := range map[string]struct {
		all  []console.Replica // the first one is down
		want string
	}{
		"another prefill replica is left": {[]console.Replica{is("prefill", "sglang", "down"), is("prefill", "sglang", "up"), is("decode", "sglang", "up")}, "Requests go to the others"},
		"vLLM without prefill":            {[]console.Replica{is("prefill", "vllm", "down"), is("decode", "vllm", "up")}, "No prefill replica is left and the others compute prompts"},
		"vLLM without decode":             {[]console.Replica{is("decode", "vllm", "down"), is("prefill", "vllm", "up")}, "No decode replica is left and the others serve whole"},
		"SGLang without prefill":          {[]console.Replica{is("prefill", "sglang", "down"), is("decode", "sglang", "up")}, "SGLang's servers of one role cannot"},
		"SGLang without decode":           {[]console.Replica{is("decode", "sglang", "down"), is("prefill", "sglang", "up")}, "SGLang's servers of one role cannot"},
		"SGLang with a whole one":         {[]console.Replica{is("prefill", "sglang", "down"), is("decode", "sglang", "up"), is("both", "sglang", "up")}, "No prefill replica is left and the others"},
	} {
		if got := adviceFor(&c.all[0], c.all, true); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %q", name, got)
		}
	}
}
