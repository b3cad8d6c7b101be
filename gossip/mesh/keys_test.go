package mesh

import (
	"errors"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
)

// Three peers get a new key the way an operator gives it, file after file,
// while slots travel: add, use, remove. Nobody is ever taken for dead, nothing
// is lost, and in the end the old key opens nothing.
func TestRotationByFilesLosesNobody(t *testing.T) {
	t.Parallel()
	var failed atomic.Bool
	var nodes []*full
	for _, name := range []string{"a", "b", "c"} {
		cfg := config(name)
		for _, n := range nodes {
			cfg.Join = append(cfg.Join, n.Addr())
		}
		// A machine too busy for probes of 50 ms must not look like a lost key.
		cfg.tune = nil
		var self atomic.Pointer[full]
		cfg.OnChange = func() {
			f := self.Load()
			if f != nil && slices.ContainsFunc(f.Members(), func(m Member) bool { return m.State == Failed }) {
				failed.Store(true)
			}
		}
		f := startFull(t, 8<<20, cfg)
		self.Store(f)
		nodes = append(nodes, f)
	}
	a, b, c := nodes[0], nodes[1], nodes[2]
	whole(t, a.node, b.node, c.node)
	next := uint64(1)
	flow := func() {
		t.Helper()
		a.ingest(t, next, 25)
		next += 25
		want := a.facts(t)
		for _, n := range nodes[1:] {
			eventually(t, "slots travel", func() bool { return maps.Equal(n.facts(t), want) })
		}
	}
	flow()
	old := map[*link]bool{}
	for _, l := range append(a.standing(), b.standing()...) {
		old[l] = true
	}
	for _, ring := range [][]string{{key("k1"), key("k2")}, {key("k2"), key("k1")}, {key("k2")}} {
		for _, n := range nodes {
			if changed, err := n.SetKeys(ring); err != nil || !changed {
				t.Fatalf("set keys: changed %v, %v", changed, err)
			}
			flow()
		}
		if changed, err := a.SetKeys(ring); err != nil || changed {
			t.Fatalf("the same ring again: changed %v, %v", changed, err)
		}
	}
	eventually(t, "streams under the old key end", func() bool {
		return !slices.ContainsFunc(append(a.standing(), b.standing()...), func(l *link) bool { return old[l] })
	})
	const ended = "banyan_mesh_connections_ended_total"
	if a.value(t, ended, "key")+b.value(t, ended, "key")+c.value(t, ended, "key") == 0 {
		t.Error("nobody counted the streams under the old key")
	}
	whole(t, a.node, b.node, c.node)
	flow()
	if failed.Load() {
		t.Error("somebody was taken for dead")
	}
	late := start(t, config("late", a.Addr()))
	eventually(t, "the old key is refused", func() bool { return a.refusedFor(t, causeKey) > 0 })
	if a.stateOf(late) != "" {
		t.Error("a peer with the removed key is a member")
	}
}

func TestSetKeysRefusesWhatWouldLockOut(t *testing.T) {
	n := newNode(t, config("n"))
	for name, ring := range map[string][]string{"empty": nil, "malformed": {key("k2"), "no key"}} {
		if changed, err := n.SetKeys(ring); err == nil || changed {
			t.Errorf("%s ring: changed %v, %v", name, changed, err)
		}
	}
	if got := n.ring.GetKeys(); len(got) != 1 {
		t.Errorf("%d keys after refusals", len(got))
	}
	cfg := config("open")
	insecure(&cfg)
	open := newNode(t, cfg)
	if _, err := open.SetKeys([]string{key("k1")}); !errors.Is(err, ErrNoKeyring) {
		t.Errorf("keys for an insecure mesh: %v", err)
	}
	if changed, err := open.SetKeys(nil); changed || err != nil {
		t.Errorf("no keys for an insecure mesh: %v, %v", changed, err)
	}
}
