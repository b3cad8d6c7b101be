package fleet

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"
)

// pageOf makes a server that answers everything with one body.
func pageOf(t *testing.T, body func(w http.ResponseWriter)) *Replica {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { body(w) }))
	t.Cleanup(srv.Close)
	f := New(Config{})
	f.Set([]Spec{{URL: srv.URL}}, time.Now())
	return f.List()[0]
}

// Whatever a replica answers where its load should be: it costs a bounded
// amount of memory, and the load is unknown, never nought (I3, I7).
func TestStrangePagesAreNoLoad(t *testing.T) {
	endless := func(chunk []byte) func(w http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			for range 50 << 20 / len(chunk) {
				if _, err := w.Write(chunk); err != nil {
					return
				}
			}
		}
	}
	text := func(s string) func(w http.ResponseWriter) {
		return func(w http.ResponseWriter) { _, _ = w.Write([]byte(s)) }
	}
	series := []byte(strings.Repeat("vllm:num_requests_running{engine=\"0\"} 1\n", 1000))
	for name, body := range map[string]func(w http.ResponseWriter){
		"50 MB of series":          endless(series),
		"50 MB without a line end": endless(bytes.Repeat([]byte{'x'}, 1<<16)),
		"50 MB of nothing":         endless(make([]byte, 1<<16)),
		"50 MB of open brackets":   endless(bytes.Repeat([]byte{'['}, 1<<16)),
		"50 MB of labels":          endless(bytes.Repeat([]byte(`a="b",`), 1<<13)),
		"a web page":               text("<!DOCTYPE html><html><body>Sign in</body></html>"),
		"nothing":                  text(""),
		"bytes":                    text("\x00\xff\xfe{}\n\x1f\x8b\x08"),
		"JSON of another kind":     text(`{"loads":"many"}`),
		"numbers that are none":    text("vllm:num_requests_running NaN\nsglang:num_running_reqs -3\ntrtllm_num_requests_running 1e99\n"),
	} {
		r := pageOf(t, body)
		for _, engine := range []string{vllm, sglang, trtllm} {
			f := New(Config{})
			f.Set([]Spec{{URL: r.Spec.URL, Engine: engine}}, time.Now())
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			s, err := readLoad(t.Context(), f.pagesOf(f.List()[0]), f.List()[0], false)
			runtime.ReadMemStats(&after)
			if err == nil {
				t.Errorf("%s: %s's load reads as %+v", name, engine, s)
			}
			// io.ReadAll grows by a quarter: about five times the bound in all.
			if used := after.TotalAlloc - before.TotalAlloc; used > 6*maxMetricsBytes {
				t.Errorf("%s: %s: %d bytes were allocated", name, engine, used)
			}
		}
		f := New(Config{})
		f.Set([]Spec{{URL: r.Spec.URL}}, time.Now())
		replica := f.List()[0]
		if models, err := readModels(t.Context(), f.pagesOf(replica)); err == nil {
			t.Errorf("%s: models %+v", name, models)
		}
		if f.inquire(t.Context(), replica, f.pagesOf(replica)); replica.Facts().BlockSize != 0 || replica.Facts().Events != "" {
			t.Errorf("%s: %+v", name, replica.Facts())
		}
	}
}

// A page that never ends ends at the client's time-out.
func TestAPageThatDripsEnds(t *testing.T) {
	r := pageOf(t, func(w http.ResponseWriter) {
		for {
			if _, err := w.Write([]byte("# drip\n")); err != nil {
				return
			}
			_ = http.NewResponseController(w).Flush()
			time.Sleep(time.Millisecond)
		}
	})
	client := newClient()
	client.Timeout = 50 * time.Millisecond
	f := New(Config{Client: client})
	f.Set([]Spec{{URL: r.Spec.URL, Engine: vllm}}, time.Now())
	if _, err := readLoad(t.Context(), f.pagesOf(f.List()[0]), f.List()[0], false); err == nil || Cause(err) != "time-out" {
		t.Errorf("%v", err)
	}
}

func TestLabelsThatAreNoRanks(t *testing.T) {
	var page strings.Builder
	for i := range 5000 { // more than there can be
		page.WriteString("vllm:num_requests_running{engine=\"" + strings.Repeat("1", i%12) + "\"} 1\n")
	}
	if p := parseMetrics([]byte(page.String()), 0); p.ranks != 0 {
		t.Errorf("%+v", p)
	}
}
