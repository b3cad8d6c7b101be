package router

import (
	"testing"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/gossip"
)

// What a peer tells of its views does not grow with the square of a large mesh.
func TestOfALargeMeshTheWorstViewIsTold(t *testing.T) {
	list := []gossip.PeerInfo{{ID: crdt.PeerID{200}, ViewAge: 9_000}} // no member
	for i := range 15 {
		list = append(list, gossip.PeerInfo{ID: crdt.PeerID{byte(i + 1)}, Member: true, ViewAge: int64(100 - i)})
	}
	if got := toldAges(list); len(got) != 15 || got[crdt.PeerID{3}] != 98 {
		t.Errorf("of 15 others %v is told", got)
	}
	list = append(list, gossip.PeerInfo{ID: crdt.PeerID{99}, Member: true, ViewAge: 700})
	if got := toldAges(list); len(got) != 1 || got[crdt.PeerID{99}] != 700 {
		t.Errorf("of 16 others %v is told, want the worst", got)
	}
}
