package access

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
	p := guarding(Rules{Listen: "127.0.0.1:8081", Hosts: []string{"banyan-mesh"}})
	h := p.GuardOperators(reached)
	for host, want := range map[string]int{
		"localhost:8081": 204, "localhost": 204, "LOCALHOST.": 204, "127.0.0.1:8081": 204, "[::1]:8081": 204, "10.1.2.3:8081": 204,
		"banyan-mesh:8081": 204, "Banyan-Mesh": 204,
		"evil.example:8081": 421, "localhost.evil.example": 421, "127.0.0.1.evil.example": 421, "banyan-mesh.evil.example": 421, "": 421, "[": 421,
	} {
		if w := (asked{method: http.MethodGet, path: "/v1/status", host: host}).ask(h); w.Code != want {
			t.Errorf("Host %q: %d, want %d", host, w.Code, want)
		}
	}
	for _, path := range []string{"/healthz", "/readyz", EventsPath} {
		if w := (asked{method: http.MethodPost, path: path, host: "any.name"}).ask(h); w.Code != 204 {
			t.Errorf("%s: %d; it does without a name", path, w.Code)
		}
	}
	any := guarding(Rules{Hosts: []string{"*"}}).GuardOperators(reached)
	if w := (asked{method: http.MethodGet, path: "/", host: "any.name"}).ask(any); w.Code != 204 {
		t.Errorf("*: %d", w.Code)
	}
}

func TestPagesOfOtherOriginsAreRefused(t *testing.T) {
	const own = "127.0.0.1:8081"
	h := guarding(Rules{Listen: "127.0.0.1:8081"}).GuardOperators(reached)
	for _, a := range []asked{
		{http.MethodPost, drainPath, own, nil, 204}, // no browser
		{http.MethodPost, drainPath, own, map[string]string{"Sec-Fetch-Site": "same-origin", "Origin": "http://" + own}, 204},
		{http.MethodPost, drainPath, own, map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": "http://evil.example"}, 403},
		{http.MethodPost, drainPath, own, map[string]string{"Sec-Fetch-Site": "same-site", "Origin": "http://127.0.0.1:9999"}, 403},
		{http.MethodPost, drainPath, own, map[string]string{"Origin": "http://evil.example"}, 403}, // an old browser
		{http.MethodPost, drainPath, own, map[string]string{"Origin": "null"}, 403},
		{http.MethodPost, EventsPath, own, map[string]string{"Origin": "http://evil.example"}, 403},
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
	p := guarding(Rules{Listen: ":8081", Admins: keysOf(t, RoleAttribute, line, readerLine)})
	h := p.GuardOperators(reached)
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
		{http.MethodPost, EventsPath, "", nil, 204}, // has a token of its own
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
