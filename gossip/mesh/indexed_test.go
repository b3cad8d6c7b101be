package mesh

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/gossip"
	"github.com/banyan-llm/banyan/radix"
	"github.com/banyan-llm/banyan/router/index"
)

// indexed is a peer as the router composes it: the real core over the real
// index, snapshots cut and joined by a worker off the loop. The benchmarks of
// the replication budgets run on it.
type indexed struct {
	*node
	index *index.Index
	ready chan string // the reason, once caught up

	jobs chan gossip.Effect
	wg   sync.WaitGroup
}

// indexedState is the index with tables beside it.
type indexedState struct {
	*index.Index
	tables
	came func(*crdt.Delta) // slots that were new, in the loop; nil: nobody asks
}

// tables puts loadState's methods one level deeper than the index's.
type tables struct{ *loadState }

func (s indexedState) Apply(d *crdt.Delta, nowMs int64) crdt.Outcome {
	out := s.Index.Apply(d, nowMs)
	if s.came != nil && out.NewSlots > 0 {
		s.came(d)
	}
	return out
}

var benchHasher = radix.NewHasher([]byte("benchmarks of gossip/mesh"))

// newIndexed makes a peer that is bound but not started, with the product's
// own times.
func newIndexed(b testing.TB, cfg Config, came func(*crdt.Delta)) *indexed {
	b.Helper()
	cfg.tune, cfg.Timing = nil, Timing{}
	p := &indexed{
		index: index.New(index.Config{Hasher: benchHasher, RingBytes: 64 << 20, Predictions: 1024}),
		ready: make(chan string, 16), jobs: make(chan gossip.Effect, 64),
	}
	core, err := gossip.New(gossip.Config{
		Self: cfg.PeerID, Name: cfg.Name, Label: cfg.Label,
		State: indexedState{p.index, tables{newLoadState(cfg.PeerID)}, came},
		Rand:  rand.New(rand.NewPCG(3, uint64(cfg.PeerID[0]))),
	})
	if err != nil {
		b.Fatal(err)
	}
	cfg.Core, cfg.Local = core, p.local
	p.node = newNode(b, cfg)
	p.wg.Go(p.work)
	b.Cleanup(func() { p.end(b) }) // before the node's own
	return p
}

// end stops the peer and frees its memory; once.
func (p *indexed) end(b testing.TB) {
	if p.closed {
		return
	}
	p.close(b)
	close(p.jobs)
	p.wg.Wait()
	p.index.Close()
}

// local does what the router's link does.
func (p *indexed) local(eff gossip.Effect) {
	switch eff := eff.(type) {
	case gossip.CutSnapshot, gossip.JoinSnapshot:
		p.jobs <- eff // the core asks for fewer than fit
	case gossip.Caught:
		if eff.Ready {
			select {
			case p.ready <- eff.Reason:
			default:
			}
		}
	}
}

func (p *indexed) work() {
	for job := range p.jobs {
		switch e := job.(type) {
		case gossip.CutSnapshot:
			p.Post(gossip.SnapshotCut{Stream: e.Stream, Snapshot: p.index.Cut(e.Stream)})
		case gossip.JoinSnapshot:
			err := p.index.Join(e.Snapshot, time.Now().UnixMilli())
			p.Post(gossip.SnapshotJoined{Stream: e.Snapshot.Stream, Err: err})
		}
	}
}

// meet waits until all peers are connected to each other.
func meet(b testing.TB, peers []*indexed) {
	b.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		missing := ""
		for _, x := range peers {
			for _, y := range peers {
				if x != y && !x.sees(y.node) {
					missing = x.cfg.Name + " does not see " + y.cfg.Name
				}
			}
		}
		switch {
		case missing == "":
			return
		case time.Now().After(deadline):
			b.Fatal(missing)
		}
	}
}

// equal waits until all peers know the same, contexts and sums.
func equal(b testing.TB, peers []*indexed) {
	b.Helper()
	for deadline := time.Now().Add(patience); !same(peers); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			b.Fatal("contexts or sums differ")
		}
	}
}

// same reports whether all peers know the same.
func same(peers []*indexed) bool {
	want := plainDigests(peers[0].index.All())
	for _, p := range peers[1:] {
		if !maps.Equal(plainDigests(p.index.All()), want) {
			return false
		}
	}
	return true
}

// plainDigests leaves out what is no part of a context's identity.
func plainDigests(in map[crdt.StreamID]crdt.Digest) map[crdt.StreamID]string {
	out := make(map[crdt.StreamID]string, len(in))
	for id, d := range in {
		c := d.Context
		out[id] = fmt.Sprint(c.Epoch, c.Anchor, c.Floor, c.Voids, c.Above, c.Lost, d.Base)
	}
	return out
}

// teller makes one engine's batches: runs of blocks that go on where their
// sequence ended, sequences of sequenceBlocks.
type teller struct {
	id    crdt.StreamID
	seq   uint64 // of the last slot
	heads [tellerSeqs]head
	seqs  uint64 // sequences begun
	build crdt.Builder
}

