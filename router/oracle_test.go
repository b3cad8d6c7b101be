package router

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/banyan-llm/banyan/router/fleet"
	"github.com/banyan-llm/banyan/router/openai"
	"github.com/banyan-llm/banyan/router/proxy"
	"github.com/banyan-llm/banyan/router/token"
)

func TestOracleAsksAReplicaThatDoesNotRest(t *testing.T) {
	f := fleet.New(fleet.Config{})
	f.Set([]fleet.Spec{
		{Name: "a", URL: "http://a", Engine: "vllm"},
		{Name: "b", URL: "http://b", Engine: "vllm", Credentials: "secret"},
		{Name: "c", URL: "http://c", Engine: "trtllm"},
		{Name: "d", URL: "http://d"},
	}, time.Unix(1, 0))
	replicas := f.List()
	draw := func(from []*fleet.Replica, kind token.Kind, resting ...string) map[string]int {
		asked := map[string]int{}
		for range 200 {
			o, ok := oracle(from, kind, func(o *token.Oracle) bool {
				for _, url := range resting {
					if o.URL == url {
						return true
					}
				}
				return false
			})
			if ok {
				asked[o.URL]++
			}
			if o.URL == "http://b" && o.Header.Get("Authorization") != "Bearer secret" {
				t.Fatal("asked without the replica's credentials")
			}
		}
		return asked
	}
	if asked := draw(replicas, token.Chat, "http://a", "http://c"); asked["http://b"] != 200 {
		t.Errorf("asked %v while a and c rest, want b alone", asked)
	}
	asked := draw(replicas, token.Chat)
	if asked["http://a"] == 0 || asked["http://b"] == 0 || asked["http://c"] == 0 || asked["http://d"] > 0 {
		t.Errorf("asked %v, want all whose engine is known", asked)
	}
	// TensorRT-LLM has no endpoint for Messages: it is drawn only if nobody else is left.
	if asked := draw(replicas, token.Messages, "http://a", "http://b", "http://c"); asked["http://c"] > 0 || len(asked) != 2 {
		t.Errorf("asked %v while all rest", asked)
	}
	if asked := draw(replicas[2:3], token.Messages, "http://c"); asked["http://c"] != 200 {
		t.Errorf("asked %v, want the one there is, so that the reason names it", asked)
	}
	if asked := draw(replicas[3:], token.Chat); len(asked) != 0 {
		t.Errorf("asked %v, whose engine is not known yet", asked)
	}
}

// A second replica is asked where the first cannot tell: of two vLLM servers of
// which one runs with --enable-scale-out, the other one answers 403 to the
// render of Messages, and the first prompt to find that out would get text keys.
func TestASecondReplicaIsAskedWhereTheFirstCannotTell(t *testing.T) {
	p := quietPeer(t, nil)
	p.fleet.Set([]fleet.Spec{
		{Name: "a", URL: "http://a", Engine: "vllm", Model: "m"},
		{Name: "b", URL: "http://b", Engine: "vllm", Model: "m"},
		{Name: "c", URL: "http://c", Engine: "trtllm", Model: "m"},
		{Name: "b/1", URL: "http://b", Rank: 1, Engine: "vllm", Model: "m"},
	}, time.Unix(1, 0))
	l := p.path.directory.modelReplicas("m")
	s := &scratch{candidateSet: l.candidateSet}
	firsts := map[string]int{}
	for range 200 {
		asked := p.path.prompts.oracles(s, token.Chat)
		if len(asked) != 2 || asked[0].URL == asked[1].URL {
			t.Fatalf("asked %+v, want two servers", asked)
		}
		firsts[asked[0].URL]++
	}
	if len(firsts) != 3 {
		t.Errorf("asked first: %v, want any of three", firsts)
	}
	s.replicas = s.replicas[:0:0]
	for _, r := range l.replicas {
		if r.Spec.URL == "http://a" || r.Spec.URL == "http://c" {
			s.replicas = append(s.replicas, r)
		}
	}
	if asked := p.path.prompts.oracles(s, token.Messages); len(asked) != 1 || asked[0].URL != "http://a" {
		t.Errorf("asked %+v, TensorRT-LLM has no endpoint for Messages", asked)
	}
}

// A render server is never sent requests and is asked before the replicas.
func TestRenderServersAreAskedFirst(t *testing.T) {
	p := quietPeer(t, nil)
	p.fleet.Set([]fleet.Spec{
		{Name: "r0", URL: "http://r0", Engine: "vllm", Model: "m"},
		{Name: "render", URL: "http://render", Kind: fleet.KindRender, Model: "m"},
		{Name: "other", URL: "http://other", Kind: fleet.KindRender, Model: "n"},
	}, time.Unix(1, 0))
	l := p.path.directory.modelReplicas("m")
	if len(l.replicas) != 1 || l.replicas[0].Name() != "r0" || len(l.renders) != 1 || l.renders[0].Name() != "render" {
		t.Fatalf("routed to %v, asked %v", l.replicas, l.renders)
	}
	s := &scratch{candidateSet: l.candidateSet, renders: l.renders}
	asked := p.path.prompts.oracles(s, token.Chat)
	if len(asked) != 2 || asked[0].URL != "http://render" || asked[0].Engine != "vllm" || asked[1].URL != "http://r0" {
		t.Fatalf("asked %+v", asked)
	}
	l.renders[0].Fail(time.Now(), true, "refused")
	if asked := p.path.prompts.oracles(s, token.Chat); len(asked) != 1 || asked[0].URL != "http://r0" {
		t.Fatalf("a render server that is down is asked: %+v", asked)
	}
}

// Tokens of embeddings are asked for where something is known to compare them
// with: most models for these cache nothing, and have no events.
func TestEmbeddingsAreAskedForWhereEventsAreFollowed(t *testing.T) {
	p := quietPeer(t, nil)
	asked := make(chan string, 10)
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			asked <- r.URL.Path
		}
		_, _ = io.WriteString(w, `{"tokens":[1,2,3],"count":3,"max_model_len":100}`)
	}))
	defer engine.Close()
	for want, spec := range map[string]fleet.Spec{
		"/tokenize": {Name: "a", URL: engine.URL, Engine: "vllm", Model: "m", Events: "tcp://127.0.0.1:1"},
		"":          {Name: "b", URL: engine.URL, Engine: "vllm", Model: "m"},
	} {
		p.fleet.Set([]fleet.Spec{spec}, time.Unix(1, 0))
		body, err := openai.Parse(openai.Embeddings, []byte(`{"model":"m","input":"for `+spec.Name+`"}`))
		if err != nil {
			t.Fatal(err)
		}
		pr, err := p.path.prompts.readPrompt(t.Context(), &proxy.Call{Body: body}, "", &scratch{candidateSet: candidateSet{replicas: p.fleet.List()}})
		if err != nil || pr.keys.Scheme.Exact() != (want != "") {
			t.Fatalf("%s: %+v, %v", spec.Name, pr, err)
		}
		path := ""
		select {
		case path = <-asked:
		default:
		}
		if path != want {
			t.Errorf("of %s %q was asked, want %q", spec.Name, path, want)
		}
	}
}
