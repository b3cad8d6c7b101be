package console

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

func get(t *testing.T, c *Console, target string) *http.Response {
	t.Helper()
	w := httptest.NewRecorder()
	c.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, target, nil))
	return w.Result()
}

func text(t *testing.T, res *http.Response) string {
	t.Helper()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func sampleConsole() *Console {
	c := New(func() *Status {
		s := sample()
		s.Judge()
		return s
	})
	c.Decided(&Choice{
		TimeMs: 1, Replica: "r2", Policy: "ttft", Reason: "prefix", Matched: 1984, Prompt: 2210, PredictedSeconds: .18,
		Candidates: []Option{{Replica: "r2", Score: .2, Confirmed: 1984}, {Replica: "r3", Score: math.MaxFloat64}},
	})
	return c
}

func TestPageReadsWithoutScript(t *testing.T) {
	c := sampleConsole()
	c.Observe(sample())
	res := get(t, c, "/")
	page := text(t, res)
	if res.StatusCode != http.StatusOK || !strings.HasPrefix(res.Header.Get("Content-Type"), "text/html") {
		t.Fatalf("%d %s", res.StatusCode, res.Header.Get("Content-Type"))
	}
	for _, want := range []string{
		"pool-a", "r3 is down: connection refused. ", "r3 is down: connection refused", "Requests go to the others", ">r2<", ">31<", ">12.4k<", ">81 %<",
		"down 12s", "1984 of 2210", "180 ms", "3f9c01aa", "first look: 2 replicas, 3 peers", "m messages: text (/v1/messages/render answered 403) · m chat: exact, by tokenize · n chat: text (configured).", `aria-live="polite"`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("C3: the page lacks %q", want)
		}
	}
}

func TestPageOfNothing(t *testing.T) {
	page := text(t, get(t, New(func() *Status { s := &Status{Ready: true}; s.Judge(); return s }), "/"))
	for _, want := range []string{"No replica is known.", "No replica is configured", "Nothing is cached yet", "No request came", "Nothing has changed"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

func TestHostileNamesStayText(t *testing.T) {
	const bad = `"><script>alert(1)</script><img src=x onerror=alert(2)> javascript:x`
	s := sample()
	s.Label, s.Name, s.Reason = bad, bad, bad
	s.Replicas[0].Name, s.Replicas[0].URL, s.Replicas[0].Stream.Detail, s.Replicas[0].Engine = bad, bad, bad, bad
	s.Peers[1].Name, s.Peers[1].Version, s.Peers[1].Address = bad, bad, bad
	s.Prefixes[0].Holders = []string{bad}
	s.Problems[0] = Problem{bad, bad}
	s.Judge()
	c := New(func() *Status { return s })
	c.Observe(s)
	c.Decided(&Choice{Replica: bad, Policy: bad, Reason: bad, Candidates: []Option{{Replica: bad}}})
	page := text(t, get(t, c, "/"))
	if strings.Contains(page, "<script>") || strings.Contains(page, "<img src=x") {
		t.Error("C4: a name became markup")
	}
	if n := strings.Count(page, "<script"); n != 1 {
		t.Errorf("C4: %d script elements, want the page's own", n)
	}
}

func TestHeadersForbidEverythingElse(t *testing.T) {
	for _, target := range []string{"/", "/console/app.js", "/v1/decisions", "/console/none"} {
		h := get(t, sampleConsole(), target).Header
		for _, want := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'", "base-uri 'none'"} {
			if !strings.Contains(h.Get("Content-Security-Policy"), want) {
				t.Errorf("%s: the policy lacks %q", target, want)
			}
		}
		if strings.Contains(h.Get("Content-Security-Policy"), "unsafe") || h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %v", target, h)
		}
	}
}

