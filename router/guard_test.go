package router

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// asked is one request to the admin listener and its answer's status.
type asked struct {
	method, path, host string
	header             map[string]string
	want               int
}

func (a asked) ask(h http.Handler) *httptest.ResponseRecorder {
	r := httptest.NewRequest(a.method, a.path, nil)
	r.Host = a.host
	for k, v := range a.header {
		r.Header.Set(k, v)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

var reached = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })

const drainPath = "/v1/replicas/r0/drain"

func TestTheAdminListenerAnswersToItsOwnNamesOnly(t *testing.T) {
	p := guarding(t, func(c *Config) { c.Admin.Hosts = []string{"banyan-mesh"} })
	h := p.guardAdmin(reached)
	for host, want := range map[string]int{
		"localhost:8081": 204, "localhost": 204, "LOCALHOST.": 204, "127.0.0.1:8081": 204, "[::1]:8081": 204, "10.1.2.3:8081": 204,
		"banyan-mesh:8081": 204, "Banyan-Mesh": 204,
		"evil.example:8081": 421, "localhost.evil.example": 421, "127.0.0.1.evil.example": 421, "banyan-mesh.evil.example": 421, "": 421, "[": 421,
	} {
		if w := (asked{method: http.MethodGet, path: "/v1/status", host: host}).ask(h); w.Code != want {
			t.Errorf("Host %q: %d, want %d", host, w.Code, want)
		}
	}
	for _, path := range []string{"/healthz", "/readyz", eventsPath} {
		if w := (asked{method: http.MethodPost, path: path, host: "any.name"}).ask(h); w.Code != 204 {
			t.Errorf("%s: %d; it does without a name", path, w.Code)
		}
	}
	any := guarding(t, func(c *Config) { c.Admin.Hosts = []string{"*"} }).guardAdmin(reached)
	if w := (asked{method: http.MethodGet, path: "/", host: "any.name"}).ask(any); w.Code != 204 {
		t.Errorf("*: %d", w.Code)
	}
}

