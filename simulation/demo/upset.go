package demo

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/banyan-llm/banyan/simulation/client"
)

// upset kills one peer and joins a fresh one while traffic runs.
type upset struct {
	s        *stage
	killAt   int // requests begun
	joinAt   int
	killOnce sync.Once
	joinOnce sync.Once
	wg       sync.WaitGroup

	mu     sync.Mutex // guards below
	killed *child
	report KilledPeer
	joined JoinedPeer
	err    error
}

func newUpset(s *stage, requests int) *upset {
	return &upset{s: s, killAt: requests * 35 / 100, joinAt: requests * 55 / 100}
}

// sent watches how far the traffic is. It does not block.
func (u *upset) sent(done, _ int) {
	if done >= u.killAt {
		u.killOnce.Do(func() { u.wg.Go(u.kill) })
	}
	if done >= u.joinAt {
		u.joinOnce.Do(func() { u.wg.Go(u.join) })
	}
}

// kill ends the youngest peer with SIGKILL and waits until the rest agree.
func (u *upset) kill() {
	ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
	defer cancel()
	s := u.s
	s.mu.Lock()
	victim := s.peers[len(s.peers)-1]
	s.peers = slices.Delete(s.peers, len(s.peers)-1, len(s.peers))
	s.mu.Unlock()
	s.say("  killing peer %s with SIGKILL", victim.name)
	u.mu.Lock()
	u.killed = victim
	u.mu.Unlock()
	at := time.Now()
	victim.kill()
	err := s.waitFor(ctx, readyTimeout, "the others count the killed peer as failed", func() bool {
		sts := s.statuses(ctx)
		for _, st := range sts {
			for _, p := range st.Peers {
				if p.Name == victim.name && p.State == "alive" {
					return false
				}
			}
		}
		return len(sts) > 0
	})
	u.mu.Lock()
	defer u.mu.Unlock()
	u.report.Name = victim.name
	u.report.ReconvergedMs = ms(time.Since(at))
	u.fail(err)
}

// join starts a fresh peer and measures how long it takes to be ready.
func (u *upset) join() {
	ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
	defer cancel()
	at := time.Now()
	c, err := u.s.addPeer(ctx)
	if err != nil {
		u.mu.Lock()
		u.fail(err)
		u.mu.Unlock()
		return
	}
	u.s.say("  joining peer %s", c.name)
	var facts uint64
	err = u.s.waitFor(ctx, readyTimeout, "the fresh peer is ready", func() bool {
		st, err := u.s.status(ctx, c)
		if err != nil || !st.Ready {
			return false
		}
		facts = st.Tree.Facts
		return true
	})
	u.mu.Lock()
	defer u.mu.Unlock()
	u.fail(err)
	if err == nil {
		u.joined = JoinedPeer{Name: c.name, ReadyMs: ms(time.Since(at)), Facts: facts}
	}
}

// fail keeps the first error. Called with mu held.
func (u *upset) fail(err error) {
	if u.err == nil {
		u.err = err
	}
}

// excused reports whether a failed request is a stream of the killed peer that
// was cut after its first byte.
func (u *upset) excused(a client.Answer) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return a.Err != nil && a.Began && u.killed != nil && a.Peer == u.killed.name
}

// finish waits for what was begun and writes its part of the report.
func (u *upset) finish(r *Report, answers []client.Answer) error {
	u.wg.Wait()
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.err != nil {
		return u.err
	}
	for i, a := range answers {
		if a.Err == nil || u.killed == nil || a.Peer != u.killed.name {
			continue
		}
		if a.Began {
			u.report.InFlightLost++
			u.report.Lost = append(u.report.Lost, fmt.Sprintf("request %d through %s at %s, after %d characters", i, a.Peer, a.Replica, len(a.Text)))
		} else {
			u.report.RequestsFailed++
		}
	}
	r.KilledPeer, r.JoinedPeer = u.report, u.joined
	return nil
}
