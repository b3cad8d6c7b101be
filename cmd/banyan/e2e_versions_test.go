//go:build e2e

package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// olderCommit is the first that speaks today's version of the mesh protocol and
// none older (gossip.MinVersion).
const olderCommit = "b029b64d9d34a978e4f3415aed56fb2dc9a270c3"

// olderBinary builds banyan as it was at olderCommit, or skips the test where
// the history is not there.
func olderBinary(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	archive := filepath.Join(dir, "older.tar")
	if out, err := exec.Command("git", "-C", "../..", "archive", "-o", archive, olderCommit).CombinedOutput(); err != nil {
		t.Skipf("no commit %.12s to build an older peer from (%v: %s)", olderCommit, err, strings.TrimSpace(string(out)))
	}
	path := filepath.Join(dir, "banyan-older")
	for _, args := range [][]string{
		{"tar", "-xf", archive, "-C", dir},
		{"env", "CGO_ENABLED=0", "go", "build", "-C", dir, "-trimpath", "-o", path, "./cmd/banyan"},
	} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", args, err, out)
		}
	}
	return path
}

// TestPeersOfTwoReleasesAreOneMesh upgrades a mesh peer by peer, and rolls one
// back at the end. At each step a conversation that moves from peer to peer
// stays where its prefix is cached, and all peers agree on what is cached.
func TestPeersOfTwoReleasesAreOneMesh(t *testing.T) {
	older := olderBinary(t)
	newer, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	replicas := []*process{replicaProcess(t, "r0"), replicaProcess(t, "r1")}
	var cfg strings.Builder
	cfg.WriteString("mesh: {insecure: true}\ndrain: {delay: 300ms, timeout: 5s}\nreplicas:\n")
	for i, r := range replicas {
		fmt.Fprintf(&cfg, "- {name: r%d, url: %q, events: %q, replay: %q, engine: vllm}\n", i, "http://"+r.said["http"], r.said["events"], r.said["replay"])
	}
	path := writeFile(t, cfg.String())
	count := 0
	start := func(program string, join ...string) *process {
		count++
		args := []string{
			"serve", "--config", path, "--mesh.name", fmt.Sprintf("p%d", count), "--http.listen", "127.0.0.1:0",
			"--admin.listen", "127.0.0.1:0", "--mesh.bind", "127.0.0.1:0", "--limits.tokenize", tokenizeLimit.String(),
		}
		if len(join) > 0 {
			args = append(args, "--mesh.join", strings.Join(join, ","))
		}
		return launchCommand(t, exec.Command(program, args...))
	}
	peers := []*process{start(older)}
	peers = append(peers, start(older, peers[0].said["mesh"]), start(newer, peers[0].said["mesh"]))

	talk := []message{{"system", strings.Repeat("A conversation outlives the release of its routers. ", 40)}, {"user", "Hello."}}
	home := ""
	check := func(step string) {
		t.Helper()
		eventually(t, step+": all peers are ready and see each other", func() bool { return met(peers) })
		for i, p := range peers {
			replica, reply, cached := p.say(talk)
			if home == "" {
				home = replica
			} else if replica != home || cached == 0 {
				t.Errorf("%s: through peer %d of %d it went to %s with %d cached tokens, home is %s", step, i+1, len(peers), replica, cached, home)
			}
			talk = append(talk, message{"assistant", reply}, message{"user", "And then?"})
			calm(t, peers)
		}
		for _, p := range peers {
			if st := p.status(); st == nil || st.Mesh.Divergent != 0 {
				t.Errorf("%s: %+v", step, st)
			}
		}
	}
	check("two old peers, a new one")
	for i, program := range []string{newer, newer, older} { // two upgrades, then a roll-back
		peers[i].stop()
		peers[i] = start(program, peers[(i+1)%len(peers)].said["mesh"], peers[(i+2)%len(peers)].said["mesh"])
		check([]string{"one old peer", "no old peer", "one rolled back"}[i])
	}
	for _, p := range peers {
		p.stop()
	}
}

// met reports whether all peers are ready, see each other, and nobody else that
// is alive.
func met(peers []*process) bool {
	for _, p := range peers {
		st := p.status()
		if st == nil || !st.Ready {
			return false
		}
		alive := 0
		for _, q := range st.Peers {
			if q.State == "alive" {
				alive++
			}
			if q.Refused != "" {
				return false
			}
		}
		if alive != len(peers) {
			return false
		}
	}
	return true
}
