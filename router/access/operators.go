package access

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Paths of the admin listener with rules of their own.
const (
	EventsPath = "/v1/kv-events" // has its own token, and engines know it by any name
	pprofPath  = "/debug/pprof/"
)

// operatorBody bounds how long a body may take on the admin listener.
const operatorBody = 30 * time.Second

// HealthPaths need no key, certificate or name: balancers and kubelets have
// none, and what they learn is one word.
var HealthPaths = []string{"/healthz", "/readyz"}

// adminPolicy keeps what the admin listener answers from being shown inside a
// page of another origin; the console page has a policy of its own.
const adminPolicy = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'"

// Refusals are the closed list of what guards refuse, by listener.
var Refusals = [][2]string{
	{"http", "key"}, {"http", "tenant"}, {"http", "certificate"}, {"http", "origin"}, {"http", "connections"}, {"http", "idle"}, {"admin", "key"}, {"admin", "role"}, {"admin", "host"}, {"admin", "origin"}, {"admin", "certificate"}, {"admin", "connections"}, {"admin", "idle"},
}

// GuardOperators stands before everything on the admin listener: headers, then the
// name it was called by, then where a browser was sent from, then the key.
func (d *Doors) GuardOperators(next http.Handler) http.Handler {
	crossOrigin := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", adminPolicy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		rules := d.Rules()
		deny := func(why string, code int, err error) {
			d.Refused("admin", why)
			d.Deny(w, code, err)
		}
		switch {
		case slices.Contains(HealthPaths, r.URL.Path):
		case r.URL.Path == EventsPath:
			if err := crossOrigin.Check(r); err != nil {
				deny("origin", http.StatusForbidden, err)
				return
			}
		case !rules.answers(r.Host):
			deny("host", http.StatusMisdirectedRequest, fmt.Errorf("this listener does not go by the name %q: add it to admin.hosts, or use an IP address", r.Host))
			return
		case foreign(r) || crossOrigin.Check(r) != nil:
			deny("origin", http.StatusForbidden, errors.New("requests of other origins are refused"))
			return
		case rules.Admins != nil:
			who, why, code, err := admit(r, rules.Admins)
			if err != nil {
				if code == http.StatusUnauthorized {
					h.Set("WWW-Authenticate", adminChallenge)
				}
				deny(why, code, err)
				return
			}
			r = withOperator(r, who)
		}
		if r.Method != http.MethodGet && r.Method != http.MethodHead { // feeds are read for hours
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(operatorBody))
		}
		next.ServeHTTP(w, r)
	})
}

// answers reports whether a Host header is one of this listener's. A page that
// had its name resolved to this address (DNS rebinding) is known by that name;
// an IP address cannot be such a name.
func (c *Rules) answers(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	own, _, _ := net.SplitHostPort(c.Listen)
	if host == "localhost" || net.ParseIP(host) != nil || host != "" && strings.EqualFold(host, own) {
		return true
	}
	return slices.ContainsFunc(c.Hosts, func(name string) bool { return name == "*" || strings.EqualFold(name, host) })
}

// foreign reports whether a browser asks on behalf of another site's page,
// which it tells since 2023. Following a link to the console page is fine.
func foreign(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
		return false
	}
	return r.Method != http.MethodGet || r.URL.Path != "/" || r.Header.Get("Sec-Fetch-Mode") != "navigate"
}

// adminChallenge makes browsers ask their user.
const adminChallenge = `Basic realm="banyan admin: any name, an admin key as password", charset="UTF-8"`

// admit checks a request's key. Browsers send it as a password, scripts as a
// bearer token.
func admit(r *http.Request, admins Keys) (name, why string, code int, err error) {
	given, ok := bearer(r)
	if !ok {
		_, given, ok = r.BasicAuth()
	}
	who := admins.Find(given)
	switch {
	case !ok || who == nil:
		return "", "key", http.StatusUnauthorized, errors.New("no valid admin key was given; send it as Authorization: Bearer KEY")
	case who.Role == roleRead && !mayRead(r):
		return "", "role", http.StatusForbidden, fmt.Errorf("the key %q may only read", who.Name)
	}
	return who.Name, "", 0, nil
}

// mayRead is what keys with role=read may do: look, but not at profiles, which
// cost time and show memory.
func mayRead(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) && !strings.HasPrefix(r.URL.Path, pprofPath)
}

// Exempt sends some paths past a guard.
func Exempt(paths []string, guarded, open http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if slices.Contains(paths, r.URL.Path) {
			open.ServeHTTP(w, r)
			return
		}
		guarded.ServeHTTP(w, r)
	})
}

// operatorKey finds the name of an operator's key in a request's context.
type operatorKey struct{}

// OperatorOf is the name of the key that an admin request carries; "-" if none
// is asked for.
func OperatorOf(r *http.Request) string {
	if name, ok := r.Context().Value(operatorKey{}).(string); ok {
		return name
	}
	return "-"
}

func withOperator(r *http.Request, name string) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), operatorKey{}, name))
}
