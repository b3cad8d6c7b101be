package router

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/pprof"
	"strconv"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/banyan-llm/banyan/router/proxy"
)

// adminHandler is the admin listener: status, metrics, drain, events by HTTP.
func (p *Peer) adminHandler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(p.registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /v1/status", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, p.Status()) })
	mux.HandleFunc("GET /v1/tree", p.serveTree)
	mux.HandleFunc("GET /v1/requests", p.journal.serveRequests)
	mux.HandleFunc("GET /v1/requests/{id}", p.journal.serveRequest)
	mux.HandleFunc("POST /v1/replicas/{id...}", p.operators.serveIntent)
	mux.HandleFunc("POST "+eventsPath, p.serveEvents)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", p.readiness.serveReady)
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	page := p.console.Handler()
	for _, pattern := range []string{"GET /{$}", "GET /console/", "GET /request", "GET /runbook", "GET /v1/watch", "GET /v1/decisions"} {
		mux.Handle(pattern, page)
	}
	guarded := p.doors.guardAdmin(mux)
	if p.rules.config().Admin.TLS.ClientCA != "" {
		return exempt(healthPaths, p.doors.needCertificate("admin", guarded), guarded)
	}
	return guarded
}

// engineHealth are the paths by which engines are asked for their health: load
// tools (guidellm) and clients ask a router by them and give up without an
// answer.
var engineHealth = []string{"/health", "/ping"}

// publicHandler is the listener of clients.
func (p *Peer) publicHandler(api http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", p.readiness.serveReady)
	for _, path := range engineHealth {
		mux.HandleFunc(path, p.readiness.serveReady)
	}
	api = p.doors.guardClients(api)
	if p.rules.config().HTTP.TLS.ClientCA != "" {
		api = p.doors.needCertificate("http", api)
	}
	// No ServeMux chooses between them: it answers paths like //v1/models with
	// redirects in HTML.
	return proxy.Closing(p.readiness.draining.Load, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/healthz", "/readyz", "/health", "/ping":
			mux.ServeHTTP(w, r)
		default:
			api.ServeHTTP(w, r)
		}
	}))
}

// serveTree lists the most shared prefixes: keys and counts, never text.
func (p *Peer) serveTree(w http.ResponseWriter, r *http.Request) {
	top := 20
	if text := r.URL.Query().Get("top"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > 1000 {
			writeError(w, http.StatusBadRequest, errors.New("top must be a number from 1 to 1000"))
			return
		}
		top = n
	}
	writeJSON(w, http.StatusOK, map[string]any{"prefixes": p.prefixes(top)})
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
