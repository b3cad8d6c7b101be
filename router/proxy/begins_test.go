package proxy

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// crowdedRig is a rig whose Pick lets no conversation begin that has not
// waited, and so many that have.
func crowdedRig(t *testing.T, most time.Duration) (g *rig, room, behind *atomic.Int64) {
	room, behind = new(atomic.Int64), new(atomic.Int64)
	g = newRig(t, func(cfg *Config) {
		pick := cfg.Pick
		cfg.Limits.QueueTimeout = most
		cfg.Pick = func(ctx context.Context, call *Call) (*Target, error) {
			if call.Behind {
				behind.Add(1)
			}
			if call.Session == "new" {
				if !call.LetIn {
					return nil, ErrCrowded
				}
				room.Add(-1)
			}
			return pick(ctx, call)
		}
		cfg.RoomToBegin = func(model string) int {
			if model != "m" {
				t.Errorf("room for %q", model)
			}
			return int(min(1, room.Load()))
		}
	}, ok)
	return g, room, behind
}

func (g *rig) say(session string) answer {
	return g.do(http.MethodPost, "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"a"}]}`, http.Header{"X-Session-Id": {session}})
}

// TestNewConversationsWaitAndNobodyBehindThem: while Pick says that the caches
// are crowded, what begins a conversation waits, who goes on does not, and what
// comes later is told that others wait. Who has waited is let in, one after the
// other, and is not asked again.
func TestNewConversationsWaitAndNobodyBehindThem(t *testing.T) {
	g, room, behind := crowdedRig(t, time.Minute)
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			if a := g.say("new"); a.status != http.StatusOK {
				t.Errorf("a new conversation got %d %s", a.status, a.body)
			}
		})
	}
	wait := func(n int64) {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); g.handler.gate.waiting.Load() != n; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%d wait, not %d", g.handler.gate.waiting.Load(), n)
			}
		}
	}
	wait(3)
	if a := g.say("goes on"); a.status != http.StatusOK {
		t.Errorf("a turn got %d %s", a.status, a.body)
	}
	if behind.Load() == 0 {
		t.Error("the turn was not told that others wait")
	}
	room.Store(2)
	wait(1)
	for end := time.Now().Add(20 * time.Second); room.Load() != 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("room for %d is left", room.Load())
		}
	}
	room.Store(1)
	wg.Wait()
}

// TestANewConversationThatWaitedTooLongIsToldWhy it is turned away, and when to
// come again.
func TestANewConversationThatWaitedTooLongIsToldWhy(t *testing.T) {
	g, _, _ := crowdedRig(t, 50*time.Millisecond)
	a := g.say("new")
	if a.status != http.StatusTooManyRequests || !strings.Contains(a.body, "new conversation") || a.header.Get("Retry-After") == "" {
		t.Errorf("%d %s, Retry-After %q", a.status, a.body, a.header.Get("Retry-After"))
	}
}
