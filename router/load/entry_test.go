package load

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/router/policy"
)

// TestEntriesHoldWhatTheTableSays plays everything that changes what a load table
// knows of replicas; candidates filled through entries that were found at the
// start are those that looking everything up by name gives.
func TestEntriesHoldWhatTheTableSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := newTable(1)
		var ids []crdt.StreamID
		var entries []*Entry
		for i := range 3 {
			ids = append(ids, crdt.NewStreamID(fmt.Sprintf("http://r%d", i), 0))
			entries = append(entries, b.Entry(ids[i]))
		}
		now := int64(10_000)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now += int64(rapid.IntRange(0, 900).Draw(t, "ms"))
			id := rapid.SampledFrom(ids).Draw(t, "replica")
			other := crdt.PeerID{byte(rapid.IntRange(2, 3).Draw(t, "peer"))}
			switch rapid.IntRange(0, 6).Draw(t, "step") {
			case 0:
				b.Dispatch(&Cost{Replica: id, Prefill: rapid.Float64Range(0, 3).Draw(t, "s"), Tokens: 100}, now)
			case 1:
				b.JoinLoads(other, []crdt.LoadEntry{{Replica: id, Load: crdt.Load{Version: uint64(now), Waiting: 2, Prefill: .7, Tokens: 9, Streams: 3, Blocks: 40, FirstToken: now}}})
			case 2:
				b.DropLoads(other)
			case 3:
				b.JoinScrapes(map[crdt.StreamID]crdt.Scrape{id: {Version: uint64(now) - 700, Running: 4, Waiting: 5, KVUse: .5, Capacity: 77}})
			case 4:
				b.JoinIntents(map[crdt.StreamID]crdt.Intent{id: {Time: now, Weight: .5, Drain: rapid.Bool().Draw(t, "drain")}})
			case 5:
				b.SetIntent(id, rapid.Bool().Draw(t, "drain"), now)
			case 6:
				b.ForgetReplica(id)
			}
			cands := make([]policy.Candidate, len(ids))
			for i := range cands {
				cands[i].Weight = 1
			}
			b.Snapshot(cands, entries, now, 50)
			for i, id := range ids {
				got := cands[i]
				got.YoungCount, got.YoungPrefill, got.Rates = 0, 0, policy.Rates{}
				if want := lookedUp(b, id, now); got != want {
					t.Fatalf("%s is %+v, want %+v", id, got, want)
				}
			}
		}
	})
}

// lookedUp is a candidate made of what the table tells other peers and people.
func lookedUp(b *Table, id crdt.StreamID, now int64) policy.Candidate {
	sum := b.loads.Sum(id)
	c := policy.Candidate{
		Weight: 1, Waiting: int(sum.Waiting), Prefill: sum.Prefill, Tokens: sum.Tokens,
		Streams: int(sum.Streams), Blocks: sum.Blocks, FirstToken: sum.FirstToken, Running: -1, Queued: -1, KVUse: -1,
	}
	if s, ok := b.Scrapes()[id]; ok && now-int64(s.Version) < ScrapeFreshMs {
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

// TestAnEntryThatWasForgottenIsFoundAgain: who still has the old one reads the
// new one's load.
func TestAnEntryThatWasForgottenIsFoundAgain(t *testing.T) {
	b, id := newTable(1), crdt.NewStreamID("http://a", 0)
	old := b.Entry(id)
	b.ForgetReplica(id)
	b.SetIntent(id, true, 1)
	b.Dispatch(&Cost{Replica: id, Prefill: 1}, 1)
	entries, cands := []*Entry{old}, []policy.Candidate{{Weight: 1}}
	b.Snapshot(cands, entries, 1, 0)
	if cands[0].Waiting != 1 || cands[0].Weight != 0 || !slices.Contains(b.Held(nil), id) {
		t.Errorf("%+v", cands[0])
	}
}

func TestBlendedRatesFollowTheCandidates(t *testing.T) {
	b := newTable(1)
	two := []*Entry{b.Entry(crdt.NewStreamID("http://a", 0)), b.Entry(crdt.NewStreamID("http://b", 0))}
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

// taught has seen many first tokens, all ten times as slow as expected.
func taught(c policy.Calibrator) policy.Calibrator {
	for range 50 {
		c = c.FirstToken(policy.Sample{Predicted: .1, Prefill: .1, Seen: 1})
	}
	return c
}
