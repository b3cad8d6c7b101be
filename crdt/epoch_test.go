package crdt_test

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/banyan-llm/banyan/crdt"
)

// TestEpochFence holds that once a newer incarnation is known nothing of an
// older one shows or comes back, also after the stream was forgotten.
func TestEpochFence(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		old, now := drawLog(t, 1000, 6, true), drawLog(t, 1010, 6, true)
		w := world{1000: old, 1010: now}
		p, donor := wide(), wide()
		donor.take(old, 1, 2, 3, 4, 5, 6)
		stale := donor.cutAll(t)
		p.take(old, 1, 2, 3)
		if out := p.take(now, 2); !out.NewEpoch {
			t.Fatalf("no new epoch: %+v", out)
		}
		w.checkPeer(t, "p", p)
		forget := rapid.Bool().Draw(t, "forget")
		if forget {
			p.Forget()
		}
		if out := p.take(old, 4, 5, 6); !out.Stale {
			t.Fatalf("an old delta was taken: %+v", out)
		}
		if out := p.joinAll(t, stale, 0); !out.Stale {
			t.Fatalf("an old snapshot was taken: %+v", out)
		}
		if c := p.Context(); c.Epoch != 1010 || c.Knows(2) == forget {
			t.Fatalf("after old news: %+v", c)
		}
		w.checkPeer(t, "p", p)
		if forget && len(p.view.Metas()) > 0 {
			t.Fatalf("facts of an old incarnation show: %v", p.view.Metas())
		}
	})
}

// TestOldSnapshotWhileLoading lets a newer incarnation appear while a snapshot
// of the older one is being loaded.
func TestOldSnapshotWhileLoading(t *testing.T) {
	l, m := onlySlot(t, 1000), onlySlot(t, 2000)
	donor, p := wide(), wide()
	donor.take(l, 1)
	j, err := p.BeginJoin(donor.cutAll(t), 0)
	if err != nil {
		t.Fatal(err)
	}
	p.take(m, 1)
	for done := false; !done; {
		if done, err = j.Next(0); err != nil {
			t.Fatal(err)
		}
	}
	if !j.Outcome().Stale || p.Epoch() != 2000 || p.view.Shown.Epoch != 2000 {
		t.Fatalf("the old incarnation came back: %+v", p.Context())
	}
}

// TestEpochOrder has several owners meet one process at different slots, under
// the one name that its start gives it, and one detect an old restart late: the
// highest epoch wins everywhere and no slot is lost.
func TestEpochOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before := drawLog(t, 500, 5, true)
		l := drawLog(t, 1001, rapid.IntRange(3, 14).Draw(t, "n"), false)
		n := uint64(len(l.slots))
		peers := []*peer{wide(), wide(), wide()}
		next := make([]uint64, len(peers))
		anchors := make([]uint64, len(peers))
		for i := range peers {
			anchors[i] = rapid.Uint64Range(1, n).Draw(t, "first")
			next[i] = anchors[i]
		}
		first := slices.Max(anchors) // who takes over a base cannot go back below it
		feed := func(i int) {
			if next[i] > n {
				return
			}
			peers[i].Apply(&crdt.Delta{Epoch: l.epoch, Anchor: anchors[i], Slots: l.slots[next[i]-1 : next[i]]}, 0)
			next[i]++
		}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			i := rapid.IntRange(0, 2).Draw(t, "peer")
			switch rapid.IntRange(0, 3).Draw(t, "event") {
			case 0:
				if peers[i].Epoch() != 0 && !peers[i].take(before, 1, 2, 3).Stale {
					t.Fatalf("a late detection of an old restart won")
				}
			case 1:
				peers[i].push(t, peers[(i+1)%3], 1<<20, 0)
			default:
				feed(i)
			}
		}
		for i := range peers {
			for next[i] <= n {
				feed(i)
			}
		}
		settleAll(t, peers, 0)
		for _, p := range peers { // the engine's replay
			for _, hole := range p.Holes(9) {
				d := crdt.Delta{Epoch: p.Epoch(), Anchor: p.Context().Anchor, Slots: l.slots[hole.From-1 : hole.To]}
				p.Apply(&d, 0)
			}
		}
		settleAll(t, peers, 0)
		checkEqual(t, peers)
		if c := peers[0].Context(); c.Epoch != l.epoch || c.Anchor > first || c.Floor != n {
			t.Fatalf("ended at %+v; anchors %v of %d slots", c, anchors, n)
		}
		if got, want := peers[0].view.Metas(), oracle(l.slots[peers[0].Context().Anchor-1:]); !maps.Equal(got, want) {
			t.Fatalf("slots were lost:\n got %v\nwant %v", got, want)
		}
	})
}

