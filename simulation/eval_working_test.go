package simulation

import "testing"

// TestNewConversationsWaitWhereCachesAreTooSmall: with caches for what is alive
// and no more, new ones wait, and all sessions end sooner for it. Where there is room
// hardly anybody waits.
func TestNewConversationsWaitWhereCachesAreTooSmall(t *testing.T) {
	cfg, _ := codingFleet(t, 21, 6000, 1)
	all := evaluate(t, cfg)
	cfg.WorkingSet = .8
	some := evaluate(t, cfg)
	t.Logf("mean TTFT %.1f s, %.1f s with %d conversations that waited; a session takes %.0f and %.0f s", all.TTFT.Mean/1000, some.TTFT.Mean/1000, some.Waited, all.SessionE2E, some.SessionE2E)
	if some.Waited == 0 || some.TTFT.Mean > .7*all.TTFT.Mean || some.SessionE2E > .7*all.SessionE2E {
		t.Error("waiting is not worth it")
	}
	cfg, _ = codingFleet(t, 21, 6000, 4)
	room := evaluate(t, cfg)
	cfg.WorkingSet = .8
	if rep := evaluate(t, cfg); rep.Waited > some.Waited/10 || rep.SessionE2E > 1.02*room.SessionE2E {
		t.Errorf("%d conversations waited where there is room, a session takes %.0f s for %.0f s", rep.Waited, rep.SessionE2E, room.SessionE2E)
	}
}
