package router

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/router/policy"
)

// TestPlacesHoldWhatTheTablesSay plays everything that changes what a board
// knows of replicas; candidates filled through places that were found at the
// start are those that looking everything up by name gives.
func TestPlacesHoldWhatTheTablesSay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := newBoard(crdt.PeerID{1}, newClock())
		var ids []crdt.StreamID
		var places []*place
		for i := range 3 {
			ids = append(ids, crdt.NewStreamID(fmt.Sprintf("http://r%d", i), 0))
			places = append(places, b.place(ids[i]))
		}
		now := int64(10_000)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now += int64(rapid.IntRange(0, 900).Draw(t, "ms"))
			id := rapid.SampledFrom(ids).Draw(t, "replica")
			other := crdt.PeerID{byte(rapid.IntRange(2, 3).Draw(t, "peer"))}
			switch rapid.IntRange(0, 6).Draw(t, "step") {
			case 0:
				b.dispatch(&share{id: id, prefill: rapid.Float64Range(0, 3).Draw(t, "s"), tokens: 100}, now)
			case 1:
				b.JoinLoads(other, []crdt.LoadEntry{{Replica: id, Load: crdt.Load{Version: uint64(now), Waiting: 2, Prefill: .7, Tokens: 9, Streams: 3, Blocks: 40, FirstToken: now}}})
			case 2:
				b.DropLoads(other)
			case 3:
				b.JoinScrapes(map[crdt.StreamID]crdt.Scrape{id: {Version: uint64(now) - 700, Running: 4, Waiting: 5, KVUse: .5, Capacity: 77}})
			case 4:
				b.JoinIntents(map[crdt.StreamID]crdt.Intent{id: {Time: now, Weight: .5, Drain: rapid.Bool().Draw(t, "drain")}})
			case 5:
				b.setIntent(id, rapid.Bool().Draw(t, "drain"), now)
			case 6:
				b.forget(id)
			}
			cands := make([]policy.Candidate, len(ids))
			for i := range cands {
				cands[i].Weight = 1
			}
			b.fill(cands, places, now, 50)
			for i, id := range ids {
				got := cands[i]
				got.YoungCount, got.YoungPrefill, got.YoungTokens, got.Rates = 0, 0, 0, policy.Rates{}
				if want := lookedUp(b, id, now); got != want {
					t.Fatalf("%s is %+v, want %+v", id, got, want)
				}
			}
		}
	})
}

// lookedUp is a candidate made of what the board tells other peers and people.
func lookedUp(b *board, id crdt.StreamID, now int64) policy.Candidate {
	sum := b.loads.Sum(id)
	c := policy.Candidate{
		Weight: 1, Waiting: int(sum.Waiting), Prefill: sum.Prefill, Tokens: sum.Tokens,
		Streams: int(sum.Streams), Blocks: sum.Blocks, FirstToken: sum.FirstToken, Running: -1, Queued: -1, KVUse: -1,
	}
	if s, ok := b.Scrapes()[id]; ok && now-int64(s.Version) < scrapeFreshMs {
		c.Running, c.Queued, c.KVUse, c.Capacity = int(s.Running), int(s.Waiting), float64(s.KVUse), s.Capacity
	}
	if in, ok := b.Intents()[id]; ok {
		c.Weight = in.Weight
		if in.Drain {
			c.Weight = 0
		}
	}
	return c
}
