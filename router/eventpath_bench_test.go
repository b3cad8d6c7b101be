package router

import (
	"bytes"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/radix"
	"github.com/banyan-llm/banyan/router/index"
	"github.com/banyan-llm/banyan/router/kvevents"
	"github.com/banyan-llm/banyan/router/kvevents/follow"
)

// Shape of the event path's traffic.
const (
	pathStreams  = 8
	pathSeqs     = 32 // sequences an engine runs at the same time
	pathGrid     = 16
	pathBlocks   = 200_000 // told in one pass
	pathTokenMax = 128_000
	pathHeld     = 4_000 // an engine's cache
)

// teller makes one engine's batches.
type teller struct {
	heads  [pathSeqs]uint64 // last block of each sequence; 0: none
	next   uint64           // next handle
	oldest uint64           // next to be evicted
	told   bytes.Buffer     // all batches in one piece: the collector must not find them one by one
	ends   []int
}

// stored is a BlockStored in vLLM's map form.
func (e *teller) stored(seq, blocks int) map[string]any {
	hashes, tokens := make([]any, blocks), make([]any, blocks*pathGrid)
	for i := range hashes {
		e.next++
		hashes[i] = e.next * 0x9e3779b97f4a7c15
	}
	for i := range tokens {
		tokens[i] = (e.next*977 + uint64(i)*131) % pathTokenMax
	}
	var parent any
	if e.heads[seq] != 0 {
		parent = e.heads[seq]
	}
	e.heads[seq] = e.next * 0x9e3779b97f4a7c15
	return map[string]any{
		"type": "BlockStored", "block_hashes": hashes, "parent_block_hash": parent, "token_ids": tokens, "block_size": pathGrid,
		"lora_id": nil, "medium": "GPU", "lora_name": nil, "group_idx": 0, "kv_cache_spec_kind": "full_attention",
	}
}

// removed is a BlockRemoved of the oldest block.
func (e *teller) removed() map[string]any {
	e.oldest++
	return map[string]any{"type": "BlockRemoved", "block_hashes": []any{e.oldest * 0x9e3779b97f4a7c15}, "medium": "GPU", "group_idx": 0}
}

func (e *teller) tell(events ...any) {
	enc := msgpack.NewEncoder(&e.told)
	enc.UseCompactInts(true)
	if err := enc.Encode([]any{1.7e9 + float64(len(e.ends))/100, events, 0}); err != nil {
		panic(err)
	}
	e.ends = append(e.ends, e.told.Len())
}

// batch is the n-th batch.
func (e *teller) batch(n int) []byte {
	from := 0
	if n > 0 {
		from = e.ends[n-1]
	}
	return e.told.Bytes()[from:e.ends[n]]
}

// shapes are what a batch holds; each returns the blocks it told.
var shapes = []struct {
	name string
	tell func(e *teller, i int) int
}{
	{"prefill64", func(e *teller, i int) int { // one prompt of 1,024 tokens
		e.heads[i%pathSeqs] = 0
		e.tell(e.stored(i%pathSeqs, 64))
		return 64
	}},
	{"step32", func(e *teller, _ int) int { // every sequence fills a block, as many are evicted
		events := make([]any, 0, 2*pathSeqs)
		for s := range pathSeqs {
			if events = append(events, e.stored(s, 1)); e.next > pathHeld {
				events = append(events, e.removed())
			}
		}
		e.tell(events...)
		return len(events)
	}},
	{"single", func(e *teller, i int) int {
		e.tell(e.stored(i%pathSeqs, 1))
		return 1
	}},
}

// BenchmarkEventPath is bytes to tree on one core: decode, pack, continuity,
// stream, fold, links and tree, one delivery a batch. A block is one that was
// stored or removed. The budget is 1 M a second.
func BenchmarkEventPath(b *testing.B) {
	hasher := radix.NewHasher([]byte("0123456789abcdef0123456789abcdef"))
	for _, shape := range shapes {
		b.Run(shape.name, func(b *testing.B) {
			var engines [pathStreams]teller
			blocks, batches := 0, 0
			for ; blocks < pathBlocks; batches++ {
				blocks += shape.tell(&engines[batches%pathStreams], batches/pathStreams)
			}
			var mallocs uint64
			var cpu time.Duration
			for range b.N {
				b.StopTimer()
				x := index.New(index.Config{Hasher: hasher, RingBytes: 8 << 20, Predictions: 1 << 10})
				runtime.GC()
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				begin := cpuTime()
				b.StartTimer()
				applyAll(b, x, hasher, engines[:])
				b.StopTimer()
				cpu += cpuTime() - begin
				runtime.ReadMemStats(&after)
				mallocs += after.Mallocs - before.Mallocs
				if st := x.Stats(); st.Facts == 0 || st.Loose != 0 {
					b.Fatalf("%+v", st)
				}
				x.Close()
				b.StartTimer()
			}
			b.ReportMetric(float64(blocks*b.N)/b.Elapsed().Seconds()/1e6, "Mblocks/s")
			b.ReportMetric(float64(cpu)/float64(blocks*b.N), "cpu-ns/block")
			b.ReportMetric(float64(mallocs)/float64(batches*b.N), "allocs/batch")
		})
	}
}

// applyAll takes every engine's batches in turn.
func applyAll(b *testing.B, x *index.Index, hasher *radix.Hasher, engines []teller) {
	type stream struct {
		id  crdt.StreamID
		dec kvevents.Decoder
		pk  *kvevents.Packer
		tr  *follow.Tracker
	}
	streams := make([]stream, len(engines))
	for i := range streams {
		s := &streams[i]
		s.id, s.tr = crdt.NewStreamID(fmt.Sprintf("http://h%d", i), 0), follow.New(false)
		s.tr.Step(0, kvevents.Prior{}, follow.Connected{})
		s.tr.Step(0, kvevents.Prior{}, follow.Identified{Start: 1})
		s.pk, _ = kvevents.NewPacker(kvevents.PackConfig{Engine: kvevents.VLLM, Grid: pathGrid, Hasher: hasher})
	}
	for n := range engines[0].ends {
		for i := range streams {
			s := &streams[i]
			if n >= len(engines[i].ends) {
				continue
			}
			batch, err := s.dec.Decode(engines[i].batch(n))
			if err != nil || batch.Dropped > 0 {
				b.Fatal(err, batch.FirstFault)
			}
			slot, _, err := s.pk.Pack(uint64(n)+1, batch)
			if err != nil {
				b.Fatal(err)
			}
			p, _ := x.Prior(s.id)
			prior := kvevents.Prior{Epoch: p.Epoch, Anchor: p.Anchor, Floor: p.Floor, LastSeq: p.Last, LastTS: p.LastTS}
			out := s.tr.Step(int64(n), prior, follow.Live{Slot: slot})
			x.Apply(&crdt.Delta{Stream: s.id, Epoch: out.Epoch, Anchor: out.Anchor, Slots: out.Deliver}, int64(n))
		}
	}
}
