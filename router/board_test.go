package router

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/router/policy"
)

func TestEveryRequestIsCountedOutExactlyOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := newBoard(crdt.PeerID{1}, newClock())
		var shares []*share
		waiting, streams := map[crdt.StreamID]int{}, map[crdt.StreamID]int{}
		now := int64(1000)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now += int64(rapid.IntRange(0, 20).Draw(t, "ms"))
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0, 1:
				s := &share{
					id:      crdt.NewStreamID(fmt.Sprintf("http://r%d", rapid.IntRange(0, 2).Draw(t, "replica")), 0),
					prefill: rapid.Float64Range(0, 3).Draw(t, "s"), tokens: int64(rapid.IntRange(1, 5000).Draw(t, "tokens")), blocks: 7,
				}
				shares = append(shares, s)
				b.dispatch(s, now)
				waiting[s.id]++
			case 2:
				if len(shares) > 0 {
					s := shares[rapid.IntRange(0, len(shares)-1).Draw(t, "which")]
					if !s.started && !s.over {
						waiting[s.id]--
						streams[s.id]++
					}
					b.firstToken(s, now) // also a second time, or late
				}
			case 3:
				if len(shares) > 0 {
					s := shares[rapid.IntRange(0, len(shares)-1).Draw(t, "which")]
					if !s.over && s.started {
						streams[s.id]--
					} else if !s.over {
						waiting[s.id]--
					}
					b.done(s, time.Second, 10, 5)
				}
			}
			for id := range waiting {
				if sum := b.loads.Sum(id); int(sum.Waiting) != waiting[id] || int(sum.Streams) != streams[id] {
					t.Fatalf("R1: %s has %d waiting and %d streams, want %d and %d", id, sum.Waiting, sum.Streams, waiting[id], streams[id])
				}
			}
		}
		for _, s := range shares {
			b.done(s, 0, 0, 0)
		}
		for id := range waiting {
			sum := b.loads.Sum(id)
			if sum.Waiting != 0 || sum.Streams != 0 || sum.Prefill != 0 || sum.Tokens != 0 || sum.Blocks != 0 {
				t.Fatalf("R1: load remains after all ended: %+v", sum)
			}
		}
	})
}

func TestOwnRecentDispatchesAreYoung(t *testing.T) {
	b := newBoard(crdt.PeerID{1}, newClock())
	id := crdt.NewStreamID("http://r", 0)
	for at := int64(0); at < 100; at += 10 {
		b.dispatch(&share{id: id, prefill: 1, tokens: 100}, 1000+at)
	}
	c := filled(b, id, 1095, 25) // those of 1080 and 1090
	if c.YoungCount != 2 || c.YoungPrefill != 2 || c.YoungTokens != 200 || c.Waiting != 10 {
		t.Errorf("%+v", c)
	}
	if c := filled(b, id, 1095, 0); c.YoungCount != 0 {
		t.Errorf("%+v", c)
	}
}

// filled is one fresh candidate with its load.
func filled(b *board, id crdt.StreamID, nowMs int64, ageMs float64) policy.Candidate {
	cands := []policy.Candidate{{Weight: 1}}
	b.fill(cands, []*place{b.place(id)}, nowMs, ageMs)
	return cands[0]
}

func TestIntentIsLastWriterWins(t *testing.T) {
	a, b := newBoard(crdt.PeerID{1}, newClock()), newBoard(crdt.PeerID{2}, newClock())
	id := crdt.NewStreamID("http://r", 0)
	a.setIntent(id, true, 100)
	b.setIntent(id, false, 100)
	a.JoinIntents(b.Intents())
	b.JoinIntents(a.Intents())
	if a.draining(id) != b.draining(id) || a.draining(id) {
		t.Errorf("a drains %v, b drains %v: at equal times the larger peer id wins", a.draining(id), b.draining(id))
	}
	a.setIntent(id, true, 50) // a slow clock still comes after what it has seen
	b.JoinIntents(a.Intents())
	if !b.draining(id) {
		t.Error("the newer word lost")
	}
	if b.JoinIntents(a.Intents()) {
		t.Error("joining twice changed something")
	}
}

func TestADrainingReplicaHasNoWeight(t *testing.T) {
	b := newBoard(crdt.PeerID{1}, newClock())
	id := crdt.NewStreamID("http://r", 0)
	if c := filled(b, id, 1, 0); c.Weight != 1 {
		t.Errorf("weight %v", c.Weight)
	}
	b.setIntent(id, true, 1)
	if c := filled(b, id, 1, 0); c.Weight != 0 {
		t.Errorf("weight %v while draining", c.Weight)
	}
}

func TestRequestRateFollowsTheTraffic(t *testing.T) {
	b := newBoard(crdt.PeerID{1}, newClock())
	id := crdt.NewStreamID("http://r", 0)
	now := int64(1000)
	for range 2000 {
		now += 20
		b.dispatch(&share{id: id}, now)
	}
	if r := b.ownRate(now); r < 40 || r > 60 {
		t.Errorf("50 requests a second read as %.1f", r)
	}
	if r := b.ownRate(now + 60_000); r > 5 {
		t.Errorf("a minute of silence reads as %.1f a second", r)
	}
}
