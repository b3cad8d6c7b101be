package proxy

import (
	"net/http"
	"testing"
)

// TestReplicasSayNothingOfOrigins: which pages may read an answer is the router's
// to say, so a replica's word does not reach the browser beside it; what answers
// vary by is kept.
func TestReplicasSayNothingOfOrigins(t *testing.T) {
	g := newRig(t, nil, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", "*")
		w.Header().Set("Access-Control-Allow-Credentials", "true")
		w.Header().Set("Vary", "Accept-Encoding")
		ok(w, r)
	})
	a := g.chat(`{"model":"m","messages":[{"role":"user","content":"hi"}]}`)
	if a.status != 200 || a.header.Get("Access-Control-Allow-Origin") != "" || a.header.Get("Access-Control-Allow-Credentials") != "" || a.header.Get("Vary") != "Accept-Encoding" {
		t.Errorf("%d %v %s", a.status, a.header, a.body)
	}
}
