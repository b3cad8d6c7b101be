package console

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"
)

// MaxAssetBytes bounds all files of the page together.
const MaxAssetBytes = 40 << 10

//go:embed web
var web embed.FS

// contentPolicy lets the page load its own files and talk to its own peer,
// nothing else.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

var pageTemplate = template.Must(template.New("index.html").Funcs(template.FuncMap{
	"no":   func(i int) int { return i + 1 }, // of a column
	"link": runbookLink,
}).ParseFS(web, "web/index.html", "web/plain.html"))

// page is what the template shows.
type page struct {
	Drawing
	Decisions, Events []Row
	NoRow             Row
}

// Handler serves GET / (the page), /console/ (its files), /request, /runbook,
// /v1/watch and /v1/decisions.
func (c *Console) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", c.servePage)
	mux.HandleFunc("GET /console/{file}", serveAsset)
	mux.HandleFunc("GET /request", c.serveLookup)
	mux.HandleFunc("GET /runbook", c.serveRunbook)
	mux.HandleFunc("GET /v1/watch", c.serveWatch)
	mux.HandleFunc("GET /v1/decisions", c.serveDecisions)
	return guarded(mux)
}

// guarded sets the headers that keep a page from being used against its reader.
func guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", contentPolicy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		next.ServeHTTP(w, r)
	})
}

// servePage draws the present state, so that it reads without JavaScript.
func (c *Console) servePage(w http.ResponseWriter, _ *http.Request) {
	p := page{Drawing: drawStatus(c.look())}
	for _, d := range c.decisions.last(shownRows, 0) {
		p.Decisions = append(p.Decisions, drawDecision(&d))
	}
	for _, e := range c.events.last(shownRows, 0) {
		p.Events = append(p.Events, drawEvent(&e))
	}
	var out bytes.Buffer
	if err := pageTemplate.Execute(&out, &p); err != nil {
		http.Error(w, "draw the page: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(out.Bytes())
}

// runbookLink is where the runbook tells more of a problem; "" if it names no
// place in it.
func runbookLink(help string) string {
	_, anchor, found := strings.Cut(help, "deploy/README.md#")
	if !found {
		return ""
	}
	if end := strings.IndexFunc(anchor, func(r rune) bool { return r != '-' && (r < 'a' || r > 'z') }); end >= 0 {
		anchor = anchor[:end]
	}
	return "/runbook#" + anchor
}

// serveAsset serves a file of the page; the template is none.
func serveAsset(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("file")
	data, err := fs.ReadFile(web, path.Join("web", name))
	if err != nil || path.Ext(name) == ".html" {
		http.NotFound(w, r)
		return
	}
	sum := sha256.Sum256(data)
	w.Header().Set("ETag", `"`+hex.EncodeToString(sum[:8])+`"`)
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("Content-Type", assetTypes[path.Ext(name)])
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(data))
}

// assetTypes does not depend on the host's mime tables.
var assetTypes = map[string]string{
	".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml",
}

// serveDecisions is GET /v1/decisions?n=: the newest first.
func (c *Console) serveDecisions(w http.ResponseWriter, r *http.Request) {
	n := shownRows
	if text := r.URL.Query().Get("n"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil || n < 1 || n > MaxDecisions {
			http.Error(w, fmt.Sprintf("n must be a number from 1 to %d", MaxDecisions), http.StatusBadRequest)
			return
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(map[string]any{"decisions": c.decisions.last(n, 0), "total": c.decisions.newest()})
}
