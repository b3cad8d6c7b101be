package simulation

import (
	"testing"
	"time"
)

// A process of an engine that tells no start time keeps its name, and the mesh all
// it knows of it, when its owners change, however seldom it says something
// (property 28).
func TestOneName(t *testing.T) {
	const gapMs = 12_000
	for _, c := range []struct {
		name   string
		peers  int
		change func(r *faultRun, owner *faultPeer)
	}{
		{"an owner dies", 3, func(r *faultRun, owner *faultPeer) { r.kill(owner.slot, false) }},
		{"an owner drains", 3, func(r *faultRun, owner *faultPeer) { r.drain(owner) }},
		{"an owner's connection ends", 3, func(r *faultRun, owner *faultPeer) { owner.follows[r.engines[0].stream].disconnect() }},
		{"two that join own it all", 1, func(r *faultRun, _ *faultPeer) { r.boot(1); r.boot(2) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			for seed := range uint64(6) {
				r := quiet(t, FaultConfig{Seed: seed, Peers: c.peers, Replicas: 1, startless: []bool{true}, NoTraffic: true})
				e := r.engines[0]
				e.calm = true
				say := func(n int) {
					for range n {
						e.emit()
						r.runUntil(r.now + gapMs)
					}
				}
				say(3)
				before, _ := r.live()[0].index.Digest(e.stream)
				owner := r.live()[0]
				for _, p := range r.live() {
					if p.follows[e.stream] != nil {
						owner = p
					}
				}
				c.change(r, owner)
				say(10)
				settle(t, r, 10*time.Second)
				d, _ := r.live()[0].index.Digest(e.stream)
				c, first := &d.Context, before.Context.Anchor
				if len(e.said) != 1 || c.Anchor != first || c.Floor != uint64(len(e.log())) || len(c.Voids) > 0 {
					t.Errorf("seed %d, a replay of %d: %d names, and of slots %d to %d this is known: %+v", seed, e.replay, len(e.said), first, len(e.log()), *c)
				}
			}
		})
	}
}
