package index

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/radix"
	"github.com/banyan-llm/banyan/radix/workload"
)

// chainOfB are the tokens of chain i of workload B's shape: 64 shared blocks of
// one of so many prefixes, 192 of its own, 16 tokens each.
func chainOfB(i, prefixes int) (tokens []uint32) {
	prefix := workload.Mix(uint64(i)^0xabcd) % uint64(prefixes)
	for j := range 256 * 16 {
		seed := 1<<40 + uint64(i)<<20
		if j < 64*16 {
			seed = prefix << 20
		}
		tokens = append(tokens, uint32(workload.Mix(seed+uint64(j))%128_000))
	}
	return tokens
}

// storeOfB is a chain's store in pages of so many tokens, each handle of its
// prefix, as one event or as one a page.
func storeOfB(h *radix.Hasher, seq uint64, tokens []uint32, page int, apart bool) crdt.Slot {
	var b crdt.Builder
	up := uint64(7)
	var run []tok
	var handles, hashes []uint64
	for at := 0; at < len(tokens); at += page {
		for _, t := range tokens[at : at+page] {
			up = crdt.KeyHash(up, uint64(t)+1)
		}
		if page < 16 {
			run = append(run, tok{handle: up, tokens: tokens[at : at+page]})
		} else {
			handles, hashes = append(handles, up), append(hashes, uint64(h.Block(tokens[at:at+page])))
		}
	}
	op := crdt.Op{Mode: crdt.Flagged, Main: true, PerPage: 1, Root: uint64(testRoot)}
	switch {
	case page >= 16:
		b.Store(op, handles, hashes)
	case !apart:
		storeSmallRun(h, &b, op, run)
	default:
		for i := range run {
			storeSmallRun(h, &b, op, run[i:i+1])
			op.HasParent, op.Parent = true, run[i].handle
		}
	}
	s, err := b.Slot(seq, int64(seq))
	if err != nil {
		panic(err)
	}
	return s
}

// BenchmarkSmallPages is workload B's shape (1 to 3 of 64 holders a chain, 19
// chains a prefix) at a 125th of its size in pages of 1 token and of 16, beside
// each other: what a grid block of 16 tokens costs to store, to keep, to look up
// and to remove.
func BenchmarkSmallPages(b *testing.B) {
	const chains, prefixes = 160, 8
	for _, shape := range []struct {
		page  int
		apart bool
	}{{16, false}, {1, false}, {1, true}} {
		b.Run(fmt.Sprintf("page=%d/apart=%v", shape.page, shape.apart), func(b *testing.B) {
			for b.Loop() {
				smallRound(b, chains, prefixes, shape.page, shape.apart)
			}
		})
	}
}

func smallRound(b *testing.B, chains, prefixes, page int, apart bool) {
	x := newSmallIndex(16)
	defer x.Close()
	type event struct {
		id   crdt.StreamID
		slot crdt.Slot
	}
	var stores, removals []event
	seqs := [64]uint64{}
	prompts := make([][]uint32, chains)
	for i := range prompts {
		prompts[i] = chainOfB(i, prefixes)
		for k := range 1 + workload.Mix(10<<60+uint64(i))%3 {
			h := workload.Mix(11<<60+64*uint64(i)+k) % 64
			seqs[h]++
			stores = append(stores, event{crdt.StreamID(fmt.Sprintf("h%d", h)), storeOfB(x.hasher, seqs[h], prompts[i], page, apart)})
		}
	}
	for _, e := range stores { // the tails, as an engine that evicts
		var rb crdt.Builder
		handles := []uint64{}
		if err := e.slot.Ops(func(op *crdt.Op) bool {
			for i := range op.Handles.Len() {
				handles = append(handles, op.Handles.At(i))
			}
			return true
		}); err != nil {
			b.Fatal(err)
		}
		rb.Remove(crdt.Op{Mode: crdt.Flagged, Main: true}, handles[len(handles)/4:])
		h := e.id
		var n int
		if _, err := fmt.Sscanf(string(h), "h%d", &n); err != nil {
			b.Fatal(err)
		}
		seqs[n]++
		s, err := rb.Slot(seqs[n], int64(seqs[n]))
		if err != nil {
			b.Fatal(err)
		}
		removals = append(removals, event{h, s})
	}
	blocks := float64(len(stores) * 256)
	play := func(events []event) float64 {
		begin := time.Now()
		for _, e := range events {
			x.Apply(&crdt.Delta{Stream: e.id, Epoch: 1, Anchor: 1, Slots: []crdt.Slot{e.slot}}, 1)
		}
		return float64(time.Since(begin).Nanoseconds()) / blocks
	}
	before := liveBytes()
	b.ReportMetric(play(stores), "store-ns/block")
	facts := x.Stats().Facts
	b.ReportMetric(float64(liveBytes()-before+x.tree.Stats().Bytes)/(float64(facts)*float64(page)/16), "B/block")
	var v View
	keys := make([][]radix.Key, chains)
	for i := range keys {
		keys[i] = x.hasher.AppendKeys(nil, testRoot, 16, prompts[i])
	}
	begin := time.Now()
	for range 10 {
		for i := range keys {
			x.Match(keys[i], &v)
		}
	}
	b.ReportMetric(float64(time.Since(begin).Nanoseconds())/float64(10*chains), "match-ns")
	id := stores[len(stores)-1].id
	if d := v.Depth(x.Ref(id)); d.GPU != 256 {
		b.Fatalf("depth %+v", d)
	}
	b.ReportMetric(play(removals)*4/3, "remove-ns/block")
	runtime.KeepAlive(stores)
}

// liveBytes is what the heap holds.
func liveBytes() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
