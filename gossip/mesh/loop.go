package mesh

import (
	"errors"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/banyan-llm/banyan/gossip"
)

// viewEvery is how often the loop publishes what the core knows of its peers.
const viewEvery = 100 * time.Millisecond

// loop steps the core (I1): the most urgent event first, a tick when the core
// wants one.
func (m *Mesh) loop() {
	defer close(m.loopDone)
	timer := time.NewTimer(0)
	defer timer.Stop()
	var clock lead
	var shown time.Time
	var ticked int64 // ms; at most one tick each, whatever the core asks for
	for m.ctx.Err() == nil {
		before, wall := m.cfg.Now(), m.cfg.Clock()
		now := m.cfg.Now()
		if set, ok := clock.moved(before, wall, now); ok {
			m.log.Info("this host's clock jumped", "ahead_ms", set.AheadMs)
			m.step(now, set)
		}
		if now.Sub(shown) >= viewEvery {
			shown = now
			m.show()
		}
		it, ok := m.inbox.next()
		due := max(m.cfg.Core.NextTick(), ticked+1)
		switch {
		case !ok && now.UnixMilli() >= due:
			ticked = now.UnixMilli()
			m.step(now, gossip.Tick{})
		case !ok:
			m.idle(timer, now, due)
		case it.call != nil:
			it.call()
		default:
			m.step(now, it.ev)
		}
	}
}

// show publishes what the core knows of its peers.
func (m *Mesh) show() {
	m.view.Store(&view{at: m.cfg.Now(), links: m.cfg.Core.Links(nil)})
}

// idle waits for something to do, until due at most.
func (m *Mesh) idle(timer *time.Timer, now time.Time, due int64) {
	wait := time.Second
	if due-now.UnixMilli() < wait.Milliseconds() {
		wait = time.UnixMilli(due).Sub(now)
	}
	timer.Reset(wait)
	select {
	case <-timer.C:
	case <-m.inbox.wake:
	case <-m.ctx.Done():
	}
}

// step gives the core one event and does what it wants.
func (m *Mesh) step(now time.Time, ev gossip.Event) {
	if w, ok := ev.(gossip.Writable); ok {
		if l := m.link(w.Conn); l != nil {
			l.out.heard()
		}
	}
	for _, eff := range m.cfg.Core.Step(now.UnixMilli(), ev) {
		m.do(eff)
	}
}

// do carries out one effect; nothing here waits.
func (m *Mesh) do(eff gossip.Effect) {
	switch eff := eff.(type) {
	case gossip.Send:
		m.send(eff)
	case gossip.Dial:
		m.dial(eff)
	case gossip.Hangup:
		m.hangup(eff)
	case gossip.Refused:
		m.refused(eff)
	case gossip.Log:
		m.say(eff)
	default:
		m.cfg.Local(eff)
	}
}

// send queues a frame. A connection that has no room is ended: its frames are
// numbered, so none may be left out.
func (m *Mesh) send(s gossip.Send) {
	l := m.link(s.Conn)
	if l == nil {
		return
	}
	switch err := l.out.put(s.Data); {
	case err == nil:
		m.meter.out(s)
	case errors.Is(err, errFull):
		m.meter.ended.WithLabelValues("overflow").Inc()
		l.cut(err.Error())
	}
}

// hangup ends a connection the core wants no more of.
func (m *Mesh) hangup(h gossip.Hangup) {
	l := m.link(h.Conn)
	if l == nil {
		return
	}
	if strings.HasPrefix(h.Reason, rejectedFrame) {
		m.refusals.refuse(causeFrame, l.conn.RemoteAddr(), "reason", h.Reason)
	}
	m.meter.ended.WithLabelValues("core").Inc()
	l.hangup(h.Reason)
}

// rejectedFrame begins the core's reason for ending a connection whose remote
// does not keep to the protocol.
const rejectedFrame = "rejected frame"

// refused counts and logs a hello that the core does not accept; the core says
// so once per peer and cause.
func (m *Mesh) refused(r gossip.Refused) {
	args := []any{"name", m.roster.name(r.Peer), "peer", r.Peer.String(), "reason", r.Reason}
	if r.Detail != "" {
		args = append(args, "detail", r.Detail)
	}
	if l := m.link(r.Conn); l != nil {
		m.refusals.refuse(causeOf(r.Reason), l.conn.RemoteAddr(), args...)
		return
	}
	m.refusals.refuse(causeOf(r.Reason), nil, args...)
}

// say passes a line of the core on to the log. What peers can make it warn of
// is warned of once a second and message; the rest are debug lines.
func (m *Mesh) say(l gossip.Log) {
	level := hclog.LevelFromString(l.Level)
	switch {
	case level == hclog.NoLevel:
		level = hclog.Info
	case level >= hclog.Warn && !m.warned.first(l.Msg):
		level = hclog.Debug
	}
	m.log.Log(level, l.Msg, l.Args...)
}

func (m *Mesh) link(id gossip.Conn) *link {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.links[id]
}
