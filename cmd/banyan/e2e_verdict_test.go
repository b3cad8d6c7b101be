//go:build e2e

package main

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// check runs `banyan status --check` against the peer.
func (p *process) check(args ...string) (text string, code int) {
	p.t.Helper()
	path, err := binary()
	if err != nil {
		p.t.Fatal(err)
	}
	var out bytes.Buffer
	cmd := exec.Command(path, append([]string{"status", "--peer", p.said["admin"], "--check"}, args...)...)
	cmd.Stdout, cmd.Stderr = &out, &out
	_ = cmd.Run()
	return out.String(), cmd.ProcessState.ExitCode()
}

// evidence logs rows of the table "mistake, verdict, exit code, seconds since the
// start", which deploy/README.md shows.
func (p *process) evidence(mistake string) {
	p.t.Helper()
	text, code := p.check()
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "! ") {
			p.t.Logf("| %s | %.200s | %d | %.1f s |", mistake, strings.TrimSpace(line[2:]), code, time.Since(p.began).Seconds())
		}
	}
}

// A peer that is killed and started again, as a supervisor does, is no trouble
// any more: membership remembers the dead process for an hour.
func TestAHealedCrashIsHealed(t *testing.T) {
	r := replicaProcess(t, "r0")
	peers := meshOf(t, 2, r)
	dead := peers[1]
	_ = dead.cmd.Process.Kill()
	<-dead.done
	again := launch(t, "serve", "--insecure-mesh", "--mesh.name", peers[0].peerNamed(dead.said["mesh"]), "--http.listen", "127.0.0.1:0",
		"--admin.listen", "127.0.0.1:0", "--mesh.bind", dead.said["mesh"], "--mesh.join", peers[0].said["mesh"], "--drain.delay", "100ms",
		"--replicas", fmt.Sprintf("[{name: r0, url: 'http://%s', events: '%s', replay: '%s'}]", r.said["http"], r.said["events"], r.said["replay"]))
	eventually(t, "two rows and no trouble", func() bool {
		s := peers[0].status()
		a := again.status()
		return s != nil && a != nil && len(s.Peers) == 2 && s.OK && s.Peers[1].ID == a.PeerID
	})
	if text, code := peers[0].check("--peers", "2"); code != exitOK {
		t.Errorf("exit code %d:\n%s", code, text)
	}
	if text, code := peers[0].check("--peers", "3"); code != exitFailed || !strings.Contains(text, "2 of the 3 expected peers are alive") {
		t.Errorf("a missing peer: exit code %d:\n%s", code, text)
	}
	eventually(t, "the peer that was started again is ready", func() bool {
		a := again.status()
		return a != nil && a.Ready && len(a.Peers) == 2
	})
	for range 40 { // until its former self is called failed, and longer
		time.Sleep(200 * time.Millisecond)
		if a := again.status(); a == nil || len(a.Peers) != 2 || a.Peers[1].State != "alive" {
			t.Fatalf("seen from the peer that was started again: %+v", a)
		}
	}
	again.stop()
	eventually(t, "who left is no row", func() bool {
		s := peers[0].status()
		return s != nil && len(s.Peers) == 1 && s.OK
	})
	peers[0].stop()
}

// closedPort is an address where nobody listens.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// peerNamed is the name that the peer gives the member at a mesh address.
func (p *process) peerNamed(address string) string {
	if s := p.status(); s != nil {
		for _, q := range s.Peers {
			if q.Address == address {
				return q.Name
			}
		}
	}
	p.t.Fatalf("no member at %s", address)
	return ""
}

