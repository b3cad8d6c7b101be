package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A wait that ends while nothing is in flight any more says so: what has just
// ended is not "still in flight: 0".
func TestAWaitEndsWellOnceNothingIsInFlight(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"peer_id":"p","name":"p","replicas":[{"name":"r0","state":"draining"}]}`)
	}))
	defer s.Close()
	var out, errs bytes.Buffer
	code := run(t.Context(), []string{"drain", "--peer", s.Listener.Addr().String(), "--wait", "1ms", "r0"}, &out, &errs)
	if code != exitOK || !strings.Contains(out.String(), "nothing is in flight at r0") {
		t.Errorf("exit code %d: %s%s", code, &out, &errs)
	}
}

// The last replica of a model gets its requests whether it is drained or not: a
// moment without any does not make it free.
func TestAWaitForAReplicaThatIsNeededFails(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			fmt.Fprint(w, `{"warning":"r0 is the only replica left for m and keeps getting its requests"}`)
			return
		}
		fmt.Fprint(w, `{"peer_id":"p","name":"p","replicas":[{"name":"r0","state":"draining"}]}`)
	}))
	defer s.Close()
	var out, errs bytes.Buffer
	code := run(t.Context(), []string{"drain", "--peer", s.Listener.Addr().String(), "--force", "--wait", "1ms", "r0"}, &out, &errs)
	if !strings.Contains(out.String(), "r0 is drained, but it is the only replica left for m") || !strings.Contains(out.String(), "undo with: banyan undrain --peer "+s.Listener.Addr().String()+" r0\n") {
		t.Error(out.String())
	}
	if code == exitOK || strings.Contains(out.String(), "can be stopped") || !strings.Contains(out.String(), "do not stop it") {
		t.Errorf("exit code %d: %s%s", code, &out, &errs)
	}
}
