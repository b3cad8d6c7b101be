package fleet

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// What a replica serves is read again before it gets requests after it was down,
// and at once when its engine is another process.
func TestARestartedReplicaTellsItsModelsFirst(t *testing.T) {
	model, up, asked, early := "m", true, 0, 0 // by one goroutine, this one
	var r *Replica
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		switch req.URL.Path {
		case "/health":
			if !up {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		case "/v1/models":
			asked++
			if _, ok := r.Serves("m"); ok && r.Up() && model != "m" {
				early++
			}
			fmt.Fprintf(w, `{"data":[{"id":%q,"owned_by":"vllm"}]}`, model)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(srv.Close)
	f := New(Config{})
	f.Set([]Spec{{URL: srv.URL}}, time.Now())
	r = f.List()[0]
	w := &watcher{fleet: f}
	w.list(f.List())
	now := time.Now()
	step := func(after time.Duration) {
		now = now.Add(after)
		w.step(t.Context(), now)
	}
	serves := func(model string) bool { _, ok := r.Serves(model); return ok }
	step(0)
	if !r.Up() || !serves("m") {
		t.Fatal("it does not serve m")
	}
	r.Began(7)
	step(100 * time.Millisecond)
	r.Began(7)
	step(100 * time.Millisecond)
	if asked != 1 {
		t.Fatalf("the first epoch is no other process: asked %d times", asked)
	}
	r.Fail(now, true, "connection refused")
	up, model = false, "n"
	step(time.Minute)
	if r.Up() {
		t.Fatal("it is up")
	}
	up = true
	step(time.Minute)
	if !r.Up() || serves("m") || !serves("n") || early > 0 {
		t.Errorf("after it was down: up %v, models %+v, early %d", r.Up(), r.Models(), early)
	}
	model = "o"
	r.Began(8)
	step(100 * time.Millisecond)
	if serves("n") || !serves("o") {
		t.Errorf("another process: models %+v", r.Models())
	}
}
