//go:build e2e

package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// An SGLang server tells no start time, and this one has no replay. One of its two
// owners dies, nothing is asked for longer than a new owner waits for a replay, and
// then traffic goes on: the server's process keeps its epoch, and the mesh what it
// knew of it.
func TestAServerWithoutAStartTimeKeepsItsEpochWhenAnOwnerDies(t *testing.T) {
	const silence = 6 * time.Second
	r := replicaProcess(t, "r0", "--engine", "sglang", "--replay", "")
	peers := meshFrom(t, 3, fmt.Sprintf("mesh: {insecure: true}\ndrain: {delay: 300ms, timeout: 5s}\nreplicas:\n- {name: r0, url: %q, events: %q}\n",
		"http://"+r.said["http"], r.said["events"]))
	asked := 0
	ask := func(p *process) {
		asked++
		p.say([]message{{"user", strings.Repeat(fmt.Sprintf("Prompt %d is long. ", asked), 60)}})
	}
	ask(peers[0])
	calm(t, peers)
	before := peers[0].status()
	epoch, owners := before.Replicas[0].Stream.Epoch, before.Replicas[0].Stream.Owners
	if epoch == 0 || before.Tree.Facts == 0 || len(owners) != 2 {
		t.Fatalf("epoch %d, %d facts, owners %v", epoch, before.Tree.Facts, owners)
	}
	dead := slices.Index([]string{"p0", "p1", "p2"}, owners[0])
	_ = peers[dead].cmd.Process.Kill()
	peers = slices.Delete(peers, dead, dead+1)
	eventually(t, "the others own the stream", func() bool {
		return !slices.ContainsFunc(peers, func(p *process) bool {
			st := p.status()
			return st == nil || len(st.Replicas[0].Stream.Owners) != 2 || slices.Contains(st.Replicas[0].Stream.Owners, owners[0])
		})
	})
	facts := before.Tree.Facts
	for range 3 {
		time.Sleep(silence)
		ask(peers[0])
		eventually(t, "the peers know more than before, and the same", func() bool {
			st := peers[0].status()
			return st != nil && st.Tree.Facts > facts && converged(peers)
		})
		facts = peers[0].status().Tree.Facts
	}
	for _, p := range peers {
		if got := p.status().Replicas[0].Stream.Epoch; got != epoch {
			t.Errorf("the epoch is %d, and was %d", got, epoch)
		}
		p.stop()
	}
}