func onlySlot(t rapid.TB, epoch uint64) *engineLog {
	var b crdt.Builder
	b.Store(crdt.Op{Main: true, PerPage: 1, Root: 1}, []uint64{epoch}, []uint64{1})
	s, err := b.Slot(1, int64(epoch))
	if err != nil {
		t.Fatal(err)
	}
	return &engineLog{epoch: epoch, slots: []crdt.Slot{s}}
}

// TestQuarantine holds that more than two new epochs in a minute silence a
// stream until it is calm for a minute.
func TestQuarantine(t *testing.T) {
	p := wide()
	for i := range int64(3) {
		if out := p.takeAt(onlySlot(t, 1000+uint64(i)), 1000*i, 1); out.Quarantined {
			t.Fatalf("quarantined after %d changes", i)
		}
	}
	if out := p.takeAt(onlySlot(t, 1003), 3000, 1); !out.Quarantined || !p.Quarantined() {
		t.Fatalf("third change in a minute: %+v", out)
	}
	if len(p.view.Metas()) != 0 || p.Epoch() != 1002 {
		t.Fatal("a quarantined stream shows facts, or hides whose they would be")
	}
	for epoch := range uint64(2) {
		if out := p.takeAt(onlySlot(t, 1002+epoch), 4000, 1); !out.Quarantined || len(p.view.Metas()) != 0 {
			t.Fatalf("events of epoch %d are taken in quarantine", 1002+epoch)
		}
	}
	p.takeAt(onlySlot(t, 1004), 30_000, 1)
	p.Tick(63_001)
	if !p.Quarantined() {
		t.Fatal("the quarantine ended though the epoch changed again")
	}
	p.Tick(90_001)
	if p.Quarantined() {
		t.Fatal("the quarantine never ends")
	}
	if out := p.takeAt(onlySlot(t, 1004), 90_002, 1); out.NewSlots != 1 || len(p.view.Metas()) != 1 {
		t.Fatalf("after the quarantine: %+v", out)
	}
}

// TestWhatIsForgottenIsToldByName: whatever made a peer forget, it goes on to
// refuse what is below its epoch, so the others learn of it, and name the next
// process above it. Nobody but the forgetful peer ever knew it.
func TestWhatIsForgottenIsToldByName(t *testing.T) {
	for name, forget := range map[string]func(p *peer){
		"told to": func(p *peer) { p.Forget() },
		"in quarantine": func(p *peer) {
			for i := range uint64(3) {
				p.takeAt(onlySlot(t, 6000+i), 0, 1)
			}
			p.Tick(60_001)
		},
		"over its limits": func(p *peer) {
			l := drawnRun(t, 2*crdt.MaxHoles+4)
			l.epoch = 5000
			for seq := uint64(3); !p.take(l, seq).Overflow; seq += 2 {
			}
		},
	} {
		p, mesh := wide(), wide()
		p.take(onlySlot(t, 4000), 1)
		p.take(onlySlot(t, 5000), 1)
		forget(p)
		mesh.take(onlySlot(t, 3000), 1)
		if p.Quarantined() || len(p.view.Metas()) != 0 {
			t.Fatalf("%s: %+v", name, p.Context())
		}
		if out := p.joinAll(t, mesh.cutAll(t), 60_002); !out.Stale {
			t.Fatalf("%s: an older process came back: %+v", name, out)
		}
		settleAll(t, []*peer{p, mesh}, 60_002)
		if at := p.Epoch(); at < 5000 || mesh.Epoch() != at {
			t.Fatalf("%s: the mesh is at %d, the peer at %d", name, mesh.Epoch(), at)
		}
		mesh.takeAt(onlySlot(t, 7000), 120_000, 1)
		settleAll(t, []*peer{p, mesh}, 120_000)
		checkEqual(t, []*peer{p, mesh})
		if p.Epoch() != 7000 || len(p.view.Metas()) != 1 {
			t.Fatalf("%s: ended at %+v", name, p.Context())
		}
	}
}

