package router

import (
	"testing"
	"time"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/router/policy"
)

func TestPaceLetsABurstThroughAndThenARate(t *testing.T) {
	var g pace
	now := time.Unix(1_700_000_000, 0)
	through := 0
	for range 2 * recordBurst {
		if g.allow(now) {
			through++
		}
	}
	if through != recordBurst {
		t.Errorf("%d at once, want %d", through, recordBurst)
	}
	for range 20 { // a second, asked ten times as often as it lets through
		for range 100 {
			now = now.Add(recordEvery / 10)
			if g.allow(now) {
				through++
			}
		}
	}
	if through != recordBurst+200 {
		t.Errorf("%d in a second, want 200", through-recordBurst)
	}
}

// taught has seen many first tokens, all ten times as slow as expected.
func taught(c policy.Calibrator) policy.Calibrator {
	for range 50 {
		c = c.FirstToken(policy.Sample{Predicted: .1, Prefill: .1, Seen: 1})
	}
	return c
}

func TestBlendedRatesFollowTheCandidates(t *testing.T) {
	b := newBoard(crdt.PeerID{1}, newClock())
	two := []*place{b.place(crdt.NewStreamID("http://a", 0)), b.place(crdt.NewStreamID("http://b", 0))}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.blendLocked(two, 1000)
	if len(b.blended) != 2 {
		t.Fatalf("%d rates of two replicas", len(b.blended))
	}
	first := b.blended[0]
	two[0].rates = taught(two[0].rates)
	two[1].rates = taught(two[1].rates)
	b.blendLocked(two, 1000+blendMs-1)
	if b.blended[0] != first {
		t.Error("blended anew within the time they are good for")
	}
	b.blendLocked(two, 1000+blendMs)
	if b.blended[0] == first {
		t.Error("what was learned does not come through")
	}
	b.blendLocked(two[:1], 1000+blendMs)
	if len(b.blended) != 1 {
		t.Error("other candidates, old rates")
	}
}
