//go:build e2e

package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// pdConfig is a mesh in front of prefill and decode replicas.
func pdConfig(mode string, prefill, decode []*process) string {
	var cfg strings.Builder
	fmt.Fprintf(&cfg, "mesh: {insecure: true}\ndrain: {delay: 300ms, timeout: 5s}\nrouting: {disaggregate: {mode: %s, tokens: 200}}\nreplicas:\n", mode)
	for role, list := range map[string][]*process{"prefill": prefill, "decode": decode} {
		for i, r := range list {
			fmt.Fprintf(&cfg, "- {name: %s%d, role: %s, url: %q, events: %q, replay: %q}\n",
				role, i, role, "http://"+r.said["http"], r.said["events"], r.said["replay"])
		}
	}
	return cfg.String()
}

// counted reads one series off a peer's metrics, all labels included in name.
func (p *process) counted(name string) (value int) {
	p.t.Helper()
	res, err := http.Get("http://" + p.said["admin"] + "/metrics")
	if err != nil {
		p.t.Fatal(err)
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(res.Body)
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			_, _ = fmt.Sscan(rest, &value)
		}
	}
	return value
}

func (p *process) inflight() (sum int) {
	if st := p.status(); st != nil {
		for _, r := range st.Replicas {
			sum += r.Inflight
		}
		return sum
	}
	return -1
}

// knowing waits until every peer knows the model of every replica.
func knowing(t *testing.T, peers []*process) []*process {
	t.Helper()
	eventually(t, "the models of all replicas are known", func() bool {
		for _, p := range peers {
			st := p.status()
			if st == nil {
				return false
			}
			for _, r := range st.Replicas {
				if len(r.Models) == 0 {
					return false
				}
			}
		}
		return true
	})
	return peers
}

func TestLongPromptsArePrefilledElsewhere(t *testing.T) {
	first := []*process{replicaProcess(t, "p0"), replicaProcess(t, "p1")}
	second := []*process{replicaProcess(t, "d0"), replicaProcess(t, "d1")}
	peers := knowing(t, meshFrom(t, 2, pdConfig("threshold", first, second)))

	talk := []message{{"system", strings.Repeat("Long and shared by all of them. ", 60)}, {"user", "Hello."}}
	const turns = 6
	for turn := range turns {
		talk = talk[:1:1]
		talk = append(talk, message{"user", strings.Repeat(fmt.Sprintf("Question %d of many. ", turn), 60)})
		replica, reply, cached := peers[turn%2].say(talk)
		if !strings.HasPrefix(replica, "decode") || reply == "" || cached == 0 {
			t.Errorf("turn %d: answered by %s with %d tokens brought over", turn, replica, cached)
		}
	}
	if replica, _, cached := peers[0].say([]message{{"user", "Short."}}); !strings.HasPrefix(replica, "decode") || cached != 0 {
		t.Errorf("a short prompt went to %s with %d tokens cached", replica, cached)
	}
	pairs, legs, short, reused := 0, 0, 0, 0
	for _, p := range peers {
		pairs += p.counted(`banyan_split_decisions_total{why="remote"}`)
		short += p.counted(`banyan_split_decisions_total{why="short"}`)
		legs += p.counted(`banyan_prefill_legs_total{outcome="answered"}`)
		reused += p.counted("banyan_cached_tokens_total")
	}
	if pairs != turns || legs != turns || short != 1 || reused == 0 {
		t.Errorf("%d pairs, %d prefill legs answered, %d short, %d tokens reused at prefill replicas", pairs, legs, short, reused)
	}
	eventually(t, "nothing is counted in", func() bool { return peers[0].inflight() == 0 && peers[1].inflight() == 0 })

	for _, p := range first { // the prefill pool dies: decode replicas do it all
		_ = p.cmd.Process.Kill()
	}
	for turn := range 4 {
		talk[1].Content = strings.Repeat(fmt.Sprintf("Afterwards %d. ", turn), 100)
		if replica, _, _ := peers[turn%2].say(talk); !strings.HasPrefix(replica, "decode") {
			t.Errorf("answered by %s", replica)
		}
	}
	for _, p := range peers {
		p.stop()
	}
}

func TestConditionalModeServesWholeWhileIdle(t *testing.T) {
	peers := knowing(t, meshFrom(t, 1, pdConfig("conditional", []*process{replicaProcess(t, "p0")}, []*process{replicaProcess(t, "d0")})))
	talk := []message{{"user", strings.Repeat("Nobody else is here. ", 200)}}
	if replica, _, _ := peers[0].say(talk); replica != "decode0" {
		t.Errorf("answered by %s", replica)
	}
	if n := peers[0].counted(`banyan_split_decisions_total{why="sooner"}`); n != 1 {
		t.Errorf("counted %d times", n)
	}
	peers[0].stop()
}

// TestTRTLLMPairs: context and generation servers answer together what one
// alone answers, and alone once the context servers are dead.
func TestTRTLLMPairs(t *testing.T) {
	trtllm := func(name string) *process {
		return launch(t, "replica", "--name", name, "--listen", "127.0.0.1:0", "--events", "", "--replay", "", "--model", "m", "--engine", "trtllm")
	}
	first, second := trtllm("c0"), trtllm("g0")
	cfg := "mesh: {insecure: true}\ndrain: {delay: 300ms, timeout: 5s}\nrouting: {disaggregate: {mode: threshold, tokens: 200}}\nreplicas:\n"
	for role, r := range map[string]*process{"prefill": first, "decode": second} {
		cfg += fmt.Sprintf("- {name: %s0, role: %s, engine: trtllm, url: %q}\n", role, role, "http://"+r.said["http"])
	}
	peer := knowing(t, meshFrom(t, 1, cfg))[0]
	talk := []message{{"user", strings.Repeat("A prompt that is long enough. ", 60)}}
	replica, together, cached := peer.say(talk)
	if replica != "decode0" || cached == 0 || together == "" {
		t.Errorf("answered by %s with %d tokens brought over", replica, cached)
	}
	if n := peer.counted(`banyan_prefill_legs_total{outcome="answered"}`); n != 1 {
		t.Errorf("%d context legs", n)
	}
	_ = first.cmd.Process.Kill()
	if replica, alone, _ := peer.say(talk); replica != "decode0" || alone != together {
		t.Errorf("%s answers alone %q, and together %q", replica, alone, together)
	}
	peer.stop()
}
