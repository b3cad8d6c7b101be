package kvevents

import (
	"context"
	"time"

	"github.com/banyan-llm/banyan/router/kvevents/follow"
)

// Times of asking an engine when its process started.
const (
	askTimeout  = 2 * time.Second
	askAgain    = 100 * time.Millisecond // after no answer, doubled each time
	askAgainMax = 2 * time.Second
)

// identity is an engine's answer to who is at the other end of a connection.
type identity struct {
	conn  uint64
	start uint64
}

// ask asks the engine when its process started, until it answers or the
// connection is another one. Batches wait meanwhile.
func (s *Subscriber) ask(ctx context.Context) {
	s.asking()
	if s.cfg.Start == nil {
		s.step(ctx, follow.Identified{}, time.Now())
		return
	}
	ctx, s.asking = context.WithCancel(ctx)
	conn := s.conn
	s.asks.Go(func() {
		for wait := askAgain; ; wait = min(2*wait, askAgainMax) {
			one, cancel := context.WithTimeout(ctx, askTimeout)
			start, err := s.cfg.Start(one)
			cancel()
			if err == nil {
				select {
				case s.answers <- identity{conn, start}:
				case <-ctx.Done():
				}
				return
			}
			s.log.Debug("the engine does not report when it started: its event batches wait", "error", err)
			t := time.NewTimer(wait)
			select {
			case <-ctx.Done():
				t.Stop()
				return
			case <-t.C:
			}
		}
	})
}

// answered takes an answer if the connection that it is about still stands: then
// all that it brought is of that process.
func (s *Subscriber) answered(ctx context.Context, a identity) {
	s.mu.Lock()
	sub := s.sub
	s.mu.Unlock()
	if a.conn != s.conn || sub != nil && !sub.Stands(a.conn) {
		return // the end of the connection, or the next one, is on its way here
	}
	s.step(ctx, follow.Identified{Start: a.start}, time.Now())
}

// hangUp ends the connection: what it brings cannot be believed. Where engines
// dial us the next message counts as a new connection.
func (s *Subscriber) hangUp() {
	s.asking()
	s.mu.Lock()
	sub := s.sub
	s.mu.Unlock()
	s.log.Warn("reconnecting to the KV events of the engine: it may have restarted")
	if sub != nil {
		sub.HangUp(s.conn)
		return
	}
	s.conn = 0
}
