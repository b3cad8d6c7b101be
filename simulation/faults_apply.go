package simulation

import (
	"time"

	"github.com/banyan-llm/banyan/gossip"
	"github.com/banyan-llm/banyan/router/load"
)

// begin lets a fault happen and plans its end.
func (r *faultRun) begin(f Fault) {
	if r.healed {
		return
	}
	r.trace("----", "%s", f)
	r.injected[f.Verb]++
	if undo := r.apply(f); undo != nil && f.For > 0 {
		over := false
		end := func() {
			if !over {
				over = true
				undo()
			}
		}
		r.undo = append(r.undo, end)
		r.after(f.For.Milliseconds(), func() {
			if !over {
				r.trace("----", "over: %s", f)
			}
			end()
		})
	} else if undo != nil {
		r.undo = append(r.undo, undo)
	}
}

// apply does what a fault says and returns what takes it back; nil if it
// passes by itself.
func (r *faultRun) apply(f Fault) (undo func()) {
	slot, other, target := peerSlot(f.Peer), peerSlot(f.Other), replicaSlot(f.Target)
	if slot >= len(r.peers) || other >= len(r.peers) {
		return nil // joins later than this
	}
	switch f.Verb {
	case "cut":
		return r.cutFault(f, slot, other)
	case "sever":
		r.severed = append(r.severed, f)
		r.cutFault(f, slot, other)
	case "break":
		r.net.breakPipes(func(x, y *faultPeer) bool { return x.slot == slot && y.slot == other })
	case "slow":
		r.net.slow[slot] = f.Factor
		return func() { delete(r.net.slow, slot) }
	case "stall":
		return r.stall(r.peers[slot])
	case "kill":
		return r.kill(slot, f.For > 0)
	case "drain":
		r.drain(r.peers[slot])
	case "join":
		r.boot(len(r.peers))
	case "suspect":
		return r.suspect(slot, other, f)
	case "skew":
		return r.skew(slot, f.Skew.Milliseconds())
	case "restart":
		r.restarts++
		r.engines[target].process().restart(f.For.Milliseconds())
	case "become":
		r.engines[target].process().become(f.Habit)
	case "half":
		return r.halve(r.engines[target])
	case "clears":
		r.engines[target].process().clearAgain(int(f.Factor))
	case "depart":
		r.depart(r.engines[target])
	case "twice":
		r.twice(r.engines[target].process(), r.engines[replicaSlot(f.Other)])
	case "rotate":
		r.rotate()
	case "relist":
		return r.relist(r.engines[target])
	case "choke":
		return r.choke(slot, other)
	case "clock":
		r.engines[target].process().clock += f.Skew.Milliseconds()
	case "drop-events":
		r.engines[target].dropped = f.Factor
		return func() { r.engines[target].dropped = 0 }
	case "repeat-events":
		r.engines[target].repeated = f.Factor
		return func() { r.engines[target].repeated = 0 }
	case "lose":
		r.loseHastily(r.engines[target])
	}
	return nil
}

func (r *faultRun) cutFault(f Fault, slot, other int) func() {
	if t := replicaSlot(f.Other); other < 0 && t >= 0 {
		e := r.engines[t]
		e.cutOff[slot]++
		return func() {
			e.cutOff[slot]--
			if fl := r.peers[slot].follows[e.stream]; fl != nil && e.cutOff[slot] == 0 {
				fl.disconnect()
			}
		}
	}
	r.cutPeers(f, 1)
	return func() { r.cutPeers(f, -1) }
}

func (r *faultRun) cutPeers(f Fault, by int) {
	r.net.cut(peerSlot(f.Peer), peerSlot(f.Other), by)
	if !f.OneWay {
		r.net.cut(peerSlot(f.Other), peerSlot(f.Peer), by)
	}
}

// mend takes severed links back unless those that stay in the mesh are all at
// most one other peer apart.
func (r *faultRun) mend() {
	if len(r.severed) == 0 {
		return
	}
	apart := false
	for _, x := range r.live() {
		for _, y := range r.live() {
			apart = apart || x != y && !x.draining && !y.draining && !r.reach(x, y)
		}
	}
	if !apart {
		return
	}
	for _, f := range r.severed {
		r.cutPeers(f, -1)
	}
	r.severed = nil
}

