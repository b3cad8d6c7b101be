package access

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestOnlyListedOriginsMayRead: what a browser needs to let a page read an answer
// is there for listed origins alone; a preflight never gets past the guard.
func TestOnlyListedOriginsMayRead(t *testing.T) {
	const app = "https://app.example.com"
	for _, c := range []struct {
		name              string
		origins           []string
		method, origin    string
		asks              string // Access-Control-Request-Method
		status            int
		allow, vary       string
		reached, readable bool
	}{
		{"preflight, any", []string{"*"}, "OPTIONS", app, "POST", 204, "*", "", false, true},
		{"preflight, listed", []string{"http://x", app}, "OPTIONS", app, "POST", 204, app, "Origin", false, true},
		{"preflight, not listed", []string{"http://x"}, "OPTIONS", app, "POST", 403, "", "Origin", false, false},
		{"preflight, none", nil, "OPTIONS", app, "POST", 403, "", "", false, false},
		{"request, any", []string{"*"}, "POST", app, "", 401, "*", "", true, true},
		{"request, listed", []string{app}, "POST", app, "", 401, app, "Origin", true, true},
		{"request, not listed", []string{app}, "POST", app + ":8443", "", 401, "", "Origin", true, false},
		{"request, none", nil, "POST", app, "", 401, "", "", true, false},
		{"no preflight", []string{"*"}, "OPTIONS", "", "POST", 401, "*", "", true, true},
	} {
		reached := false
		p := guarding(Rules{Origins: c.origins})
		h := p.GuardOrigins(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { reached = true; w.WriteHeader(401) }))
		r := httptest.NewRequest(c.method, "/v1/chat/completions", nil)
		for name, value := range map[string]string{"Origin": c.origin, "Access-Control-Request-Method": c.asks, "Access-Control-Request-Headers": "authorization,x-stainless-os"} {
			if value != "" {
				r.Header.Set(name, value)
			}
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		got := w.Header()
		if w.Code != c.status || reached != c.reached || got.Get("Access-Control-Allow-Origin") != c.allow || got.Get("Vary") != c.vary ||
			(got.Get("Access-Control-Expose-Headers") == "*") != c.readable {
			t.Errorf("%s: %d, reached %v, %v", c.name, w.Code, reached, got)
		}
		if c.status == 204 && (got.Get("Access-Control-Allow-Methods") != "POST" || got.Get("Access-Control-Allow-Headers") != "authorization,x-stainless-os") {
			t.Errorf("%s: %v", c.name, got)
		}
		if got.Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("%s: a page may use a browser's cookies and certificates", c.name)
		}
		if n := p.refused["http origin"]; n > 0 != (c.status == 403) {
			t.Errorf("%s: %d refusals are counted", c.name, n)
		}
	}
}

func TestOriginsAreSpelledAsBrowsersDo(t *testing.T) {
	for origin, ok := range map[string]bool{
		"*": true, "https://app.example.com": true, "http://localhost:3000": true, "http://[::1]:8000": true,
		"": false, "app.example.com": false, "https://app.example.com/": false, "https://*": false, "https://*.example.com": false, "null": false, "https://": false, "https://a@b": false, "HTTPS://a": false, "https://A.com": false,
	} {
		if err := ValidateOrigin(origin); (err == nil) != ok {
			t.Errorf("%q: %v", origin, err)
		}
	}
}
