//go:build e2e

package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/banyan-llm/banyan/router/console"
)

// said runs a subcommand and returns what it said and its exit code.
func said(t *testing.T, args ...string) (text string, code int) {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = &out, &out
	_ = cmd.Run()
	return strings.Join(strings.Fields(out.String()), " "), cmd.ProcessState.ExitCode()
}

// single starts a peer with no key and these flags.
func single(t *testing.T, args ...string) *process {
	t.Helper()
	return launch(t, append([]string{
		"serve", "--insecure-mesh", "--http.listen", "127.0.0.1:0", "--admin.listen", "127.0.0.1:0", "--mesh.bind", "127.0.0.1:0", "--drain.delay", "100ms",
	}, args...)...)
}

// Peers of one label and key that must not talk to each other say on both sides
// what differs.
func TestPeersThatDifferSayWhatDiffers(t *testing.T) {
	r := replicaProcess(t, "r0")
	replicas := fmt.Sprintf("[{name: r0, url: 'http://%s'}]", r.said["http"])
	a := single(t, "--replicas", replicas)
	b := single(t, "--replicas", replicas, "--mesh.join", a.said["mesh"], "--grid", "32", "--limits.predictions", "1000")
	for name, c := range map[string]struct {
		p    *process
		says string
	}{"a": {a, "its grid is 32, here it is 16"}, "b": {b, "its grid is 16, here it is 32"}} {
		eventually(t, name+" says that they differ", func() bool {
			s := c.p.status()
			return s != nil && len(s.Peers) == 2 && s.Peers[1].Refused != ""
		})
		c.p.evidence("another grid and limits.predictions, seen from " + name)
		text, code := said(t, "status", "--peer", c.p.said["admin"], "--check")
		for _, says := range []string{"refuse each other", c.says, "a different limits.predictions", "only 1 of 2 peers is alive and of this mesh: 1 refused"} {
			if code != exitFailed || !strings.Contains(text, says) {
				t.Errorf("%s: exit code %d, no %q in:\n%s", name, code, says, text)
			}
		}
		if scraped := adminGet(t, "http://"+c.p.said["admin"]+"/metrics"); !strings.Contains(scraped, "\nbanyan_mesh_refused_peers 1\n") {
			t.Errorf("%s: the refused peer is not measured", name)
		}
		if strings.Contains(text, "look at its CPU") {
			t.Errorf("%s: blames the CPU:\n%s", name, text)
		}
	}
	b.stop()
	a.stop()
	for _, p := range []*process{a, b} {
		if !strings.Contains(p.errs.String(), "a different limits.predictions") {
			t.Errorf("the log does not say what differs:\n%s", p.errs)
		}
	}
}

// An engine that dials one of the peers is heard by all, and its stream says so;
// a topic that names nobody is told.
func TestAnEngineThatDialsIsTold(t *testing.T) {
	address, hub := freePort(t), "tcp://"+freePort(t)
	r := launch(t, "replica", "--name", "r0", "--listen", address, "--model", "m", "--events", hub, "--events-dial", "--replay", "", "--topic", "kv@"+address+"@m")
	stranger := launch(t, "replica", "--name", "r1", "--listen", "127.0.0.1:0", "--model", "m", "--events", hub, "--events-dial", "--replay", "", "--topic", "kv@nowhere@m")
	replicas := fmt.Sprintf("[{name: r0, url: 'http://%s'}, {name: r1, url: 'http://%s'}]", address, stranger.said["http"])
	a := single(t, "--replicas", replicas, "--ingest.listen", hub, "--policy", "round_robin")
	b := single(t, "--replicas", replicas, "--mesh.join", a.said["mesh"], "--ingest.listen", "tcp://"+freePort(t))
	stream := func(p *process, i int) console.Stream {
		if s := p.status(); s != nil && len(s.Peers) == 2 {
			return s.Replicas[i].Stream
		}
		return console.Stream{}
	}
	eventually(t, "both wait for a first event, which is no trouble", func() bool {
		return stream(a, 0).State == "idle" && stream(b, 0).State == "idle" && a.status().Ready && b.status().Ready
	})
	for i := 0; stream(a, 0).State != "ok" || stream(b, 0).State != "ok"; i++ {
		if i > 200 {
			t.Fatalf("events flow and the streams are %+v and %+v", stream(a, 0), stream(b, 0))
		}
		a.say([]message{{"user", strings.Repeat(fmt.Sprintf("Question %d. ", i), 40)}})
		time.Sleep(50 * time.Millisecond)
	}
	eventually(t, "the stranger's topic is told", func() bool {
		a.say([]message{{"user", strings.Repeat("Another question. ", 40)}})
		text, _ := said(t, "status", "--peer", a.said["admin"], "--check")
		return strings.Contains(text, `the last with the topic "kv@nowhere@m"`)
	})
	r.stop()
	b.stop()
	a.stop()
}

