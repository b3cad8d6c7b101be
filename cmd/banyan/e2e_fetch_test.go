//go:build e2e

package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/banyan-llm/banyan/router/console"
)

// A session's replica is drained, so another one answers the next turn: it
// fetches what it lacks there, through real processes, and the peer says so.
// Then the source dies in the middle of it all, and turns are computed.
func TestAReplicaFetchesWhatADrainedOneHolds(t *testing.T) {
	var cfg strings.Builder
	cfg.WriteString("mesh: {insecure: true}\ndrain: {delay: 300ms, timeout: 5s}\nreplicas:\n")
	engines := map[string]*process{}
	for i := range 2 {
		name := fmt.Sprintf("r%d", i)
		r := replicaProcess(t, name)
		engines[name] = r
		fmt.Fprintf(&cfg, "- {name: %s, url: %q, events: %q, replay: %q, p2p: %q}\n", name, "http://"+r.said["http"], r.said["events"], r.said["replay"], r.said["http"])
	}
	peers := knowing(t, meshFrom(t, 2, cfg.String()))
	talk := []message{{"system", strings.Repeat("A long beginning that is worth moving, word by word. ", 500)}, {"user", "Hello."}}
	holder, reply, _ := peers[0].say(talk)
	other := "r0"
	if holder == other {
		other = "r1"
	}
	everywhere(t, peers, holder, "its blocks are known", func(r console.Replica) bool { return r.Stream.Facts > 200 })
	peers[0].intent(holder, "drain")
	everywhere(t, peers, holder, "it is drained", func(r console.Replica) bool { return r.State == "draining" })
	talk = append(talk, message{"assistant", reply}, message{"user", "And then?"})
	replica, _, cached := peers[1].say(talk)
	if replica != other || cached < 3000 {
		t.Errorf("the next turn was answered by %s with %d tokens cached, want %s and what %s held", replica, cached, other, holder)
	}
	eventually(t, "the fetch is counted", func() bool { return peers[1].counted(`banyan_kv_fetches_total{outcome="fetched"}`) == 1 })

	_ = engines[holder].cmd.Process.Kill()
	for turn := range 3 {
		talk = []message{{"system", strings.Repeat(fmt.Sprintf("Another beginning, number %d. ", turn), 500)}, {"user", "Hello."}}
		if replica, reply, _ := peers[turn%2].say(talk); replica != other || reply == "" {
			t.Errorf("answered by %s: %q", replica, reply)
		}
	}
}
