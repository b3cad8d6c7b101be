//go:build e2e

package main

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"
)

// tells waits until the check of a peer fails with all of these words. It waits
// for two minutes more than what must stand for one: a busy machine is slow.
func (p *process) tells(mistake string, words ...string) {
	p.t.Helper()
	var text string
	for deadline := time.Now().Add(3 * time.Minute); time.Now().Before(deadline); time.Sleep(time.Second) {
		said, code := p.check()
		text = strings.Join(strings.Fields(said), " ")
		missing := false
		for _, w := range words {
			missing = missing || !strings.Contains(text, w)
		}
		if code == exitFailed && !missing {
			p.evidence(mistake)
			return
		}
	}
	p.t.Errorf("%s: the check does not tell %q:\n%s", mistake, words, text)
}

// Peers that share a mesh and were configured otherwise say so on both sides,
// and in what; so do two that have one name.
func TestPeersThatAreConfiguredOtherwiseSaySo(t *testing.T) {
	t.Parallel() // it is a minute of waiting
	r0, r1 := replicaProcess(t, "r0"), replicaProcess(t, "r1")
	listed := func(name0, name1 string) string {
		return fmt.Sprintf("[{name: %s, url: 'http://%s'}, {name: %s, url: 'http://%s'}]", name0, r0.said["http"], name1, r1.said["http"])
	}
	a := single(t, "--mesh.name", "a", "--replicas", listed("r0", "r1"))
	join := func(name string, args ...string) *process {
		return single(t, append([]string{"--mesh.name", name, "--mesh.join", a.said["mesh"]}, args...)...)
	}
	b := join("b", "--replicas", listed("r1", "r0"), "--policy", "round_robin")
	c := join("c", "--replicas", fmt.Sprintf("[{name: r0, url: 'http://%s'}]", r0.said["http"]), "--limits.retries", "1")
	same := []*process{join("twin", "--replicas", listed("r0", "r1")), join("twin", "--replicas", listed("r0", "r1"))}

	a.tells("policy, names of replicas and the list of replicas differ",
		"Peer b is configured otherwise than this one: policy, names of replicas",
		"Peer c is configured otherwise than this one: limits, list of replicas",
		"2 peers are named twin")
	b.tells("policy differs, seen from the other", "Peers a, twin, twin are configured otherwise than this one: policy, names of replicas")
	text, _ := a.check()
	if strings.Contains(text, "twin are configured otherwise") {
		t.Errorf("equal peers are said to differ:\n%s", text)
	}
	for _, p := range append(same, b, c, a) {
		p.stop()
	}
}

// A peer whose seeds all lead back to it is alone, and says so.
func TestAPeerThatJoinsOnlyItselfSaysSo(t *testing.T) {
	r := replicaProcess(t, "r0")
	own := freePort(t)
	p := launch(t, "serve", "--insecure-mesh", "--http.listen", "127.0.0.1:0", "--admin.listen", "127.0.0.1:0", "--drain.delay", "100ms",
		"--mesh.bind", own, "--mesh.join", own, "--replicas", fmt.Sprintf("[{name: r0, url: 'http://%s'}]", r.said["http"]))
	p.tells("mesh.join names only the peer itself", "This peer is alone", "it leads to this peer itself")
	p.stop()
}

// A peer that advertises another's address says so itself, and so do those that
// do not reach it there.
func TestAWrongAddressIsToldOnBothSides(t *testing.T) {
	r := replicaProcess(t, "r0")
	replicas := fmt.Sprintf("[{name: r0, url: 'http://%s'}]", r.said["http"])
	a := single(t, "--mesh.name", "a", "--replicas", replicas)
	wrong := closedPort(t)
	b := single(t, "--mesh.name", "b", "--replicas", replicas, "--mesh.join", a.said["mesh"], "--mesh.advertise", wrong)
	b.tells("mesh.advertise is wrong, seen from that peer", "over UDP do not arrive", wrong, "mesh.advertise")
	a.tells("mesh.advertise is wrong, seen from another peer", "Peer b comes and goes", wrong, "mesh.advertise")
	b.stop()
	a.stop()
}

// A peer that may run for three of every hundred ms, as in a container with too
// low a CPU limit, says so.
func TestAStarvedPeerSaysSo(t *testing.T) {
	r := replicaProcess(t, "r0")
	p := single(t, "--replicas", fmt.Sprintf("[{name: r0, url: 'http://%s'}]", r.said["http"]))
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-quit:
				return
			case <-time.After(3 * time.Millisecond):
			}
			_ = p.cmd.Process.Signal(syscall.SIGSTOP)
			time.Sleep(97 * time.Millisecond)
			_ = p.cmd.Process.Signal(syscall.SIGCONT)
		}
	}()
	p.tells("a peer that may use 3 % of a core", "ms for the CPU each time it has something to do", "CPU limit")
	close(quit)
	<-done
	p.stop()
}
