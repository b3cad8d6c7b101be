package router

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/banyan-llm/banyan/gossip"
	"github.com/banyan-llm/banyan/router/access"
	"github.com/banyan-llm/banyan/router/console"
	"github.com/banyan-llm/banyan/router/fleet"
	"github.com/banyan-llm/banyan/router/policy"
)

func TestDrainedReplicasAreLeftToWhoHasNoOther(t *testing.T) {
	replica := func(role string) *fleet.Replica { return &fleet.Replica{Spec: fleet.Spec{Role: role}} }
	for name, c := range map[string]struct {
		roles   []string
		weights []float64
		hedge   bool
		left    []int
	}{
		"none is drained":                {[]string{"both", "both"}, []float64{1, .1}, false, []int{0, 1}},
		"one is":                         {[]string{"both", "both"}, []float64{0, 1}, false, []int{1}},
		"all are":                        {[]string{"both", "both"}, []float64{0, 0}, false, []int{0, 1}},
		"all are, and another try runs":  {[]string{"both", "both"}, []float64{0, 0}, true, nil},
		"the only one of its role":       {[]string{"prefill", "decode"}, []float64{1, 0}, false, []int{0, 1}},
		"one of two of its role":         {[]string{"prefill", "decode", "decode"}, []float64{1, 0, 1}, false, []int{0, 2}},
		"whole ones can do its work too": {[]string{"both", "decode"}, []float64{1, 0}, false, []int{0}},
	} {
		s := &scratch{}
		for i, role := range c.roles {
			s.replicas = append(s.replicas, replica(role))
			s.Cands = append(s.Cands, policy.Candidate{Index: i, Weight: c.weights[i]})
		}
		s.leaveDrained(c.hedge)
		ok := len(s.Cands) == len(c.left)
		for i := range min(len(s.Cands), len(c.left)) {
			ok = ok && s.Cands[i].Index == c.left[i]
		}
		if !ok {
			t.Errorf("%s: %+v", name, s.Cands)
		}
	}
}

func TestTheLastReplicaOfAModelIsDrainedByForceOnly(t *testing.T) {
	secret, line := access.NewKey("ops")
	log := &logText{}
	p := loggingPeer(t, log, func(c *Config) {
		c.Admin.KeysFile = fileOf(t, line)
		c.Replicas = []fleet.Spec{{Name: "a", URL: "http://a:1", Model: "m"}, {Name: "b", URL: "http://b:1", Model: "m"}, {Name: "c", URL: "http://c:1", Model: "n"}}
	})
	if err := p.mesh.start(); err != nil {
		t.Fatal(err)
	}
	h := p.front.adminHandler()
	post := func(path string) (int, string) {
		r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1"+path, nil)
		r.Header.Set("Authorization", "Bearer "+secret)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	for _, c := range []struct {
		path string
		code int
		says string
	}{
		{"/v1/replicas/c/drain?force=false", 409, "not drained: c is the only replica left for n"},
		{"/v1/replicas/a/drain?force=false", 200, ""},
		{"/v1/replicas/b/drain?force=false", 409, "not drained: b is the only replica left for m"},
		{"/v1/replicas/b/drain", 200, "warning"},
		{"/v1/replicas/b/drain", 200, `"already": true`},
		{"/v1/replicas/a/undrain", 200, ""},
	} {
		if code, text := post(c.path); code != c.code || !strings.Contains(text, c.says) {
			t.Errorf("%s: %d %s", c.path, code, text)
		}
	}
	if text := log.String(); strings.Count(text, "by=ops") != 4 {
		t.Errorf("the log does not say who: %s", text)
	}
	st := p.Status()
	if !strings.Contains(st.Verdict, "3/3 replicas (1 drained)") {
		t.Errorf("%s", st.Verdict)
	}
}

// A peer that falls behind stays ready, and says that it is behind.
func TestAPeerThatFallsBehindStaysReady(t *testing.T) {
	p := quietPeer(t, func(c *Config) { c.Replicas = []fleet.Spec{{Name: "a", URL: "http://a:1"}} })
	for _, c := range []struct {
		caught gossip.Caught
		ready  bool
		behind bool
	}{
		{gossip.Caught{Reason: "catching up"}, false, false},
		{gossip.Caught{Ready: true, Reason: "caught up"}, true, false},
		{gossip.Caught{Reason: "slots come late"}, true, true},
		{gossip.Caught{Ready: true, Reason: "caught up again"}, true, false},
	} {
		p.mesh.local(c.caught)
		ready, why := p.readiness.ready()
		st := p.Status()
		if ready != c.ready || (st.Behind != "") != c.behind || st.OK != (c.ready && !c.behind) {
			t.Errorf("%+v: ready %v (%s), behind %q, OK %v %v", c.caught, ready, why, st.Behind, st.OK, st.Problems)
		}
	}
	p.readiness.draining.Store(true)
	if ready, _ := p.readiness.ready(); ready {
		t.Error("ready while it drains")
	}
}

// Who names no model is told which there are; where one serves all, it is taken.
func TestARequestWithoutAModelNamesThoseServed(t *testing.T) {
	engine := func(models string) string {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				_, _ = io.WriteString(w, `{"data":[`+models+`]}`)
				return
			}
			_, _ = io.WriteString(w, `{"choices":[{}]}`)
		}))
		t.Cleanup(srv.Close)
		return srv.URL
	}
	const a, b, lora = `{"id":"a"}`, `{"id":"b"}`, `{"id":"l","parent":"a"}`
	for name, c := range map[string]struct {
		models []string
		code   int
	}{
		"one model":                 {[]string{a, a}, 200},
		"a model and its adapter":   {[]string{a + "," + lora}, 200},
		"two names of one server":   {[]string{a + "," + b, a}, 200},
		"two models, a server each": {[]string{a, b}, 400},
	} {
		p := runningPeer(t, Source{}, func(cfg *Config) {
			cfg.Tokenizer = "text"
			for _, models := range c.models {
				cfg.Replicas = append(cfg.Replicas, fleet.Spec{URL: engine(models), Engine: "sglang"})
			}
		})
		wait(t, "the peer is ready and knows the models", func() bool {
			ready, _ := p.readiness.ready()
			for _, r := range p.fleet.List() {
				ready = ready && len(r.Models()) > 0
			}
			return ready
		})
		code, _, text := request(t, p, http.MethodPost, "/v1/completions", `{"prompt":"x"}`)
		if code != c.code || code == 400 && !strings.Contains(text, "a, b") && !strings.Contains(text, "b, a") { // in the order of their random ports
			t.Errorf("%s: %d %s", name, code, text)
		}
	}
}

