package router

import (
	"strings"
	"testing"

	"github.com/banyan-llm/banyan/router/console"
)

func TestADownReplicaSaysWhereRequestsGo(t *testing.T) {
	s := console.Status{Ready: true, Replicas: []console.Replica{{Name: "r0", State: "down", Reason: "refused"}, {Name: "r1", State: "up"}}}
	help := func() (out string) {
		for _, p := range problems(&s) {
			if strings.Contains(p.Text, "r0 is down") {
				out = p.Help
			}
		}
		return out
	}
	if got := help(); !strings.HasPrefix(got, "Requests go to the others") {
		t.Errorf("one is up: %q", got)
	}
	s.Replicas[1].State = "down"
	if got := help(); !strings.HasPrefix(got, "No replica is left") {
		t.Errorf("none is up: %q", got)
	}
}
