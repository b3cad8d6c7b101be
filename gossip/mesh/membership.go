package mesh

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/hashicorp/serf/serf"

	"github.com/banyan-llm/banyan/gossip"
)

// retransmitMult is how many times each member passes a piece of news on, times
// the decimal places of their number. News goes to members drawn at random, so
// some may never be drawn: with memberlist's 4, of eight members one in twenty
// pieces misses somebody, who then hears of it by the next exchange of states;
// with 8 it is one in three thousand.
const retransmitMult = 8

// serfConfig is the LAN profile without what this mesh does not use:
// snapshots on disk, user events, coordinates.
func serfConfig(cfg *Config, t *transport, ring *memberlist.Keyring, logger *log.Logger, events chan<- serf.Event) *serf.Config {
	c := serf.DefaultConfig()
	c.NodeName = nodeName(cfg)
	c.Tags = tagsOf(cfg, &word{})
	c.EventCh = events
	c.EventBuffer = 16
	c.QueryBuffer = 64
	c.LogOutput = nil
	c.Logger = logger
	c.DisableCoordinates = true
	c.BroadcastTimeout = 2 * time.Second
	c.LeavePropagateDelay = time.Second
	c.ReconnectTimeout = cfg.Timing.ReapAfter
	c.TombstoneTimeout = cfg.Timing.ReapAfter
	c.ReapInterval = min(c.ReapInterval, cfg.Timing.ReapAfter)

	m := memberlist.DefaultLANConfig()
	m.Transport = t
	m.Label = cfg.Label
	m.Keyring = ring
	m.LogOutput = nil
	m.Logger = logger
	m.TCPTimeout = 5 * time.Second
	m.RetransmitMult = retransmitMult
	m.PushPullInterval = 10 * time.Second
	m.EnableCompression = false // of packets of some hundred bytes: a tenth of what 64 peers take to meet
	c.MemberlistConfig = m
	if cfg.tune != nil {
		cfg.tune(c)
	}
	return c
}

// members passes serf's events on. It never waits, so that serf, which sends
// them under a lock, does not either.
func (m *Mesh) members(events <-chan serf.Event, down <-chan struct{}) {
	for {
		select {
		case ev := <-events:
			if me, ok := ev.(serf.MemberEvent); ok {
				m.memberEvent(me)
			}
		case <-down:
			return
		}
	}
}

func (m *Mesh) memberEvent(ev serf.MemberEvent) {
	for _, sm := range ev.Members {
		if ev.Type == serf.EventMemberReap {
			m.roster.reap(sm.Name)
			continue
		}
		p, err := memberOf(sm)
		if err != nil {
			m.refusals.refuse(causeMember, nil, "node", printable(sm.Name, 2*maxNodeName), "err", err)
			continue
		}
		if ev.Type == serf.EventMemberFailed && p.ID != m.cfg.PeerID {
			m.log.Warn("peer failed: the others take over its event subscriptions", "name", p.Name, "peer", p.ID.String(), "addr", p.Addr)
		}
		m.memberChanged(sm.Name, p, stateOf(ev.Type))
	}
	n, _ := m.roster.live("")
	m.meter.peers.Set(float64(n))
	if n > 1 {
		m.met.Store(true)
	}
	m.cfg.OnChange()
}

func stateOf(t serf.EventType) MemberState {
	switch t {
	case serf.EventMemberLeave:
		return Left
	case serf.EventMemberFailed:
		return Failed
	}
	return Alive
}

// memberChanged tells the roster, and the core unless it is about itself.
func (m *Mesh) memberChanged(node string, p Member, state MemberState) {
	m.roster.apply(node, p, state, m.cfg.Now())
	if p.ID == m.cfg.PeerID {
		return
	}
	if state == Alive {
		m.inbox.membership(p.ID, gossip.MemberUp{Peer: p.ID, Name: p.Name, Ready: p.Ready, Draining: p.Draining})
		return
	}
	m.inbox.membership(p.ID, gossip.MemberDown{Peer: p.ID, Left: state == Left})
	if state == Failed {
		select {
		case m.lost <- struct{}{}:
		default:
		}
	}
}

// tags keeps serf's tags equal to what SetTags said last.
func (m *Mesh) tags(ctx context.Context) {
	for {
		select {
		case <-m.retag:
		case <-ctx.Done():
			return
		}
		say := m.said()
		if err := m.serf.SetTags(tagsOf(&m.cfg, &say)); err != nil {
			m.log.Warn("could not publish whether this peer is ready or draining, and how it is configured: the other peers go on with what they know", "err", err)
		}
	}
}

// SetTags tells all peers by membership whether this one is ready, whether it
// drains, and what it was configured with: at most 64 bytes, printable, which
// others get as Member.Settings. It returns at once; only the latest word is
// told.
func (m *Mesh) SetTags(ready, draining bool, settings string) {
	say := word{ready, draining, settings}
	m.tagMu.Lock()
	same := m.word == say
	m.word = say
	m.tagMu.Unlock()
	if same {
		return
	}
	select {
	case m.retag <- struct{}{}:
	default:
	}
}

func (m *Mesh) said() word {
	m.tagMu.Lock()
	defer m.tagMu.Unlock()
	return m.word
}

// Leave says goodbye: the others drop this peer's load at once and do not call
// it failed. It takes about a second, 5 s at most where nobody answers; Close
// follows. A peer that knows of no other has nobody to say it to: nil at once.
func (m *Mesh) Leave() error {
	m.mu.Lock()
	s, open := m.serf, m.state == running
	if open {
		m.leaving.Add(1)
		defer m.leaving.Done()
	}
	m.mu.Unlock()
	if !open {
		return ErrClosed
	}
	if m.alone() {
		return nil
	}
	if err := s.Leave(); err != nil {
		return fmt.Errorf("leave mesh: %w", err)
	}
	return nil
}