// TestQuarantineFencesNothingOff holds that an epoch which only a quarantined
// peer heard of does not keep it from the mesh's when it is over.
func TestQuarantineFencesNothingOff(t *testing.T) {
	p := wide()
	for i := range int64(4) {
		p.takeAt(onlySlot(t, 1000+uint64(i)), 1000*i, 1)
	}
	if out := p.takeAt(onlySlot(t, 5000), 5_000, 1); !out.Quarantined {
		t.Fatalf("own detection in quarantine: %+v", out)
	}
	p.Tick(65_001)
	if out := p.takeAt(onlySlot(t, 1003), 65_002, 1); out.NewSlots != 1 || p.Epoch() != 1003 {
		t.Fatalf("the mesh's epoch after the quarantine: %+v, epoch %d", out, p.Epoch())
	}
	if out := p.takeAt(onlySlot(t, 1001), 65_003, 1); !out.Stale {
		t.Fatalf("an older epoch comes back: %+v", out)
	}
}

// TestSlowBumpsAreFine holds that restarts a minute apart never quarantine.
func TestSlowBumpsAreFine(t *testing.T) {
	p := wide()
	for i := range int64(20) {
		if out := p.takeAt(onlySlot(t, 1000+uint64(i)), 31_000*i, 1); out.Quarantined {
			t.Fatalf("quarantined at restart %d", i)
		}
	}
}

// TestAnEpochOpensWithoutASlot holds that the word of an owner that another
// process is there hides what the one before held, before its first batch; that
// a broken delta does not; and that the first slots bring their anchor.
func TestAnEpochOpensWithoutASlot(t *testing.T) {
	p := wide()
	p.take(onlySlot(t, 1000), 1)
	if out := p.take(onlySlot(t, crdt.MaxEpoch+1), 1); out.Invalid != 1 {
		t.Fatalf("an epoch out of bounds: %+v", out)
	}
	p.Apply(&crdt.Delta{Epoch: 2000, Anchor: 1, Slots: []crdt.Slot{{Seq: 1, Body: []byte{9}}}}, 0)
	if p.Epoch() != 1000 || len(p.view.Metas()) != 1 {
		t.Fatalf("epoch %d after nothing", p.Epoch())
	}
	if out := p.Apply(&crdt.Delta{Epoch: 2000, Anchor: 1}, 0); !out.NewEpoch || p.Epoch() != 2000 || len(p.view.Metas()) != 0 {
		t.Fatalf("%+v: facts of a process that is gone are shown", out)
	}
	l := drawnRun(t, 9)
	l.epoch = 2000
	p.Apply(&crdt.Delta{Epoch: 2000, Anchor: 5, Slots: l.slots[4:6]}, 0)
	if c := p.Context(); c.Anchor != 5 || c.Floor != 6 {
		t.Fatalf("the first slots that can be had brought %+v", c)
	}
	p.Apply(&crdt.Delta{Epoch: 2000, Anchor: 3, Slots: l.slots[2:4]}, 0)
	if c := p.Context(); c.Anchor != 3 || c.Floor != 6 || len(p.view.Metas()) != 4 {
		t.Fatalf("earlier ones brought %+v", c)
	}
}
