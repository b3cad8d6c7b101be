package fleet

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// A Banyan peer at a replica's address gets no requests, and is asked for nothing
// but its health and its models: it is no engine.
func TestAPeerAtAReplicasAddressIsNoEngine(t *testing.T) {
	owner := PeerOwner
	var asked []string // by one goroutine, this one
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path)
		if r.URL.Path == "/v1/models" {
			fmt.Fprintf(w, `{"data":[{"id":"m","owned_by":%q}]}`, owner)
		}
	}))
	t.Cleanup(srv.Close)
	f := New(Config{})
	f.Set([]Spec{{URL: srv.URL, Model: "m"}}, time.Now())
	w := &watcher{fleet: f}
	w.list(f.List())
	now := time.Now()
	for range 10 {
		now = now.Add(time.Minute)
		w.step(t.Context(), now)
	}
	if why, cure := f.List()[0].Unfit(); !strings.Contains(why, "Banyan peer") || cure == "" {
		t.Errorf("%q, %q", why, cure)
	}
	if _, ok := f.List()[0].Serves("m"); ok || len(f.ModelNames()) > 0 {
		t.Error("it serves a model")
	}
	for _, path := range asked {
		if path != "/health" && path != "/v1/models" {
			t.Errorf("it was asked for %s", path)
		}
	}
	owner = "vllm" // the address was corrected on the other side
	for range 10 {
		now = now.Add(time.Minute)
		w.step(t.Context(), now)
	}
	if _, ok := f.List()[0].Serves("m"); !ok || f.List()[0].Engine() != vllm {
		t.Errorf("an engine that took its place: %s", f.List()[0].Engine())
	}
}

// A replica whose model: the server does not have serves nothing, not even what the
// server has: the operator meant another server, or mistyped.
func TestAMisnamedReplicaServesNothing(t *testing.T) {
	f := New(Config{})
	f.Set([]Spec{{Name: "a", URL: "http://a:1", Model: "x", Engine: "vllm"}, {Name: "b", URL: "http://b:1", Model: "x", Engine: "sglang"}}, time.Now())
	for _, r := range f.List() {
		r.models.Store(&[]Model{{ID: "m"}})
	}
	a, b := f.Get("a"), f.Get("b")
	for _, model := range []string{"x", "m"} {
		if _, ok := a.Serves(model); ok {
			t.Errorf("it serves %s", model)
		}
		if _, ok := b.Serves(model); !ok {
			t.Errorf("SGLang takes any name, and %s is refused", model)
		}
	}
	if why, _ := a.Unfit(); a.Fit() || why == "" || !b.Fit() {
		t.Errorf("%q", why)
	}
	if list := f.ModelNames(); len(list) != 1 {
		t.Errorf("%+v", list)
	}
	a.models.Store(&[]Model{{ID: "x"}, {ID: "l", Parent: "x"}})
	if _, ok := a.Serves("x"); !ok {
		t.Error("it was corrected and serves nothing")
	}
}
