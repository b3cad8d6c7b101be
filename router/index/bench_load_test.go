package index

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/radix"
	"github.com/banyan-llm/banyan/radix/workload"
)

// loadShape is what the streams whose snapshots are loaded hold.
type loadShape struct {
	name      string
	facts     int
	sequences int // a stream's at a time, in events of 16 blocks; 1: runs of 256
	shared    int // of 256 blocks, so many are every stream's
}

// BenchmarkLoad joins the snapshots of 64 streams to an empty index, as a peer
// does that comes new: what its writer does alone. of-chase is a fact's
// processor time in steps of the chase, least-ns/fact that of the best round,
// longest-cpu-ms the longest hold of the writer's lock, in processor time too.
func BenchmarkLoad(b *testing.B) {
	for _, shape := range []loadShape{
		{"turns", 10_000_000, 32, 0},
		{"runs", 10_000_000, 1, 0},
		{"shared", 10_000_000, 32, 128},
		{"small", 1_000_000, 32, 0},
	} {
		b.Run(shape.name, func(b *testing.B) { loading(b, shape) })
	}
}

func loading(b *testing.B, shape loadShape) {
	b.StopTimer()
	snaps := snapshots(b, shape)
	var cpu, longest time.Duration
	least := time.Duration(1 << 62)
	var chase chaser
	var st Stats
	for range b.N {
		x := benchIndex()
		chase.run(50_000)
		begin := cpuTime()
		b.StartTimer()
		for _, snap := range snaps {
			longest = max(longest, joinTimed(b, x, snap))
		}
		b.StopTimer()
		took := cpuTime() - begin
		cpu, least = cpu+took, min(least, took)
		chase.run(50_000)
		if st = x.Stats(); st.Facts < shape.facts || st.Loose != 0 {
			b.Fatalf("%+v", st)
		}
		for _, snap := range snaps {
			if d, _ := x.Digest(snap.Stream); d.Base != snap.Base {
				b.Fatalf("%s: %+v, want %+v", snap.Stream, d.Base, snap.Base)
			}
		}
		x.Close()
	}
	facts := float64(st.Facts * b.N)
	b.ReportMetric(float64(cpu)/facts, "cpu-ns/fact")
	b.ReportMetric(float64(cpu)/facts/chase.ns(), "of-chase")
	b.ReportMetric(float64(least)/float64(st.Facts), "least-ns/fact")
	b.ReportMetric(chase.ns(), "chase-ns")
	b.ReportMetric(float64(longest)/1e6, "longest-cpu-ms")
	b.ReportMetric(float64(st.Bytes)/float64(st.Facts), "B/fact")
}

// joinTimed is Join with the longest of its holds.
func joinTimed(b *testing.B, x *Index, snap *crdt.Snapshot) (longest time.Duration) {
	var join *crdt.Joining
	timed := func(f func() error) {
		x.on(snap.Stream, 1, func(*crdt.Stream) {
			begin := cpuTime()
			if err := f(); err != nil {
				b.Fatal(err)
			}
			longest = max(longest, cpuTime()-begin)
		})
	}
	timed(func() (err error) {
		join, err = x.streamLocked(snap.Stream).BeginJoin(snap, 1)
		return err
	})
	for done := false; !done; {
		timed(func() (err error) {
			done, err = join.Next(1)
			return err
		})
	}
	return longest
}

// snapshots are those of 64 streams.
func snapshots(b *testing.B, shape loadShape) []*crdt.Snapshot {
	b.Helper()
	const streams, blocks, sequence = 64, 16, 256
	donor := benchIndex()
	defer donor.Close()
	size := blocks
	if shape.sequences == 1 {
		size = sequence
	}
	hash := func(stream int, number, block uint64) uint64 {
		if block < uint64(shape.shared) {
			stream = 0
		}
		return workload.Mix(uint64(stream)<<50 ^ number<<12 ^ block)
	}
	var snaps []*crdt.Snapshot
	slots := shape.facts/streams/size + 1
	for i := range streams {
		id := crdt.StreamID(fmt.Sprintf("http://h%d#0", i))
		for n := range uint64(slots) {
			round := n / uint64(shape.sequences)
			number := round/(sequence/uint64(size))*uint64(shape.sequences) + n%uint64(shape.sequences)
			from := round % (sequence / uint64(size)) * uint64(size)
			op := crdt.Op{Main: true, PerPage: 1, Root: uint64(radix.Key(7))}
			handles, hashes := make([]uint64, size), make([]uint64, size)
			for j := range handles {
				hashes[j] = hash(i, number, from+uint64(j))
				handles[j] = workload.Mix(hashes[j]+uint64(i)) | 1
			}
			if from > 0 {
				op.HasParent, op.Parent = true, workload.Mix(hash(i, number, from-1)+uint64(i))|1
			}
			var build crdt.Builder
			build.Store(op, handles, hashes)
			s, err := build.Slot(n+1, int64(n+1))
			if err != nil {
				b.Fatal(err)
			}
			donor.Apply(&crdt.Delta{Stream: id, Epoch: 1, Anchor: 1, Slots: []crdt.Slot{s}}, 1)
		}
		snap := donor.Cut(id)
		for p := range snap.Pieces {
			snap.Pieces[p] = slices.Clone(snap.Pieces[p])
		}
		snaps = append(snaps, snap)
	}
	return snaps
}