type head struct {
	number uint64 // names the sequence's content
	blocks int
	last   uint64 // handle
}

const (
	tellerSeqs     = 32 // sequences at a time
	sequenceBlocks = 256
)

func newTeller(i int) *teller {
	return &teller{id: crdt.StreamID(fmt.Sprintf("http://10.0.%d.%d:8000#0", i/250, i%250))}
}

// mix is splitmix64's finisher.
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// hash is the token hash of one block of a sequence.
func (t *teller) hash(number uint64, block int) uint64 {
	return mix(uint64(crdtHash(t.id))<<32 ^ number<<12 ^ uint64(block))
}

func crdtHash(id crdt.StreamID) (h uint32) {
	for _, c := range []byte(id) {
		h = h*16777619 ^ uint32(c)
	}
	return h
}

// next is the next batch, a run of blocks.
func (t *teller) next(b testing.TB, blocks int) crdt.Slot {
	h := &t.heads[t.seq%tellerSeqs]
	if h.blocks%sequenceBlocks == 0 {
		t.seqs++
		*h = head{number: t.seqs}
	}
	var words [2][sequenceBlocks]uint64
	handles, hashes := words[0][:blocks], words[1][:blocks]
	for i := range blocks {
		hashes[i] = t.hash(h.number, h.blocks+i)
		handles[i] = mix(hashes[i]) | 1
	}
	op := crdt.Op{Main: true, PerPage: 1, HasParent: h.blocks > 0, Parent: h.last, Root: uint64(benchHasher.Root("bench"))}
	t.build.Reset()
	t.build.Store(op, handles, hashes)
	h.blocks += blocks
	h.last = handles[blocks-1]
	t.seq++
	slot, err := t.build.Slot(t.seq, time.Now().UnixMicro())
	if err != nil {
		b.Fatal(err)
	}
	return slot
}

// keys are the block keys of a sequence.
func (t *teller) keys(number uint64) []radix.Key {
	keys := make([]radix.Key, 0, sequenceBlocks)
	k := benchHasher.Root("bench")
	for i := range sequenceBlocks {
		k = benchHasher.Chain(k, radix.TokenHash(t.hash(number, i)))
		keys = append(keys, k)
	}
	return keys
}

// told is how many blocks of a sequence were told.
func (t *teller) told(number uint64) int {
	for i := range t.heads {
		if t.heads[i].number == number {
			return t.heads[i].blocks
		}
	}
	return sequenceBlocks
}

// matches checks that every peer finds samples of what was told, as deep as it
// was told.
func matches(b testing.TB, peers []*indexed, tellers []*teller, samples int) {
	b.Helper()
	var v index.View
	for range samples {
		t := tellers[rand.IntN(len(tellers))]
		if t.seqs == 0 {
			continue
		}
		number := 1 + rand.Uint64N(t.seqs)
		for _, p := range peers {
			p.index.Match(t.keys(number), &v)
			if got := v.Depth(p.index.Ref(t.id)).GPU; got != t.told(number) {
				b.Fatalf("%s finds %d blocks of %s, %d were told", p.cfg.Name, got, t.id, t.told(number))
			}
		}
	}
}

// flow tells batches at a rate until stopped, each stream's by its owner.
type flow struct {
	quit chan struct{}
	wg   sync.WaitGroup
	sent int
	took time.Duration
}

// ingest folds one batch at its owner and tells the others.
func (p *indexed) ingest(id crdt.StreamID, slots ...crdt.Slot) {
	now := time.Now().UnixMilli()
	p.index.Apply(&crdt.Delta{Stream: id, Epoch: 1, Anchor: 1, Slots: slots}, now)
	p.Post(gossip.Ingested{Stream: id, Epoch: 1, Slots: crdt.SpansOf(slots), ReceivedAt: now, First: true})
}

// begin tells rate blocks a second, in batches, or as many as the machine can;
// stream i is peer i's, in turn.
func begin(b testing.TB, peers []*indexed, tellers []*teller, rate, blocks int) *flow {
	f := &flow{quit: make(chan struct{})}
	f.wg.Go(func() {
		began := time.Now()
		for {
			f.took = time.Since(began)
			wait := time.Duration(0)
			if f.sent >= int(f.took.Seconds()*float64(rate)/float64(blocks)) {
				wait = time.Millisecond
			}
			select {
			case <-f.quit:
				return
			case <-time.After(wait):
			}
			for n := 0; n < 64 && f.sent < int(time.Since(began).Seconds()*float64(rate)/float64(blocks)); n++ {
				i := f.sent % len(tellers)
				peers[i%len(peers)].ingest(tellers[i].id, tellers[i].next(b, blocks))
				f.sent++
			}
		}
	})
	return f
}

func (f *flow) end() {
	close(f.quit)
	f.wg.Wait()
}
