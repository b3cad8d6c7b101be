package router

import (
	"slices"
	"testing"
	"time"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/router/fleet"
)

func TestReplicasThatStayAwayAreForgotten(t *testing.T) {
	start := time.Unix(1000, 0)
	f := fleet.New(fleet.Config{})
	discovered := []fleet.Spec{{URL: "http://10.0.0.1:80"}, {URL: "http://10.0.0.2:80"}, {URL: "http://10.0.0.3:80"}}
	f.Set([]fleet.Spec{{URL: "http://static:80"}}, start)
	f.Update(fleet.SourceKubernetes, discovered, start)
	known := map[crdt.StreamID]bool{}
	for _, r := range f.List() {
		known[r.Stream] = true
	}
	var d departures
	look := func(after time.Duration) (out []string) {
		for _, id := range d.due(f.List(), start.Add(after), func(id crdt.StreamID) bool { return known[id] }) {
			out = append(out, string(id))
		}
		slices.Sort(out)
		return out
	}
	look(0)
	f.Set([]fleet.Spec{{URL: "http://static:80"}}, start)
	f.Update(fleet.SourceKubernetes, discovered[:1], start)
	look(time.Second)
	f.Update(fleet.SourceKubernetes, discovered[:2], start) // the second comes back
	if got := look(departedAfter); got != nil {
		t.Errorf("too early: %q", got)
	}
	if got := look(departedAfter + time.Second); len(got) != 1 || got[0] != "http://10.0.0.3:80#0" {
		t.Errorf("%q", got)
	}
	if got := look(departedAfter + 2*time.Second); got != nil {
		t.Errorf("again at once: %q", got)
	}
	if got := look(2*departedAfter + time.Second); len(got) != 1 {
		t.Errorf("another peer brought it back, and it stays: %q", got)
	}
	f.Set(nil, start) // out of the configuration
	look(2*departedAfter + 2*time.Second)
	if got := look(3*departedAfter + 3*time.Second); len(got) != 2 || got[1] != "http://static:80#0" {
		t.Errorf("%q", got)
	}
	clear(known)
	look(5 * departedAfter)
	if len(d.gone) != 0 {
		t.Errorf("%v is remembered for ever", d.gone)
	}
}