func TestPagesOfOtherOriginsAreRefused(t *testing.T) {
	const own = "127.0.0.1:8081"
	h := guarding(t, func(*Config) {}).guardAdmin(reached)
	for _, a := range []asked{
		{http.MethodPost, drainPath, own, nil, 204}, // no browser
		{http.MethodPost, drainPath, own, map[string]string{"Sec-Fetch-Site": "same-origin", "Origin": "http://" + own}, 204},
		{http.MethodPost, drainPath, own, map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": "http://evil.example"}, 403},
		{http.MethodPost, drainPath, own, map[string]string{"Sec-Fetch-Site": "same-site", "Origin": "http://127.0.0.1:9999"}, 403},
		{http.MethodPost, drainPath, own, map[string]string{"Origin": "http://evil.example"}, 403}, // an old browser
		{http.MethodPost, drainPath, own, map[string]string{"Origin": "null"}, 403},
		{http.MethodPost, eventsPath, own, map[string]string{"Origin": "http://evil.example"}, 403},
		{http.MethodGet, "/v1/watch", own, map[string]string{"Sec-Fetch-Site": "cross-site"}, 403},
		{http.MethodGet, "/debug/pprof/profile", own, map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, 403},
		{http.MethodGet, "/", own, map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, 204}, // a link to the page
		{http.MethodGet, "/", own, map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, 403},
		{http.MethodGet, "/v1/status", own, map[string]string{"Sec-Fetch-Site": "none"}, 204}, // typed by the user
	} {
		if w := a.ask(h); w.Code != a.want {
			t.Errorf("%s %s %v: %d, want %d", a.method, a.path, a.header, w.Code, a.want)
		}
	}
}

func TestAdminKeysAndTheirRoles(t *testing.T) {
	key, line := NewKey("ops")
	reader, readerLine := NewKey("prometheus", "role=read")
	p := guarding(t, func(c *Config) { c.Admin.KeysFile, c.Admin.Listen = fileOf(t, line, readerLine), ":8081" })
	h := p.guardAdmin(reached)
	basic := func(key string) string {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.SetBasicAuth("me", key)
		return r.Header.Get("Authorization")
	}
	for _, a := range []asked{
		{http.MethodGet, "/v1/status", "", map[string]string{}, 401},
		{http.MethodGet, "/", "", map[string]string{"Authorization": "Bearer nonsense"}, 401},
		{http.MethodGet, "/", "", map[string]string{"Authorization": basic("nonsense")}, 401},
		{http.MethodGet, "/metrics", "", map[string]string{"Authorization": "Bearer "}, 401},
		{http.MethodPost, drainPath, "", map[string]string{}, 401},
		{http.MethodPost, drainPath, "", map[string]string{"Authorization": "Bearer " + key}, 204},
		{http.MethodGet, "/", "", map[string]string{"Authorization": basic(key)}, 204},
		{http.MethodGet, "/debug/pprof/heap", "", map[string]string{"Authorization": "Bearer " + key}, 204},
		{http.MethodGet, "/metrics", "", map[string]string{"Authorization": "Bearer " + reader}, 204},
		{http.MethodGet, "/v1/watch", "", map[string]string{"Authorization": basic(reader)}, 204},
		{http.MethodPost, drainPath, "", map[string]string{"Authorization": "Bearer " + reader}, 403},
		{http.MethodGet, "/debug/pprof/heap", "", map[string]string{"Authorization": "Bearer " + reader}, 403},
		{http.MethodGet, "/healthz", "", nil, 204},
		{http.MethodPost, eventsPath, "", nil, 204}, // has a token of its own
		{http.MethodPost, drainPath, "", map[string]string{"Authorization": basic(key), "Origin": "http://evil.example"}, 403},
	} {
		a.host = "127.0.0.1"
		w := a.ask(h)
		if w.Code != a.want {
			t.Errorf("%s %s %v: %d, want %d", a.method, a.path, a.header, w.Code, a.want)
		}
		if challenge := w.Header().Get("WWW-Authenticate"); (w.Code == 401) != strings.HasPrefix(challenge, "Basic ") {
			t.Errorf("%d with the challenge %q", w.Code, challenge)
		}
	}
}

func TestEveryAdminAnswerHasSecurityHeaders(t *testing.T) {
	h := quietPeer(t, nil).front.adminHandler()
	for _, path := range []string{"/", "/v1/status", "/metrics", "/nothing", "/console/app.js", "/debug/pprof/"} {
		w := asked{method: http.MethodGet, path: path, host: "127.0.0.1"}.ask(h)
		policy := w.Header().Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'"} {
			if !strings.Contains(policy, want) {
				t.Errorf("%s: policy %q", path, policy)
			}
		}
		if strings.Contains(policy, "unsafe") || w.Header().Get("X-Content-Type-Options") != "nosniff" || w.Header().Get("X-Frame-Options") != "DENY" {
			t.Errorf("%s: headers %v", path, w.Header())
		}
	}
	if w := (asked{method: http.MethodGet, path: "/debug/pprof/cmdline", host: "127.0.0.1"}).ask(h); w.Code != http.StatusNotFound {
		t.Errorf("the command line, which may hold keys, is shown: %d", w.Code)
	}
}

func TestAnOpenAdminListenerMustBeWanted(t *testing.T) {
	_, line := NewKey("ops")
	for listen, open := range map[string]bool{
		"127.0.0.1:8081": false, "localhost:8081": false, "[::1]:8081": false, ":8081": true, "0.0.0.0:8081": true, "10.0.0.1:8081": true, "router-1:8081": true,
	} {
		cfg := DefaultConfig()
		cfg.Mesh.Insecure, cfg.Admin.Listen = true, listen
		if err := cfg.Validate(); (err != nil) != open || open && !strings.Contains(err.Error(), "banyan keygen --admin") {
			t.Errorf("%s: %v", listen, err)
		}
		cfg.Admin.Insecure = true
		if err := cfg.Validate(); err != nil {
			t.Errorf("%s, insecure: %v", listen, err)
		}
		cfg.Admin.Insecure, cfg.Admin.KeysFile = false, fileOf(t, line)
		if err := cfg.Validate(); err != nil {
			t.Errorf("%s with keys: %v", listen, err)
		}
	}
}
