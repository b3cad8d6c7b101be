//go:build e2e

package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

// fault changes how a stand-in misbehaves.
func (p *process) fault(what string) {
	p.t.Helper()
	res, err := http.Post("http://"+p.said["http"]+"/standin/fault", "application/json", strings.NewReader(what))
	if err != nil {
		p.t.Fatal(err)
	}
	res.Body.Close()
}

// waitingAt is the replica that computes the only request in flight.
func waitingAt(t *testing.T, p *process) (name string) {
	t.Helper()
	eventually(t, "the request is in flight", func() bool {
		for _, r := range p.status().Replicas {
			if r.Inflight > 0 {
				name = r.Name
			}
		}
		return name != ""
	})
	return name
}

// freeze stops the process: its kernel keeps every connection.
func freeze(p *process) {
	_ = p.cmd.Process.Signal(syscall.SIGSTOP)
	p.t.Cleanup(func() { _ = p.cmd.Process.Signal(syscall.SIGCONT) })
}

// loseEngine makes it a server whose engine is gone: it says so, and keeps the
// connections that it has.
func loseEngine(p *process) { p.fault(`{"unhealthy":true,"stall_ms":600000}`) }

// What waits at a replica that went down is answered by another one, before and
// after its first byte.
func TestWhatWaitsAtADeadReplicaGoesElsewhere(t *testing.T) {
	t.Parallel() // it is a minute of waiting
	for _, stream := range []string{"", `,"stream":true`} {
		replicas, url, p := twoReplicas(t)
		for _, r := range replicas {
			r.fault(`{"latency_ms":600000}`)
		}
		got := make(chan string, 1)
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			body := `{"model":"m","messages":[{"role":"user","content":"Tell me a story."}],"max_tokens":3` + stream + `}`
			req, _ := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", strings.NewReader(body))
			req.Header.Set("Content-Type", "application/json")
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				got <- err.Error()
				return
			}
			defer res.Body.Close()
			_, err = io.ReadAll(res.Body)
			got <- fmt.Sprint(res.StatusCode, " ", res.Header.Get("X-Banyan-Replica"), " ", err)
		}()
		at := waitingAt(t, p)
		other := map[string]string{"r0": "r1", "r1": "r0"}[at]
		replicas[other].fault(`{"latency_ms":0}`)
		freeze(replicas[at])
		begin := time.Now()
		if text, want := <-got, "200 "+other+" <nil>"; text != want {
			t.Errorf("frozen%s: %s, want %s", stream, text, want)
		}
		t.Logf("frozen%s: answered %v later", stream, time.Since(begin))
	}
	for _, c := range []struct {
		name string
		end  func(*process)
	}{{"frozen", freeze}, {"without its engine", loseEngine}} {
		replicas, url, _ := twoReplicas(t)
		var begin time.Time
		const story = `{"model":"m","messages":[{"role":"user","content":"Tell me a story."}],"stream":true,"max_tokens":300}`
		h := follow(t, url, "/v1/chat/completions", story, nil, func(h *continued) {
			if len(h.pieces) == 3 {
				begin = time.Now()
				c.end(replicas[h.replica])
				late := time.AfterFunc(patience, func() { _ = replicas[h.replica].cmd.Process.Kill() }) // or the test waits for limits.idle
				t.Cleanup(func() { late.Stop() })
			}
		})
		if took := time.Since(begin); h.finish != "length" || !h.done || h.err != nil || took > patience {
			t.Errorf("%s: the stream ends with %q after %v, done %v, %v", c.name, h.finish, took, h.done, h.err)
		} else {
			t.Logf("%s: whole %v later", c.name, took)
		}
	}
}

// A replica that says it is not well and streams on loses nothing: it may drain.
func TestAReplicaThatIsDownAndStreamsKeepsItsStreams(t *testing.T) {
	replicas, url, p := twoReplicas(t, "--time-scale", ".5")
	const story = `{"model":"m","messages":[{"role":"user","content":"Tell me a story."}],"stream":true,"max_tokens":600}`
	h := follow(t, url, "/v1/chat/completions", story, nil, func(h *continued) {
		if len(h.pieces) == 3 {
			replicas[h.replica].fault(`{"unhealthy":true}`)
			eventually(t, "it is down", func() bool {
				for _, r := range p.status().Replicas {
					if r.Name == h.replica && r.State == "down" {
						return true
					}
				}
				return false
			})
		}
	})
	if h.finish != "length" || !h.done || h.err != nil || p.counted(`banyan_lost_streams_total{outcome="continued"}`) != 0 {
		t.Errorf("the stream ends with %q, done %v, %v", h.finish, h.done, h.err)
	}
}

// twoReplicas are a peer and what it knows.
func twoReplicas(t *testing.T, args ...string) (replicas map[string]*process, url string, p *process) {
	t.Helper()
	replicas = map[string]*process{"r0": replicaProcess(t, "r0", args...), "r1": replicaProcess(t, "r1", args...)}
	p = meshWith(t, 1, "limits: {continue_streams: true}\n", replicas["r0"], replicas["r1"])[0]
	return replicas, "http://" + p.said["http"], p
}