// Draining warns before the last replica of a model, and waits for what runs.
func TestDrainingIsSafe(t *testing.T) {
	peers := meshOf(t, 2, replicaProcess(t, "r0"), replicaProcess(t, "r1"))
	admin := peers[0].said["admin"]
	if text, code := said(t, "drain", "--peer", admin, "--wait", "30s", "r0"); code != exitOK || !strings.Contains(text, "r0 is drained: no peer") || !strings.Contains(text, "nothing is in flight at r0") {
		t.Errorf("exit code %d: %s", code, text)
	}
	eventually(t, "the other peer knows", func() bool {
		s := peers[1].status()
		return s != nil && s.Replicas[0].State == "draining"
	})
	for range 10 {
		for _, p := range peers {
			if to, _, _ := p.say([]message{{"user", "Hello."}}); to != "r1" {
				t.Errorf("a request went to %s", to)
			}
		}
	}
	if text, code := said(t, "drain", "--peer", admin, "r1"); code != exitFailed || !strings.Contains(text, "not drained: r1 is the only replica left for m") || !strings.Contains(text, "--force") {
		t.Errorf("the last one: exit code %d: %s", code, text)
	}
	if text, code := said(t, "status", "--peer", admin, "--check"); code != exitOK || !strings.Contains(text, "√ drained, gets no new requests: r0") {
		t.Errorf("exit code %d: %s", code, text)
	}
	if text, code := said(t, "drain", "--peer", admin, "--force", "r1"); code != exitOK || !strings.Contains(text, "r1 is drained, but it is the only replica left for m and keeps getting its requests") {
		t.Errorf("exit code %d: %s", code, text)
	}
	peers[0].say([]message{{"user", "Hello."}}) // no other can take it
	eventually(t, "the check says so", func() bool {
		text, code := said(t, "status", "--peer", admin, "--check")
		return code == exitFailed && strings.Contains(text, "no other replica serves m, so its requests still go there") && strings.Contains(text, "banyan undrain r0")
	})
	for _, p := range peers {
		p.stop()
	}
}

// modelsOf is what a peer says that it serves.
func modelsOf(t *testing.T, p *process) string {
	t.Helper()
	res, err := http.Get("http://" + p.said["http"] + "/v1/models")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(res.Body)
	return string(text)
}

// Replicas that cannot do what is asked of them are told, by the reason, and get
// no requests; a request that names no model is told which there are.
func TestReplicasThatCannotServeAreTold(t *testing.T) {
	page := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(page.Close)
	m, other := replicaProcess(t, "r0"), fakeEngine(t, false, "other")
	peer := single(t, "--replicas", fmt.Sprintf("[{name: r0, url: 'http://%s'}]", m.said["http"]))
	listed := func(format string, args ...any) *process {
		return single(t, "--replicas", "[{name: r0, "+fmt.Sprintf(format, args...)+"}]")
	}
	for name, c := range map[string]struct {
		p    *process
		says string
	}{
		"another model":   {listed("url: 'http://%s', model: x", m.said["http"]), "r0 gets no requests: model: is x, but the server there serves m"},
		"no LLM server":   {listed("url: '%s'", page.URL), "r0 gets no requests: no LLM server answers there: /v1/models answers 404"},
		"a Banyan peer":   {listed("url: 'http://%s'", peer.said["http"]), "r0 gets no requests: a Banyan peer answers there, not an inference server"},
		"nobody is there": {listed("url: 'http://%s'", closedPort(t)), "r0 is down: connection refused"},
	} {
		eventually(t, name+": the verdict tells", func() bool {
			text, code := c.p.check()
			return code == exitFailed && strings.Contains(strings.Join(strings.Fields(text), " "), c.says)
		})
		c.p.evidence("replica: " + name)
		for _, model := range []string{"x", "m", ""} { // m is what is served there
			if _, status := c.p.askFor(model, ""); status < 400 {
				t.Errorf("%s: answers %d to a request for %q", name, status, model)
			}
		}
		if list := modelsOf(t, c.p); strings.Contains(list, `"id":"m"`) {
			t.Errorf("%s: lists the model: %s", name, list)
		}
		c.p.stop()
	}

	apart := single(t, "--routing.disaggregate.mode", "threshold", "--replicas", fmt.Sprintf("[{name: r0, url: 'http://%s'}]", m.said["http"]))
	const missing = "routing.disaggregate.mode is threshold and no replica has role: prefill nor role: decode"
	eventually(t, "roles without a replica are told", func() bool {
		text, code := apart.check()
		return code == exitFailed && strings.Contains(strings.Join(strings.Fields(text), " "), missing) && strings.Contains(apart.errs.String(), missing)
	})
	apart.evidence("prefill and decode apart without their roles")
	if text := adminGet(t, "http://"+apart.said["admin"]+"/metrics"); !strings.Contains(text, `banyan_role_replicas_up{role="prefill"} 0`) {
		t.Error("the missing role is not measured")
	}
	apart.stop()

	two := single(t, "--replicas", fmt.Sprintf("[{name: r0, url: 'http://%s'}, {name: r1, url: '%s'}]", m.said["http"], other))
	eventually(t, "who names no model is told which there are", func() bool {
		res, err := http.Post("http://"+two.said["http"]+"/v1/chat/completions", "application/json", strings.NewReader(`{"messages":[{"role":"user","content":"x"}]}`))
		if err != nil {
			return false
		}
		defer res.Body.Close()
		text, _ := io.ReadAll(res.Body)
		return res.StatusCode == http.StatusBadRequest && strings.Contains(string(text), "several are served: m, other")
	})
	two.stop()
}
