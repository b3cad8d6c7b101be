package mesh

import (
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/crdt/crdttest"
	"github.com/banyan-llm/banyan/gossip"
	"github.com/banyan-llm/banyan/gossip/gossiptest"
)

// full is a peer with the real core over real streams.
type full struct {
	*node
	state    *gossiptest.State // touched in the loop only
	observed int
	joined   int
	ready    bool
}

// startFull starts a peer whose slot ring holds ringBytes.
func startFull(t testing.TB, ringBytes int, cfg Config) *full {
	t.Helper()
	return startLimited(t, ringBytes, gossip.Limits{}, cfg)
}

// startLimited is startFull with limits of the core.
func startLimited(t testing.TB, ringBytes int, limits gossip.Limits, cfg Config) *full {
	t.Helper()
	f := &full{state: gossiptest.NewState(cfg.PeerID, gossiptest.StateConfig{RingBytes: ringBytes})}
	core, err := gossip.New(gossip.Config{
		Self: cfg.PeerID, Name: cfg.Name, Label: cfg.Label, State: f.state, Rand: rand.New(rand.NewPCG(3, 4)), Limits: limits,
	})
	if err != nil {
		t.Fatal(err)
	}
	cfg.Core, cfg.Local = core, f.local
	f.node = newNode(t, cfg)
	if err := f.Start(); err != nil {
		t.Fatal(err)
	}
	return f
}

// local does what the router would.
func (f *full) local(eff gossip.Effect) {
	switch eff := eff.(type) {
	case gossip.CutSnapshot:
		f.Post(gossip.SnapshotCut{Stream: eff.Stream, Snapshot: f.state.Cut(eff.Stream)})
	case gossip.JoinSnapshot:
		f.joined++
		err := f.state.Join(eff.Snapshot, time.Now().UnixMilli())
		f.Post(gossip.SnapshotJoined{Stream: eff.Snapshot.Stream, Err: err})
	case gossip.Observed:
		f.observed++
	case gossip.Caught:
		f.ready = eff.Ready
	}
}

// ingest folds slots from, from+1, … here, as the first owner.
func (f *full) ingest(t *testing.T, from uint64, n int) {
	t.Helper()
	if err := f.Do(t.Context(), func() {
		now := time.Now().UnixMilli()
		var slots []crdt.Slot
		for i := range uint64(n) {
			seq := from + i
			var b crdt.Builder
			handles := make([]uint64, 64)
			for j := range handles {
				handles[j] = seq<<8 | uint64(j)
			}
			b.Store(crdt.Op{Main: true, PerPage: 1}, handles, handles)
			body, err := b.Bytes()
			if err != nil {
				t.Error(err)
			}
			slots = append(slots, crdt.Slot{Seq: seq, TS: now * 1000, Body: body})
		}
		f.state.Apply(&crdt.Delta{Stream: replica, Epoch: 1, Anchor: 1, Slots: slots}, now)
		f.Post(gossip.Ingested{Stream: replica, Epoch: 1, Slots: crdt.SpansOf(slots), ReceivedAt: now, First: true})
	}); err != nil {
		t.Fatal(err)
	}
}

// facts are what the peer knows of the stream.
func (f *full) facts(t *testing.T) (facts map[crdttest.Entry]crdt.Meta) {
	t.Helper()
	if err := f.Do(t.Context(), func() { facts = maps.Clone(f.state.Facts(replica)) }); err != nil {
		t.Fatal(err)
	}
	return facts
}

// Slots go to all at once; a late joiner gets what the ring still holds, or a
// snapshot.
func TestSlotsAndSnapshotsTravel(t *testing.T) {
	t.Parallel()
	for name, ringBytes := range map[string]int{"delta": 8 << 20, "snapshot": 16 << 10} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := startFull(t, ringBytes, config("a"))
			b := startFull(t, ringBytes, config("b", a.Addr()))
			whole(t, a.node, b.node)
			const batches, each = 20, 25
			for i := range uint64(batches) {
				a.ingest(t, 1+i*each, each)
			}
			want := a.facts(t)
			if len(want) != batches*each*64 {
				t.Fatalf("%d facts were ingested", len(want))
			}
			eventually(t, "b knows all facts", func() bool { return maps.Equal(b.facts(t), want) })
			c := startFull(t, ringBytes, config("c", b.Addr()))
			eventually(t, "c knows all facts and is ready", func() bool {
				if !maps.Equal(c.facts(t), want) {
					return false
				}
				ready := false
				return c.Do(t.Context(), func() { ready = c.ready }) == nil && ready
			})
			var observed, joined int
			if err := b.Do(t.Context(), func() { observed = b.observed }); err != nil || observed == 0 {
				t.Errorf("%d delays were observed at b, %v", observed, err)
			}
			if err := c.Do(t.Context(), func() { joined = c.joined }); err != nil || (joined > 0) != (name == "snapshot") {
				t.Errorf("c joined %d snapshots, %v", joined, err)
			}
			if a.value(t, "banyan_mesh_bytes_total", "out", "slots") == 0 || b.value(t, "banyan_mesh_bytes_total", "in", "slots") == 0 {
				t.Errorf("bytes of slots: out of a %v, into b %v", a.value(t, "banyan_mesh_bytes_total", "out", "slots"), b.value(t, "banyan_mesh_bytes_total", "in", "slots"))
			}
		})
	}
}
