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

// TestAnOwnerListensOnUntilOthersHeardABatch: N3.
func TestAnOwnerListensOnUntilOthersHeardABatch(t *testing.T) {
	var h Hold
	h.Look(0, 0, 0)
	if !h.First || !h.Owner() || h.Over(true) {
		t.Errorf("an owner: %+v", h)
	}
	look := func(rank int, heard uint64, nowMs int64, over bool) {
		t.Helper()
		if h.Look(rank, heard, nowMs); h.Over(false) != over {
			t.Errorf("batch %d at %d ms: over is %v: %+v", heard, nowMs, !over, h)
		}
	}
	look(-1, 7, 0, false) // also at time 0
	if h.First || h.Owner() || !h.Over(true) {
		t.Errorf("no owner: %+v", h)
	}
	look(-1, 8, letGoMs, false) // the others may not have been connected
	look(-1, 8, letGoMs+1, false)
	look(-1, 8, 20_000, false)
	look(-1, 9, 20_250, true)
	look(1, 9, 21_000, false) // an owner again
	if !h.Owner() {
		t.Errorf("an owner again: %+v", h)
	}
	look(-1, 9, 30_000, false)
	look(-1, 9, 30_000+letGoMostMs, false) // it says nothing
	look(-1, 9, 30_001+letGoMostMs, true)
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
