package router

import (
	"strings"
	"testing"
	"time"

	"github.com/banyan-llm/banyan/gossip"
	"github.com/banyan-llm/banyan/router/fleet"
)

// A peer begins and ends not ready: neither is a warning. To be ready without
// knowing what the others know is one, and so is anything in between.
func TestLevelsOfReadiness(t *testing.T) {
	log := &logText{}
	p := loggingPeer(t, log, nil)
	r := p.readiness
	r.serving.Store(true)
	tell := func(want string) {
		t.Helper()
		before := len(log.String())
		r.tellReady()
		if text := log.String()[before:]; !strings.Contains(text, want) {
			t.Errorf("%q is not in %q", want, text)
		}
	}
	tell("[INFO]  not ready")
	p.fleet.Set([]fleet.Spec{{Name: "a", URL: "http://a", Model: "m"}}, time.Now())
	r.caught.Store(&gossip.Caught{Ready: true, Reason: gossip.ReadyLate})
	tell("[WARN]  ready: GET /readyz answers 200: reason=")
	p.fleet.Set(nil, time.Now())
	tell("[WARN]  not ready")
	p.fleet.Set([]fleet.Spec{{Name: "a", URL: "http://a", Model: "m"}}, time.Now())
	r.caught.Store(&gossip.Caught{Ready: true, Reason: "caught up"})
	tell("[INFO]  ready")
	r.draining.Store(true)
	tell("[INFO]  not ready: GET /readyz answers 503: reason=draining")
}
