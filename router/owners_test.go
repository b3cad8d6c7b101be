package router

import (
	"slices"
	"testing"

	"github.com/banyan-llm/banyan/crdt"
)

func TestAPeerThatCatchesUpOwnsNothingUnlessNobodyElseCan(t *testing.T) {
	self, other := crdt.PeerID{1}, crdt.PeerID{2}
	for _, x := range []struct {
		others                  []crdt.PeerID
		joined, ready, draining bool
		own                     bool
	}{
		{others: []crdt.PeerID{other}, joined: true, ready: true, own: true},
		{others: []crdt.PeerID{other}, joined: true, ready: false, own: false},
		{others: nil, joined: true, ready: false, own: true},
		{others: nil, joined: true, ready: true, own: true},
		{others: []crdt.PeerID{other}, joined: true, ready: true, draining: true, own: false},
		{others: nil, joined: true, ready: true, draining: true, own: false},
		{others: nil, own: false},
		{others: []crdt.PeerID{other}, own: false},
	} {
		if got := withSelf(slices.Clone(x.others), self, x.joined, x.ready, x.draining); slices.Contains(got, self) != x.own {
			t.Errorf("%+v: %v", x, got)
		}
	}
}
