package router

import (
	"fmt"
	"net/http"
	"sync/atomic"

	"github.com/hashicorp/go-hclog"

	"github.com/banyan-llm/banyan/gossip"
	"github.com/banyan-llm/banyan/router/fleet"
)

// readiness is whether requests should come here, and what it depends on.
type readiness struct {
	fleet     *fleet.Fleet
	log       hclog.Logger
	draining  atomic.Bool
	caught    atomic.Pointer[gossip.Caught]
	joined    atomic.Bool // it was caught up with the mesh once, or found none
	serving   atomic.Bool // the listeners answer
	toldReady *bool       // as last logged; of keepHouse's goroutine
}

// ready reports whether an L4 balancer should send requests here, and why. A
// peer that was caught up once stays ready when it falls behind: it routes on
// what it knows, and when all peers are short of CPU at once a balancer would
// find none.
func (r *readiness) ready() (bool, string) {
	c := r.caught.Load()
	switch {
	case r.draining.Load():
		return false, "draining"
	case c == nil:
		return false, "joining the mesh"
	case !c.Ready && !r.joined.Load():
		return false, c.Reason
	case len(r.fleet.List()) == 0:
		return false, "no replica is configured or discovered"
	}
	if !c.Ready {
		return true, "behind the mesh: " + c.Reason
	}
	return true, c.Reason
}

// behind is why a peer that was caught up once is not now; empty if it is.
func (r *readiness) behind() string {
	if c := r.caught.Load(); c != nil && !c.Ready && r.joined.Load() {
		return c.Reason
	}
	return ""
}

// tellReady logs what GET /readyz answers when that changes, from the moment
// anybody can ask. Called by one goroutine.
func (r *readiness) tellReady() {
	ready, why := r.ready()
	if !r.serving.Load() || r.toldReady != nil && *r.toldReady == ready {
		return
	}
	level := hclog.Warn
	if r.toldReady == nil || r.draining.Load() { // every peer begins so, and ends so
		level = hclog.Info
	}
	r.toldReady = &ready
	if ready {
		level = hclog.Info
		if c := r.caught.Load(); c != nil && c.Reason == gossip.ReadyLate { // it may route badly
			level = hclog.Warn
		}
		r.log.Log(level, "ready: GET /readyz answers 200", "reason", why)
	} else {
		r.log.Log(level, "not ready: GET /readyz answers 503", "reason", why)
	}
}

// serveReady is what an L4 balancer asks.
func (r *readiness) serveReady(w http.ResponseWriter, _ *http.Request) {
	if ready, why := r.ready(); !ready {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintln(w, why)
		return
	}
	fmt.Fprintln(w, "ready")
}
