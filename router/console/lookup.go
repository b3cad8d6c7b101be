package console

import (
	"bytes"
	"html/template"
	"net/http"
	"strings"

	"github.com/banyan-llm/banyan/router/requests"
)

// Sources are what the console shows beside the status.
type Sources struct {
	// Find returns a request by its id, or why it is not known here.
	Find func(id string) (*requests.Told, error)
	// Notable lists the last requests that failed, were slow or were retried.
	Notable func(n int) []*requests.Told
	Runbook string // Markdown
}

// Serve gives the console its sources. It is called before the first request.
func (c *Console) Serve(s Sources) { c.sources = s }

// plainPage is a page of text around the same style.
type plainPage struct {
	Title, ID, Text, Fault string
	Body                   template.HTML
}

// maxAsked bounds an id, and listed the requests shown without one.
const (
	maxAsked = 256
	listed   = 50
)

// serveLookup is GET /request?id=: what `banyan why` tells, as a page.
func (c *Console) serveLookup(w http.ResponseWriter, r *http.Request) {
	id := strings.TrimSpace(r.URL.Query().Get("id"))
	p, code := plainPage{Title: "Requests", ID: id}, http.StatusOK
	var text bytes.Buffer
	switch {
	case c.sources.Find == nil || len(id) > maxAsked:
		p.Fault, p.ID, code = "No id is that long.", "", http.StatusBadRequest
	case id == "":
		list := []requests.Told{}
		for _, told := range c.sources.Notable(listed) {
			list = append(list, *told)
		}
		_ = WriteRequests(&text, list, Look{}) // a buffer takes all
	default:
		told, err := c.sources.Find(id)
		if err != nil {
			p.Fault, code = err.Error(), http.StatusNotFound
			break
		}
		_ = WriteWhy(&text, told, Look{})
	}
	p.Text = text.String()
	writePlain(w, code, &p)
}

// serveRunbook is GET /runbook.
func (c *Console) serveRunbook(w http.ResponseWriter, _ *http.Request) {
	writePlain(w, http.StatusOK, &plainPage{Title: "Runbook", Body: markdown(c.sources.Runbook)})
}

func writePlain(w http.ResponseWriter, code int, p *plainPage) {
	var out bytes.Buffer
	if err := pageTemplate.ExecuteTemplate(&out, "plain.html", p); err != nil {
		http.Error(w, "draw the page: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_, _ = w.Write(out.Bytes())
}
