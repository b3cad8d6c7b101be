//go:build e2e

package main

import (
	"fmt"
	"testing"
	"time"
)

// A replica that is restarted with another model gets no request for the one that it
// had: neither while requests run nor after a pause, in which nobody sees it down.
func TestAReplicaRestartedWithAnotherModel(t *testing.T) {
	for name, pause := range map[string]time.Duration{"under load": 0, "unseen": 3 * time.Second} {
		t.Run(name, func(t *testing.T) {
			address, events, replay := freePort(t), "tcp://"+freePort(t), "tcp://"+freePort(t)
			start := func(model string) *process {
				return launch(t, "replica", "--name", "r0", "--listen", address, "--events", events, "--replay", replay, "--model", model)
			}
			r0, r1 := start("m"), replicaProcess(t, "r1")
			p := single(t, "--policy", "round_robin", "--replicas", fmt.Sprintf("[{name: r0, url: 'http://%s'}, {name: r1, url: 'http://%s'}]", address, r1.said["http"]))
			eventually(t, "both replicas are known, and an event of r0 came", func() bool {
				p.streamed(1)
				p.streamed(2)
				s := p.status()
				return s != nil && len(s.Replicas) == 2 && s.Replicas[0].Engine != "unknown" && s.Replicas[1].Engine != "unknown" && s.Replicas[0].Stream.Epoch > 0
			})
			failed := 0
			ask := func(n int) {
				for i := range n {
					if !p.streamed(100 + i) {
						failed++
					}
				}
			}
			_ = r0.cmd.Process.Kill()
			<-r0.done
			if pause == 0 {
				ask(10) // they meet a closed port
			}
			start("n")
			time.Sleep(pause) // an epoch is told within its reconnection
			ask(60)
			t.Logf("%d of the 60 requests after the restart failed", failed)
			if failed > 0 {
				t.Errorf("%d requests failed", failed)
			}
			p.stop()
		})
	}
}
