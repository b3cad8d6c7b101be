package access

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// guarded are doors with nothing but what their guards read.
type guarded struct {
	*Doors
	refused map[string]int // by listener and why
}

func guarding(rules Rules) guarded {
	refused := map[string]int{}
	return guarded{&Doors{
		Rules:    func() *Rules { return &rules },
		Refused:  func(listener, why string) { refused[listener+" "+why]++ },
		TurnAway: Refuse, Deny: func(w http.ResponseWriter, code int, err error) { http.Error(w, err.Error(), code) },
	}, refused}
}

func keysOf(t *testing.T, attribute string, lines ...string) Keys {
	t.Helper()
	list, err := ReadKeys(fileOf(t, lines...), attribute)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestOnlyKnownKeysPassAndAreTakenOff(t *testing.T) {
	key, line := NewKey("team:a")
	p := guarding(Rules{Clients: keysOf(t, TenantAttribute, line)})
	var reached *http.Request
	h := p.GuardClients(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { reached = r }))
	for header, want := range map[string]int{
		"Bearer " + key: 200, "bearer  " + key: 200, "Bearer " + key + "x": 401, "Bearer ": 401, "": 401, "Basic " + key: 401, key: 401,
	} {
		reached = nil
		r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", nil)
		r.Header.Set("Authorization", header)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != want || (reached != nil) != (want == 200) {
			t.Errorf("%q: %d, want %d", header, w.Code, want)
		}
		if want == 401 && !strings.Contains(w.Body.String(), `"code":"invalid_api_key"`) {
			t.Errorf("body %s", w.Body)
		}
		if reached != nil && reached.Header.Get("Authorization") != "" {
			t.Error("the router's key reached the data path")
		}
	}
	if n := p.refused["http key"]; n != 5 {
		t.Errorf("%d refusals are counted", n)
	}
}

// A key says whose request it is; the header counts only where no key does.
func TestAKeyBindsItsTenant(t *testing.T) {
	own, ownLine := NewKey("own")
	blue, blueLine := NewKey("a", "tenant=blue")
	gateway, gatewayLine := NewKey("gateway", "tenant=*")
	keyed := guarding(Rules{TenantHeader: "X-Tenant", Clients: keysOf(t, TenantAttribute, ownLine, blueLine, gatewayLine)})
	open := guarding(Rules{TenantHeader: "X-Tenant"})
	for name, tc := range map[string]struct {
		doors  guarded
		key    string
		given  []string
		code   int
		tenant string
	}{
		"a key stands for its own name":        {keyed, own, nil, 200, "own"},
		"or for the tenant of its line":        {keyed, blue, nil, 200, "blue"},
		"which may be said":                    {keyed, blue, []string{"blue"}, 200, "blue"},
		"another one may not":                  {keyed, blue, []string{"red"}, 403, ""},
		"not even none":                        {keyed, blue, []string{""}, 403, ""},
		"nor two":                              {keyed, blue, []string{"blue", "red"}, 400, ""},
		"a gateway is believed":                {keyed, gateway, []string{"red"}, 200, "red"},
		"but not with what it let through":     {keyed, gateway, []string{"blue", "red"}, 400, ""},
		"without keys the header says":         {open, "", []string{"red"}, 200, "red"},
		"without a header it is the nameless":  {open, "", nil, 200, ""},
		"without keys two are refused as well": {open, "", []string{"blue", "red"}, 400, ""},
	} {
		tenant, reached := "", false
		h := tc.doors.GuardClients(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { tenant, reached = r.Header.Get("X-Tenant"), true }))
		r := httptest.NewRequest(http.MethodPost, "/v1/completions", nil)
		if tc.key != "" {
			r.Header.Set("Authorization", "Bearer "+tc.key)
		}
		for _, v := range tc.given {
			r.Header.Add("X-Tenant", v)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != tc.code || reached != (tc.code == 200) || tenant != tc.tenant {
			t.Errorf("%s: %d as %q, want %d as %q", name, w.Code, tenant, tc.code, tc.tenant)
		}
	}
}

// A path that gets no salt would share the engine's cache between tenants.
func TestTenantsGetNoPathThatCannotBeIsolated(t *testing.T) {
	for isolate, want := range map[string]int{"": 200, "X-Tenant": 404} {
		h := guarding(Rules{TenantHeader: isolate}).GuardClients(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		for path, code := range map[string]int{
			"/v1/files": want, "/v1/audio/speech": want, "/v1/messages": 200, "/v1/score": 200, "/v1/chat/completions": 200, "/v1/completions": 200, "/v1/responses": 200, "/v1/embeddings": 200, "/tokenize": 200,
		} {
			w := httptest.NewRecorder()
			if h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, nil)); w.Code != code {
				t.Errorf("isolate_by %q, %s: %d, want %d", isolate, path, w.Code, code)
			}
		}
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/v1/models", nil)); w.Code != 200 {
			t.Errorf("models: %d", w.Code)
		}
	}
}
