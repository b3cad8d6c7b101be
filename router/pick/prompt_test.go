package pick

import (
	"testing"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/gossip"
	"github.com/banyan-llm/banyan/radix"
	"github.com/banyan-llm/banyan/router/policy"
)

// TestPromptsAreToldApartByTheirFirst256Tokens: P3, however many a block has.
func TestPromptsAreToldApartByTheirFirst256Tokens(t *testing.T) {
	for _, c := range []struct {
		grid, blocks int
		prefix, key  uint64
	}{{16, 0, 0, 0}, {16, 1, 1, 1}, {16, 15, 15, 15}, {16, 16, 16, 16}, {16, 17, 16, 17}, {16, 300, 16, 300}, {64, 20, 4, 20}, {512, 20, 1, 20}} {
		p := Prompt{Tokens: c.grid * c.blocks, Grid: c.grid}
		for i := range c.blocks {
			p.Chain.Keys = append(p.Chain.Keys, radix.Key(i+1))
		}
		var req policy.Request
		p.Request(7, &req)
		want := policy.Request{Tokens: p.Tokens, Key: c.key, Prefix: c.prefix, Session: 7}
		if req != want {
			t.Errorf("%d blocks of %d: %+v, want %+v", c.blocks, c.grid, req, want)
		}
	}
}

// TestTheViewIsAsOldAsAFrameUntilAPeerIsSilent: P4.
func TestTheViewIsAsOldAsAFrameUntilAPeerIsSilent(t *testing.T) {
	var none *Silences
	if a := none.Ages(5); a != (Ages{Peers: 1}) {
		t.Errorf("before anybody looked: %+v", a)
	}
	self := crdt.PeerID{5}
	peers := []gossip.PeerInfo{
		{ID: crdt.PeerID{1}, Member: true, ViewAge: 100},
		{ID: crdt.PeerID{2}, Member: true, ViewAge: 450},
		{ID: crdt.PeerID{3}, ViewAge: 1e6}, // no member
		{ID: crdt.PeerID{9}, Member: true, ViewAge: 20},
	}
	v := Silence(peers, self, 1000)
	for _, c := range []struct {
		after int64
		want  Ages
	}{
		{0, Ages{Load: frameMs, Index: frameMs, Peers: 4, Rank: 2}},
		{51, Ages{Load: 501, Index: frameMs, Peers: 4, Rank: 2}},
		{401, Ages{Load: 851, Index: 501, Peers: 4, Rank: 2}},
	} {
		if got := v.Ages(1000 + c.after); got != c.want {
			t.Errorf("after %d ms: %+v, want %+v", c.after, got, c.want)
		}
	}
	alone := Silence(peers[2:3], self, 1000)
	if a := alone.Ages(9000); a != (Ages{Peers: 1}) {
		t.Errorf("alone: %+v", a)
	}
}
