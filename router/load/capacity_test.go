package load

import (
	"fmt"
	"slices"
	"testing"

	"github.com/banyan-llm/banyan/crdt"
)

// TestWhatMakesAReplicaFull: each figure alone.
func TestWhatMakesAReplicaFull(t *testing.T) {
	b := newTable(1)
	id := crdt.NewStreamID("http://a", 0)
	nowMs := int64(1_000_000)
	for range 3 {
		b.Dispatch(&Cost{Replica: id, Tokens: 100, Blocks: 10}, nowMs)
	}
	b.JoinScrapes(map[crdt.StreamID]crdt.Scrape{id: {Version: uint64(nowMs), Waiting: 5, Capacity: 1000}})
	for _, c := range []struct {
		cfg   Limit
		peers int
		nowMs int64
		want  int
	}{
		{Limit{}, 1, nowMs, Unlimited},
		{Limit{ReplicaLimit: 4}, 1, nowMs, 1},
		{Limit{ReplicaLimit: 3}, 1, nowMs, 0},
		{Limit{ReplicaLimit: 2}, 4, nowMs, 0},
		{Limit{EngineQueue: 5}, 1, nowMs, 0},
		{Limit{EngineQueue: 8}, 1, nowMs, 3},
		{Limit{EngineQueue: 5}, 1, nowMs + ScrapeFreshMs, Unlimited}, // an old word says nothing
		{Limit{KVLoad: .3}, 1, nowMs, 0},
		{Limit{KVLoad: .31}, 1, nowMs, Unlimited},
		{Limit{KVLoad: .31, ReplicaLimit: 3}, 1, nowMs, 0},
	} {
		c.cfg.Peers, c.cfg.Grid = c.peers, 16
		if got := b.Headroom(id, &c.cfg, c.nowMs); got != c.want {
			t.Errorf("%+v of %d peers: headroom %d, want %d", c.cfg, c.peers, got, c.want)
		}
	}
	// Another peer holds them all: this one still has its part.
	other := newTable(2)
	other.JoinLoads(crdt.PeerID{1}, b.OwnLoads(nil, false))
	if got := other.Headroom(id, &Limit{ReplicaLimit: 3, Peers: 1, Grid: 16}, nowMs); got != 3 {
		t.Errorf("a peer's own part of 3: %d", got)
	}
}

// TestPartsMakeUpTheLimit: all peers together have no more entries for their own
// than a replica has, but for one each; and the odd ones are not always the
// same peers'.
func TestPartsMakeUpTheLimit(t *testing.T) {
	for _, c := range []struct{ limit, peers, want int }{{6, 3, 6}, {4, 3, 4}, {64, 7, 64}, {1, 1, 1}, {5, 0, 5}, {2, 5, 5}} {
		odd := map[int]bool{} // who ever had more than others
		for replica := range 50 {
			sum, parts := 0, make([]int, max(c.peers, 1))
			for rank := range parts {
				b := Limit{ReplicaLimit: c.limit, Peers: c.peers, Rank: rank}
				parts[rank] = b.Part(crdt.NewStreamID(fmt.Sprintf("http://10.0.0.%d:8000", replica), 0))
				sum += parts[rank]
			}
			for rank, part := range parts {
				odd[rank] = odd[rank] || part > slices.Min(parts)
			}
			if sum != c.want {
				t.Errorf("%d entries among %d peers: parts %v", c.limit, c.peers, parts)
			}
		}
		for rank, more := range odd {
			if c.limit > c.peers && c.limit%max(c.peers, 1) > 0 && !more {
				t.Errorf("%d entries among %d peers: number %d never has more", c.limit, c.peers, rank)
			}
		}
	}
}
