package router

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/banyan-llm/banyan/router/access"
	"github.com/banyan-llm/banyan/router/fleet"
)

// keeper is an engine that stores responses as vLLM does: in its own memory, by
// the request_id that it was given.
type keeper struct {
	*httptest.Server
	mu   sync.Mutex
	held map[string]bool
	ids  []string
}

func newKeeper(t *testing.T) *keeper {
	k := &keeper{held: map[string]bool{}}
	k.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		k.mu.Lock()
		defer k.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		missing := func(id string) {
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprintf(w, `{"error":{"message":"Response with id '%s' not found.","type":"invalid_request_error","param":"response_id","code":404}}`, id)
		}
		switch {
		case r.URL.Path == "/v1/models":
			_, _ = io.WriteString(w, `{"data":[{"id":"m"}]}`)
		case r.URL.Path == "/v1/responses":
			var body struct {
				ID       string `json:"request_id"`
				Previous string `json:"previous_response_id"`
			}
			_ = json.NewDecoder(r.Body).Decode(&body)
			if body.Previous != "" && !k.held[body.Previous] {
				missing(body.Previous)
				return
			}
			k.held[body.ID], k.ids = true, append(k.ids, body.ID)
			fmt.Fprintf(w, `{"id":%q,"object":"response","usage":{"input_tokens":3,"output_tokens":1}}`, body.ID)
		case strings.HasPrefix(r.URL.Path, "/v1/responses/"):
			if id := strings.Split(r.URL.Path, "/")[3]; !k.held[id] {
				missing(id)
				return
			}
			fmt.Fprintf(w, `{"object":"response","method":%q}`, r.Method)
		}
	}))
	t.Cleanup(k.Close)
	return k
}

// keepers are n of them as replicas of two peers that share no more than their
// configuration.
func keepers(t *testing.T, n int, change func(*Config)) (all []*keeper, peers []*Peer) {
	t.Helper()
	for range n {
		all = append(all, newKeeper(t))
	}
	for range 2 {
		peers = append(peers, runningPeer(t, Source{}, func(c *Config) {
			c.Mesh.Label = "keepers"
			for i, k := range all {
				c.Replicas = append(c.Replicas, fleet.Spec{Name: fmt.Sprintf("k%d", i), URL: k.URL, Engine: "vllm", Model: "m"})
			}
			if change != nil {
				change(c)
			}
		}))
	}
	return all, peers
}