func (r *faultRun) stall(p *faultPeer) func() {
	if !p.alive || p.stalled {
		return nil
	}
	p.stalled = true
	return func() {
		if p.stalled {
			p.resume()
		}
	}
}

// kill ends a peer at once, unless it is the last one.
func (r *faultRun) kill(slot int, back bool) func() {
	p := r.peers[slot]
	if !p.alive || len(r.live()) < 2 {
		return nil
	}
	r.trace(p.name, "is gone")
	p.end()
	if !back {
		return nil
	}
	return func() { r.boot(slot) }
}

// end stops a peer; its connections end.
func (p *faultPeer) end() {
	p.alive, p.died, p.backlog = false, p.run.now, nil
	p.run.net.breakPipes(func(x, _ *faultPeer) bool { return x == p })
}

// drain lets a peer serve what it has and leave.
func (r *faultRun) drain(p *faultPeer) {
	if !p.alive || p.draining || len(r.live()) < 2 {
		return
	}
	p.draining, p.ready = true, false
	r.every(100, func() bool {
		if p.alive && p.requests == 0 && !p.stalled {
			r.trace(p.name, "leaves")
			p.left = true
			p.end()
		}
		return p.alive
	})
}

func (r *faultRun) suspect(slot, other int, f Fault) func() {
	s := r.peers[slot].sees[other]
	if s == nil {
		return nil
	}
	s.suspectTo = r.now + max(f.For.Milliseconds(), membersMs+1)
	return func() { s.suspectTo = r.now }
}

// skew sets a slot's clock, of whoever is in it then too.
func (r *faultRun) skew(slot int, ms int64) func() {
	set := func(v int64) {
		r.skews[slot] = v
		r.peers[slot].setClock(v)
	}
	set(ms)
	return func() { set(0) }
}

// loseHastily lets an owner declare its holes lost, asking nobody.
func (r *faultRun) loseHastily(e *faultEngine) {
	for _, p := range r.live() {
		if f := p.follows[e.stream]; f != nil && !p.stalled {
			if d, ok := p.index.Digest(e.stream); ok {
				p.lose([]gossip.Loss{{Stream: e.stream, Epoch: d.Context.Epoch, Spans: p.index.Holes(e.stream)}}, p.now())
			}
			return
		}
	}
}

// traffic lets peers dispatch requests, for as long as the faults last.
func (r *faultRun) traffic() {
	if r.healed {
		return
	}
	live := r.live()
	if len(live) == 0 {
		r.after(10, r.traffic) // all are down at once
		return
	}
	p := live[r.rng.IntN(len(live))]
	if e := r.engines[r.rng.IntN(len(r.engines))]; !p.stalled && !p.draining && p.lists[e.stream] {
		r.request(p, e)
	}
	if r.rng.IntN(40) == 0 && !p.stalled {
		p.loads.SetIntent(r.engines[0].stream, r.rng.IntN(2) == 0, p.wall())
		p.step(gossip.IntentChanged{})
	}
	r.after(10+r.rng.Int64N(60), r.traffic)
}

// request books one request's life: dispatch, first token, end.
func (r *faultRun) request(p *faultPeer, e *faultEngine) {
	chain := &r.library.prompts[r.rng.IntN(len(r.library.prompts))]
	p.requests++
	cost, sent := &load.Cost{Replica: e.stream, Prefill: .1, Tokens: 100, Blocks: int64(len(chain.keys))}, p.now()
	p.loads.Dispatch(cost, sent)
	p.step(gossip.LoadChanged{Urgent: true})
	p.index.Predict(e.stream, r.library.chain(chain), p.now())
	p.step(gossip.Predicted{})
	first, last := 20+r.rng.Int64N(200), r.rng.Int64N(2_000)
	r.after(first, func() {
		p.do(func() {
			p.loads.FirstToken(cost, p.now())
			p.step(gossip.LoadChanged{})
			r.after(last, func() {
				p.do(func() {
					p.loads.Done(cost, time.Duration(p.now()-sent)*time.Millisecond, 0, 0)
					p.step(gossip.LoadChanged{})
					p.requests--
				})
			})
		})
	})
}