// C3: nothing is inline (the policy would block it) and nothing from elsewhere.
func TestAssetsAreSmallAndSelfContained(t *testing.T) {
	total := 0
	foreign := regexp.MustCompile(`(?i)(https?:)?//[a-z0-9]+\.[a-z]`)
	inline := regexp.MustCompile(`(?i)\s(style|on[a-z]+)="|<script>|<style|\.innerHTML|insertAdjacentHTML|document\.write|\beval\(`)
	err := fs.WalkDir(web, "web", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(web, path)
		total += len(data)
		source := strings.ReplaceAll(string(data), "http://www.w3.org/2000/svg", "")
		if m := foreign.FindString(source); m != "" {
			t.Errorf("%s mentions %s", path, m)
		}
		if m := inline.FindString(source); m != "" {
			t.Errorf("%s has %s", path, m)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if total > MaxAssetBytes || total < 1000 {
		t.Errorf("%d bytes of assets, at most %d", total, MaxAssetBytes)
	}
}

func TestAssetsAreServedAndCached(t *testing.T) {
	c := sampleConsole()
	page := text(t, get(t, c, "/"))
	for _, m := range regexp.MustCompile(`/console/[a-z.]+`).FindAllString(page, -1) {
		res := get(t, c, m)
		if res.StatusCode != http.StatusOK || res.Header.Get("ETag") == "" {
			t.Errorf("%s: %d %v", m, res.StatusCode, res.Header)
		}
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, m, nil)
		r.Header.Set("If-None-Match", res.Header.Get("ETag"))
		c.Handler().ServeHTTP(w, r)
		if w.Code != http.StatusNotModified {
			t.Errorf("%s again: %d", m, w.Code)
		}
	}
	for _, target := range []string{"/console/index.html", "/console/..%2fpage.go", "/console/"} {
		if res := get(t, c, target); res.StatusCode == http.StatusOK {
			t.Errorf("%s is served", target)
		}
	}
}

// Every cell that the page names is filled by what is drawn for it.
func TestEveryCellHasAText(t *testing.T) {
	source, err := fs.ReadFile(web, "web/index.html")
	if err != nil {
		t.Fatal(err)
	}
	s := sample()
	d := drawStatus(s)
	known := map[string]bool{"help": true, "more": true}
	add := func(rows ...Row) {
		for _, r := range rows {
			for k := range r.Cells {
				known[k] = true
			}
		}
	}
	add(Row{Cells: d.Cells}, d.Replicas[0], d.Peers[0], d.Branches[0], drawEvent(&Event{}))
	decision := drawDecision(&Decision{Candidates: []Candidate{{}}})
	add(decision, decision.Lines[0])
	for _, m := range regexp.MustCompile(`data-f="(\w+)">\{\{\.(?:Cells\.)?(\w+)`).FindAllStringSubmatch(string(source), -1) {
		if m[1] != strings.ToLower(m[2]) && m[1] != m[2] || !known[m[1]] {
			t.Errorf("cell %s shows %s", m[1], m[2])
		}
	}
}

func TestDecisionsAreListedNewestFirst(t *testing.T) {
	c := sampleConsole()
	for i := range MaxDecisions + 8 {
		c.Decided(&Choice{Replica: fmt.Sprint(i)})
	}
	var doc struct {
		Decisions []Decision
		Total     uint64
	}
	if err := json.Unmarshal([]byte(text(t, get(t, c, "/v1/decisions?n=512"))), &doc); err != nil {
		t.Fatal(err)
	}
	if len(doc.Decisions) != MaxDecisions || doc.Total != MaxDecisions+9 || doc.Decisions[0].Replica != "519" || doc.Decisions[511].Replica != "8" {
		t.Errorf("C5: %d of %d, first %v", len(doc.Decisions), doc.Total, doc.Decisions[0])
	}
	for _, bad := range []string{"0", "-1", "x", "513"} {
		if res := get(t, c, "/v1/decisions?n="+bad); res.StatusCode != http.StatusBadRequest {
			t.Errorf("n=%s: %d", bad, res.StatusCode)
		}
	}
}

func TestWatchersAreBounded(t *testing.T) {
	c := sampleConsole()
	c.watchers.Store(maxWatchers)
	if res := get(t, c, "/v1/watch"); res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") == "" {
		t.Errorf("C6: one more got %d", res.StatusCode)
	}
	if n := c.watchers.Load(); n != maxWatchers {
		t.Errorf("%d watchers are counted", n)
	}
}