// request sends a body, or nothing if it is "", and tells the answer.
func request(t *testing.T, p *Peer, method, path, body string, header ...string) (status int, replica, text string) {
	t.Helper()
	req, err := http.NewRequest(method, "http://"+p.front.public.Addr().String()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	raw, _ := io.ReadAll(res.Body)
	return res.StatusCode, res.Header.Get("X-Banyan-Replica"), string(raw)
}

func idOf(t *testing.T, text string) string {
	t.Helper()
	var answer struct{ ID string }
	if err := json.Unmarshal([]byte(text), &answer); err != nil || !strings.HasPrefix(answer.ID, "resp_") {
		t.Fatalf("no id: %v: %s", err, text)
	}
	return answer.ID
}

// Every peer finds the replica that stored a response by its id alone; what
// nobody stored is what the engine says it is; a holder that is gone is told
// apart from it.
func TestStoredResponsesAreFoundByEveryPeer(t *testing.T) {
	all, peers := keepers(t, 4, func(c *Config) { c.Policy = "round_robin" })
	ready := func() bool {
		status, _, _ := request(t, peers[1], http.MethodGet, "/v1/models", "")
		return status == 200
	}
	wait(t, "the peers serve", ready)
	ids := map[string]string{} // holder by id
	for range 8 {
		status, replica, text := request(t, peers[0], http.MethodPost, "/v1/responses", `{"model":"m","input":"hi","request_id":"resp_mine"}`)
		if status != 200 {
			t.Fatalf("%d %s", status, text)
		}
		ids[idOf(t, text)] = replica
	}
	if len(ids) != 8 {
		t.Fatalf("%d ids for 8 answers", len(ids))
	}
	for id, holder := range ids {
		for _, p := range peers {
			for _, c := range [][3]string{
				{http.MethodGet, "/v1/responses/" + id},
				{http.MethodDelete, "/v1/responses/" + id},
				{http.MethodPost, "/v1/responses/" + id + "/cancel"},
				{http.MethodPost, "/v1/responses", `{"model":"m","input":"more","previous_response_id":"` + id + `"}`},
			} {
				if status, replica, text := request(t, p, c[0], c[1], c[2]); status != 200 || replica != holder {
					t.Errorf("%s %s %s: %d from %s, held by %s: %s", c[0], c[1], c[2], status, replica, holder, text)
				}
			}
		}
	}
	for _, unknown := range []string{"resp_0", "resp_" + strings.Repeat("0", 64), "x"} {
		for _, c := range [][3]string{{http.MethodGet, "/v1/responses/" + unknown}, {http.MethodPost, "/v1/responses", `{"model":"m","input":"more","previous_response_id":"` + unknown + `"}`}} {
			if status, _, text := request(t, peers[1], c[0], c[1], c[2]); status != 404 || !strings.Contains(text, "not found") {
				t.Errorf("%s %s: %d %s", c[0], c[1], status, text)
			}
		}
	}
	all[2].Close()
	for id, holder := range ids {
		if holder != "k2" {
			continue
		}
		wait(t, "the holder is known to be down", func() bool {
			status, _, text := request(t, peers[1], http.MethodGet, "/v1/responses/"+id, "")
			if status == 404 {
				t.Fatalf("a response whose holder is down is said to be lost: %s", text)
			}
			return status == 503 && strings.Contains(text, "holder_unavailable")
		})
	}
}

// Stored responses are their tenant's.
func TestStoredResponsesBelongToTheirTenant(t *testing.T) {
	_, peers := keepers(t, 3, func(c *Config) { c.IsolateBy = "X-Tenant" })
	wait(t, "the peers serve", func() bool {
		status, _, _ := request(t, peers[0], http.MethodGet, "/v1/models", "", "X-Tenant", "red")
		return status == 200
	})
	_, _, text := request(t, peers[0], http.MethodPost, "/v1/responses", `{"model":"m","input":"hi"}`, "X-Tenant", "red")
	id := idOf(t, text)
	for tenant, want := range map[string]int{"red": 200, "blue": 404, "": 404, "red2": 404} {
		for _, c := range [][3]string{
			{http.MethodGet, "/v1/responses/" + id},
			{http.MethodDelete, "/v1/responses/" + id},
			{http.MethodPost, "/v1/responses/" + id + "/cancel"},
			{http.MethodPost, "/v1/responses", `{"model":"m","input":"more","previous_response_id":"` + id + `"}`},
		} {
			if status, _, text := request(t, peers[1], c[0], c[1], c[2], "X-Tenant", tenant); status != want {
				t.Errorf("%q: %s %s: %d, want %d: %s", tenant, c[0], c[1], status, want, text)
			}
		}
	}
}

// A salt is what vLLM takes, whatever a tenant is called, and equal at all peers.
func TestSaltsAreWhatEnginesTake(t *testing.T) {
	a, b, other := newSeal([]byte("one")), newSeal([]byte("one")), newSeal([]byte("two"))
	seen := map[string]bool{}
	for _, tenant := range []string{"", "a", "a@b", "a/b", `a\b`, "a\x00b", strings.Repeat("x", 500)} {
		for _, given := range []string{"", "s", "a"} {
			salt := a.salt(tenant, given)
			if len(salt) == 0 || len(salt) > 128 || strings.ContainsAny(salt, "@/\\\x00") || seen[salt] {
				t.Errorf("%q, %q: %q", tenant, given, salt)
			}
			if seen[salt] = true; b.salt(tenant, given) != salt || other.salt(tenant, given) == salt {
				t.Errorf("%q: the secret decides alone", tenant)
			}
		}
	}
	id := a.response("red", "r1")
	for _, c := range []struct {
		seal            *seal
		id, tenant, who string
		want            bool
	}{
		{&b, id, "red", "r1", true},
		{&b, id, "red", "r2", false},
		{&b, id, "blue", "r1", false},
		{&other, id, "red", "r1", false},
		{&b, id[:len(id)-1], "red", "r1", false},
		{&b, "", "red", "r1", false},
		{&b, "resp_", "", "", false},
		{&b, id[:len(id)-1] + "g", "red", "r1", false},
		{&b, a.response("re", "dr1"), "red", "r1", false},
	} {
		if got := c.seal.holds(c.id, c.tenant, c.who); got != c.want {
			t.Errorf("%q of %q at %q: %v", c.id, c.tenant, c.who, got)
		}
	}
}

// Clients of Anthropic's send their key as x-api-key and read errors of its shape.
func TestAnthropicClientsAreServed(t *testing.T) {
	key, line := access.NewKey("claude")
	var got http.Header
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/messages" {
			got = r.Header.Clone()
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"data":[{"id":"m"}],"usage":{"input_tokens":5,"output_tokens":1}}`)
	}))
	t.Cleanup(engine.Close)
	p := runningPeer(t, Source{}, func(c *Config) {
		c.Auth.KeysFile = fileOf(t, line)
		c.Replicas = []fleet.Spec{{Name: "r0", URL: engine.URL, Engine: "vllm", Model: "m"}}
	})
	body := `{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"hi"}],"system":"be brief"}`
	wait(t, "the peer serves", func() bool {
		status, _, _ := request(t, p, http.MethodPost, "/v1/messages", body, "X-Api-Key", key)
		return status == 200
	})
	if got.Get("X-Api-Key")+got.Get("Authorization") != "" {
		t.Errorf("the router's key reached the engine: %v", got)
	}
	for _, c := range []struct {
		header, value string
		status        int
		kind          string
	}{
		{"X-Api-Key", "wrong", 401, "authentication_error"}, {"X-None", "", 401, "authentication_error"}, {"Authorization", "Bearer " + key, 200, ""},
	} {
		status, _, text := request(t, p, http.MethodPost, "/v1/messages", body, c.header, c.value)
		if status != c.status || c.kind != "" && !strings.HasPrefix(text, `{"type":"error","error":{"type":"`+c.kind+`"`) {
			t.Errorf("%s %s: %d %s", c.header, c.value, status, text)
		}
	}
	status, _, text := request(t, p, http.MethodPost, "/v1/messages", `{"model":"none","messages":[]}`, "X-Api-Key", key)
	if status != 404 || !strings.HasPrefix(text, `{"type":"error","error":{"type":"not_found_error"`) {
		t.Errorf("%d %s", status, text)
	}
}

// Load tools and clients ask a router for its health by the paths of an engine.
func TestEnginesHealthPathsAreAnswered(t *testing.T) {
	_, line := access.NewKey("somebody")
	p := runningPeer(t, Source{}, func(c *Config) {
		c.Auth.KeysFile = fileOf(t, line)
		c.Replicas = []fleet.Spec{{Name: "r0", URL: newKeeper(t).URL, Engine: "vllm", Model: "m"}}
	})
	wait(t, "the peer is ready", func() bool { ok, _ := p.readiness.ready(); return ok })
	for _, c := range [][2]string{{http.MethodGet, "/health"}, {http.MethodGet, "/ping"}, {http.MethodPost, "/ping"}} {
		if status, _, text := request(t, p, c[0], c[1], ""); status != 200 {
			t.Errorf("%v: %d %s", c, status, text)
		}
	}
}
