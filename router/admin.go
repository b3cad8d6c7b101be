package router

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/pprof"
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/banyan-llm/banyan/router/access"
	"github.com/banyan-llm/banyan/router/console"
	"github.com/banyan-llm/banyan/router/metrics"
	"github.com/banyan-llm/banyan/router/proxy"
)

// front is where others reach this peer: the listeners and what they answer.
type front struct {
	public, admin net.Listener
	fewFiles      string // that this process may open; "": enough. Set before it serves
	api           atomic.Pointer[proxy.Handler]

	rules     *inForce
	doors     *access.Doors
	operators *operators
	journal   *journal
	prefixes  *prefixUse
	ingest    *follower
	readiness *readiness
	console   *console.Console
	metrics   *metrics.Metrics
	status    func() *console.Status
}

// waiting is who waits for admission.
func (f *front) waiting() proxy.Stats {
	if h := f.api.Load(); h != nil {
		return h.Stats()
	}
	return proxy.Stats{}
}

// adminHandler is the admin listener: status, metrics, drain, events by HTTP.
func (f *front) adminHandler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(f.metrics.Registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /v1/status", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, f.status()) })
	mux.HandleFunc("GET /v1/tree", f.prefixes.serveTree)
	mux.HandleFunc("GET /v1/requests", f.journal.serveRequests)
	mux.HandleFunc("GET /v1/requests/{id}", f.journal.serveRequest)
	mux.HandleFunc("POST /v1/replicas/{id...}", f.operators.serveIntent)
	mux.HandleFunc("POST "+access.EventsPath, f.ingest.serveEvents)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", f.readiness.serveReady)
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	page := f.console.Handler()
	for _, pattern := range []string{"GET /{$}", "GET /console/", "GET /request", "GET /runbook", "GET /v1/watch", "GET /v1/decisions"} {
		mux.Handle(pattern, page)
	}
	guarded := f.doors.GuardOperators(mux)
	if f.rules.config().Admin.TLS.ClientCA != "" {
		return access.Exempt(access.HealthPaths, f.doors.NeedCertificate("admin", guarded), guarded)
	}
	return guarded
}

// engineHealth are the paths by which engines are asked for their health: load
// tools (guidellm) and clients ask a router by them and give up without an
// answer.
var engineHealth = []string{"/health", "/ping"}

// publicHandler is the listener of clients.
func (f *front) publicHandler(api http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", f.readiness.serveReady)
	for _, path := range engineHealth {
		mux.HandleFunc(path, f.readiness.serveReady)
	}
	api = f.doors.GuardClients(api)
	if f.rules.config().HTTP.TLS.ClientCA != "" {
		api = f.doors.NeedCertificate("http", api)
	}
	api = f.doors.GuardOrigins(api)
	// No ServeMux chooses between them: it answers paths like //v1/models with
	// redirects in HTML.
	return proxy.Closing(f.readiness.draining.Load, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if slices.Contains(publicHealth, r.URL.Path) {
			mux.ServeHTTP(w, r)
			return
		}
		api.ServeHTTP(w, r)
	}))
}

// publicHealth are the paths of the clients' listener that balancers and clients
// ask for this peer's health.
var publicHealth = append(slices.Clone(access.HealthPaths), engineHealth...)

// full answers a client that finds every place taken.
func (f *front) full(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Retry-After", "1")
	f.journal.turnAway(w, r, http.StatusServiceUnavailable, "too_many_connections",
		"this router has as many connections as it may hold (limits.connections) and answers a request on each: try again, or through another router")
}

// serveTree lists the most shared prefixes: keys and counts, never text.
func (u *prefixUse) serveTree(w http.ResponseWriter, r *http.Request) {
	top := 20
	if text := r.URL.Query().Get("top"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > 1000 {
			writeError(w, http.StatusBadRequest, errors.New("top must be a number from 1 to 1000"))
			return
		}
		top = n
	}
	writeJSON(w, http.StatusOK, map[string]any{"prefixes": u.top(top)})
}

// splitLast cuts "name/with/slashes/verb" at its last slash.
func splitLast(path string) (head, last string) {
	for i := len(path) - 1; i >= 0; i-- {
		if path[i] == '/' {
			return path[:i], path[i+1:]
		}
	}
	return "", path
}

// maxEventBytes bounds one POST /v1/kv-events body.
const maxEventBytes = 16 << 20

func readBounded(r *http.Request, limit int64) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, limit+1))
	if err == nil && int64(len(body)) > limit {
		err = fmt.Errorf("body is larger than %d bytes", limit)
	}
	return body, err
}

func writeJSON(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	_ = enc.Encode(v)
}

func writeError(w http.ResponseWriter, code int, err error) {
	writeJSON(w, code, map[string]any{"error": map[string]any{"message": err.Error(), "type": "admin_error", "param": nil, "code": code}})
}