// Seeds that do not answer, have no address, or have another key leave a peer
// alone: it says so, why, and what to do.
func TestAloneByMistakeIsTold(t *testing.T) {
	r := replicaProcess(t, "r0")
	serve := func(args ...string) *process {
		return launch(t, append([]string{
			"serve", "--http.listen", "127.0.0.1:0", "--admin.listen", "127.0.0.1:0", "--mesh.bind", "127.0.0.1:0", "--drain.delay", "100ms",
			"--replicas", fmt.Sprintf("[{name: r0, url: 'http://%s'}]", r.said["http"]),
		}, args...)...)
	}
	key := func() string {
		path, err := binary()
		if err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(path, "keygen").Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(out))
	}
	other := serve("--mesh.key", key())
	for name, c := range map[string]struct {
		p    *process
		says []string
	}{
		"nobody listens": {serve("--insecure-mesh", "--mesh.join", closedPort(t)), []string{"never reached a seed of mesh.join", "connection refused"}},
		"no such name":   {serve("--insecure-mesh", "--mesh.join", "no-such-host.invalid:7946"), []string{"never reached a seed of mesh.join", "no-such-host.invalid"}},
		"another key":    {serve("--mesh.key", key(), "--mesh.join", other.said["mesh"]), []string{"never reached a seed of mesh.join", "a different mesh key (mesh.keyring or mesh.key) or mesh.label"}},
	} {
		eventually(t, name+": it says that it is alone", func() bool {
			s := c.p.status()
			return s != nil && s.Alone()
		})
		c.p.evidence("seeds: " + name)
		text, code := c.p.check()
		text = strings.Join(strings.Fields(text), " ")
		for _, says := range c.says {
			if code != exitFailed || !strings.Contains(text, says) {
				t.Errorf("%s: exit code %d, no %q in:\n%s\n%s", name, code, says, text, c.p.errs)
			}
		}
		c.p.stop()
	}
	if s := other.status(); s == nil || s.Alone() {
		t.Errorf("who has no seeds is not alone by mistake: %+v", s)
	}
	other.stop()
}

// The three commonest wirings of events that hear nothing: a closed port, events
// and replay swapped, another machine's port. The verdict names the replica and
// the cure, once in the log, and a gauge is 0.
func TestEventsThatCannotBeHeardAreTold(t *testing.T) {
	r := replicaProcess(t, "r0")
	deaf := func(events, replay string) *process {
		return single(t, "--replicas", fmt.Sprintf("[{name: r0, url: 'http://%s', events: '%s', replay: '%s'}]", r.said["http"], events, replay))
	}
	for name, c := range map[string]struct {
		p    *process
		says string
	}{
		"closed port": {deaf("tcp://"+closedPort(t), r.said["replay"]), "connection refused"},
		"swapped":     {deaf(r.said["replay"], r.said["events"]), "swap `events` and `replay`"},
	} {
		p := c.p
		eventually(t, name+": the verdict tells", func() bool {
			s := p.status()
			return s != nil && !s.OK && s.Replicas[0].Unheard()
		})
		p.evidence("events: " + name)
		text, code := p.check()
		text = strings.Join(strings.Fields(text), " ")
		if code != exitFailed || !strings.Contains(text, "Events of r0 cannot be received") || !strings.Contains(text, c.says) {
			t.Errorf("%s: exit code %d, no %q in:\n%s", name, code, c.says, text)
		}
		eventually(t, name+": the gauge is 0", func() bool {
			raw, err := p.admin.call(t.Context(), http.MethodGet, "/metrics")
			return err == nil && strings.Contains(string(raw), `banyan_replica_events{replica="r0"} 0`)
		})
		eventually(t, name+": the log tells", func() bool { return strings.Contains(p.errs.String(), "KV events of a replica cannot be received") })
		p.stop()
		if n := strings.Count(p.errs.String(), "KV events of a replica cannot be received"); n != 1 {
			t.Errorf("%s: logged %d times, want once:\n%s", name, n, p.errs)
		}
	}
}

// What the engine itself binds, pasted, means the replica's own host.
func TestAWildcardOfTheEngineIsTheReplicasHost(t *testing.T) {
	r := replicaProcess(t, "r0")
	wild := strings.NewReplacer("127.0.0.1", "*")
	p := single(t, "--replicas", fmt.Sprintf("[{name: r0, url: 'http://%s', events: '%s', replay: '%s'}]", r.said["http"], wild.Replace(r.said["events"]), wild.Replace(r.said["replay"])))
	eventually(t, "its events are heard", func() bool {
		s := p.status()
		return s != nil && s.OK && s.Settled() && s.Replicas[0].Stream.State == "ok"
	})
	p.stop()
}
