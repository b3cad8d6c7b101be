package simulation

import (
	"strings"
	"testing"
	"time"
)

// A false restart takes nothing away for long: whoever can prove that the
// engine goes on brings back what was outranked, in a mesh of one peer and of
// three, for engines with a replay and without (property 23).
func TestShadowRecovery(t *testing.T) {
	revived := 0
	for seed := range uint64(12) {
		r := quiet(t, FaultConfig{Seed: seed, Peers: 1 + 2*int(seed%2), Replicas: 1, NoTraffic: true, Trace: func(line string) {
			if strings.Contains(line, "up again") {
				revived++
			}
		}})
		e, p := r.engines[0], r.peers[0]
		before, _ := p.index.Digest(e.stream)
		r.ghost(e)
		r.runUntil(r.now + 200)
		if d, _ := p.index.Digest(e.stream); d.Context.Epoch <= before.Context.Epoch {
			t.Fatalf("seed %d: the ghost was not taken for a restart: %+v", seed, d.Context)
		}
		r.runUntil(r.now + 10_000)
		settle(t, r, 10*time.Second)
		r.recovered(e)
		clean(t, r)
		if d, _ := p.index.Digest(e.stream); r.checks["ShadowRecovery"] == 0 && (len(r.peers) > 1 || e.replay > 100) {
			t.Errorf("seed %d: %d peers, a replay of %d: nothing came back: %+v\n%s", seed, len(r.peers), e.replay, d.Context, r.end())
		}
	}
	if revived == 0 {
		t.Error("no outranked incarnation was taken up again")
	}
}