// What answers but cannot do its work is not up, and says why.
func TestAnUnfitReplicaIsTold(t *testing.T) {
	page := func(code int, body string) string {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/health" {
				return
			}
			w.WriteHeader(code)
			_, _ = io.WriteString(w, body)
		}))
		t.Cleanup(srv.Close)
		return srv.URL
	}
	for name, c := range map[string]struct {
		spec fleet.Spec
		says string
	}{
		"a web server":     {fleet.Spec{URL: page(404, "<html>"), Engine: "vllm"}, "no LLM server answers there: /v1/models answers 404"},
		"a page":           {fleet.Spec{URL: page(200, "<html>"), Engine: "vllm"}, "/v1/models is no list of models"},
		"a key is missing": {fleet.Spec{URL: page(401, "{}"), Engine: "vllm"}, "/v1/models answers 401"},
		"another model":    {fleet.Spec{URL: page(200, `{"data":[{"id":"b"}]}`), Engine: "vllm", Model: "a"}, "model: is a, but the server there serves b"},
		"the model":        {fleet.Spec{URL: page(200, `{"data":[{"id":"a"}]}`), Engine: "vllm", Model: "a"}, ""},
		"takes any name":   {fleet.Spec{URL: page(200, `{"data":[{"id":"b"}]}`), Engine: "sglang", Model: "a"}, ""},
	} {
		c.spec.Name = "r0"
		p := runningPeer(t, Source{}, func(cfg *Config) { cfg.Replicas = []fleet.Spec{c.spec} })
		wait(t, name, func() bool {
			r := p.Status().Replicas[0]
			if c.says == "" {
				return r.State == "up" && len(r.Models) > 0 && time.Since(p.clock.began) > 500*time.Millisecond
			}
			return r.State == "unfit" && strings.Contains(r.Reason, c.says) && r.Cure != ""
		})
		told := slices.ContainsFunc(p.Status().Problems, func(q console.Problem) bool { return strings.Contains(q.Text, "r0 gets no requests") })
		if told != (c.says != "") {
			t.Errorf("%s: %+v", name, p.Status().Problems)
		}
	}
}

// Where prefill and decode are kept apart, a role without a replica counts 0;
// where they are not there is no such gauge.
func TestRolesWithoutAReplicaAreMeasured(t *testing.T) {
	scraped := func(mode string) string {
		p := quietPeer(t, func(c *Config) {
			c.Routing.Disagg.Mode = mode
			c.Replicas = []fleet.Spec{{Name: "d", URL: "http://127.0.0.1:1", Model: "m", Role: "decode"}, {Name: "b", URL: "http://127.0.0.1:2", Model: "m"}}
		})
		return exposedBy(t, p.metrics.Registry)
	}
	apart := scraped(policy.DisaggThreshold)
	for _, want := range []string{`banyan_role_replicas_up{role="decode"} 1`, `banyan_role_replicas_up{role="prefill"} 0`} {
		if !strings.Contains(apart, want+"\n") {
			t.Errorf("no %s", want)
		}
	}
	if text := scraped("off"); strings.Contains(text, "banyan_role_replicas_up") {
		t.Error("roles are counted where they are not kept apart")
	}
}
