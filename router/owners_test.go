package router

import (
	"slices"
	"testing"

	"github.com/banyan-llm/banyan/crdt"
)

func TestAPeerThatCatchesUpOwnsNothingUnlessNobodyElseCan(t *testing.T) {
	self, other := crdt.PeerID{1}, crdt.PeerID{2}
	for _, x := range []struct {
		others          []crdt.PeerID
		ready, draining bool
		own             bool
	}{
		{others: []crdt.PeerID{other}, ready: true, own: true},
		{others: []crdt.PeerID{other}, ready: false, own: false},
		{others: nil, ready: false, own: true},
		{others: nil, ready: true, own: true},
		{others: []crdt.PeerID{other}, ready: true, draining: true, own: false},
		{others: nil, ready: true, draining: true, own: false},
	} {
		if got := withSelf(slices.Clone(x.others), self, x.ready, x.draining); slices.Contains(got, self) != x.own {
			t.Errorf("%+v: %v", x, got)
		}
	}
}
