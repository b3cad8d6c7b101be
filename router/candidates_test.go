package router

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/banyan-llm/banyan/router/fleet"
	"github.com/banyan-llm/banyan/router/openai"
	"github.com/banyan-llm/banyan/router/proxy"
)

// TestTheLineupFollowsTheFleet: replicas that come, go, change their model, or
// were tried.
func TestTheLineupFollowsTheFleet(t *testing.T) {
	p := quietPeer(t, nil)
	s := &scratch{}
	call := func(model string, tried ...string) *proxy.Call {
		return &proxy.Call{Body: &openai.Request{Model: model}, Tried: tried}
	}
	who := func(c *proxy.Call) (names []string) {
		t.Helper()
		_, err := p.path.directory.candidates(s, c)
		for i, r := range s.replicas {
			names = append(names, r.Name())
			if s.Marks[i].Ref != p.index.Ref(r.Stream) || s.Entries[i] != p.loads.Entry(r.Stream) {
				t.Errorf("%s has another's entry", r.Name())
			}
		}
		if (err == nil) != (len(names) > 0) {
			t.Errorf("%v are left, and %v", names, err)
		}
		return names
	}
	expect := func(got []string, want ...string) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	}
	spec := func(name, model string) fleet.Spec {
		return fleet.Spec{Name: name, URL: "http://" + name, Model: model}
	}
	now := time.Now()
	expect(who(call("m")))
	p.fleet.Set([]fleet.Spec{spec("a", "m"), spec("b", "m"), spec("c", "other"), {Name: "d", URL: "http://d", Model: "m", Kind: "pool"}}, now)
	for range 2 { // made and kept
		expect(who(call("m")), "a", "b")
		expect(who(call("m", "a")), "b")
		expect(who(call("m", "a", "b")))
		expect(who(call("other")), "c")
		expect(who(call("")), "a", "b", "c")
		_, _ = p.path.directory.candidates(s, call("m"))
		if len(s.stores.replicas) != 1 || s.stores.replicas[0].Name() != "d" {
			t.Error("the store of its model is missing")
		}
		if _, _ = p.path.directory.candidates(s, call("other")); len(s.stores.replicas) != 0 {
			t.Error("a store counts for another model")
		}
		if _, err := p.path.directory.candidates(s, call("strange")); !errors.Is(err, proxy.ErrUnknownModel) {
			t.Errorf("a strange model: %v", err)
		}
	}
	p.fleet.Get("b").Fail(now, true, "refused")
	expect(who(call("m")), "a")
	p.fleet.Set([]fleet.Spec{spec("b", "other"), spec("c", "other")}, now)
	expect(who(call("m")))
	expect(who(call("other")), "b", "c")
	if n := len(p.path.directory.candidateSets.now.Load().by); n != 1 {
		t.Errorf("%d candidate sets are kept of one model that is served", n)
	}
}
