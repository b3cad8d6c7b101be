package ingest

import (
	"slices"
	"testing"

	"github.com/banyan-llm/banyan/crdt"
)

// TestAPeerOwnsItsShareFromJoiningToDraining: N2.
func TestAPeerOwnsItsShareFromJoiningToDraining(t *testing.T) {
	self, other := crdt.PeerID{1}, crdt.PeerID{2}
	for _, x := range []struct {
		others           []crdt.PeerID
		joined, draining bool
		own              bool
	}{
		{others: []crdt.PeerID{other}, joined: true, own: true},
		{others: nil, joined: true, own: true},
		{others: []crdt.PeerID{other}, joined: true, draining: true, own: false},
		{others: nil, joined: true, draining: true, own: false},
		{others: nil, own: false},
		{others: []crdt.PeerID{other}, own: false},
	} {
		if got := Eligible(slices.Clone(x.others), Self{self, x.joined, x.draining}); slices.Contains(got, self) != x.own {
			t.Errorf("%+v: %v", x, got)
		}
	}
}

// TestAnOwnerListensOnForAWhile: N3.
func TestAnOwnerListensOnForAWhile(t *testing.T) {
	var h Hold
	h.Look(0, 0)
	if !h.First || !h.Owner() || h.Over(true, 1e6) {
		t.Errorf("an owner: %+v", h)
	}
	h.Look(-1, 0) // also at time 0
	h.Look(-1, 2_000)
	if h.First || h.Owner() || h.Over(false, letGoMs) || !h.Over(true, 0) || !h.Over(false, letGoMs+1) {
		t.Errorf("no owner since 0: %+v", h)
	}
	h.Look(1, letGoMs+1)
	if h.First || !h.Owner() || h.Over(false, 1e6) {
		t.Errorf("an owner again: %+v", h)
	}
}

// TestNobodyRelaysWhatChangedNothing: N4.
func TestNobodyRelaysWhatChangedNothing(t *testing.T) {
	for _, c := range []struct {
		out  crdt.Outcome
		want bool
	}{
		{crdt.Outcome{}, false},
		{crdt.Outcome{NewSlots: 1}, true},
		{crdt.Outcome{NewEpoch: true}, true},
		{crdt.Outcome{NewSlots: 1, Stale: true}, false},
		{crdt.Outcome{NewSlots: 1, Overflow: true}, false},
	} {
		if got := Relay(&c.out); got != c.want {
			t.Errorf("%+v: %v", c.out, got)
		}
	}
}
