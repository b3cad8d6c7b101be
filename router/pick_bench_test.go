package router

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/router/fleet"
	"github.com/banyan-llm/banyan/router/openai"
	"github.com/banyan-llm/banyan/router/proxy"
)

// BenchmarkPick is the whole decision for a prompt of 4,096 token ids with 64
// replicas that hold more or less of it: token ids to keys, match, candidates,
// policy, and what is booked and announced; and its end. The budget of the
// decision is 6 us.
func BenchmarkPick(b *testing.B) {
	const replicas, tokens = 64, 4096
	cfg := DefaultConfig()
	cfg.HTTP.Listen, cfg.Admin.Listen, cfg.Mesh.Bind, cfg.Mesh.Insecure = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0", true
	for i := range replicas {
		cfg.Replicas = append(cfg.Replicas, fleet.Spec{
			Name: fmt.Sprintf("r%d", i), URL: fmt.Sprintf("http://127.0.0.1:%d", 10_000+i), Engine: "vllm", Model: "m",
		})
	}
	p, err := New(cfg, Options{Version: "bench"})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { p.mesh.stop(); p.close() })
	var ids strings.Builder
	for i := range tokens {
		fmt.Fprintf(&ids, ",%d", (i*977+31)%128_000)
	}
	body, err := openai.Parse(openai.Completions, []byte(`{"model":"m","max_tokens":64,"prompt":[`+ids.String()[1:]+`]}`))
	if err != nil {
		b.Fatal(err)
	}
	ctx := context.Background()
	call := &proxy.Call{Endpoint: openai.Completions, Body: body}
	tellAll(b, p, call)

	step := func() (decide time.Duration) {
		call.Memo = nil
		begin := time.Now()
		target, err := p.Pick(ctx, call)
		decide = time.Since(begin)
		if err != nil || target.Matched < tokens/2 {
			b.Fatalf("picked %+v: %v", target, err)
		}
		p.Done(target, proxy.Result{Status: 200, Duration: time.Millisecond})
		return decide
	}
	for range 1000 {
		step()
	}
	b.ReportAllocs()
	b.ResetTimer()
	var sum time.Duration
	for range b.N {
		sum += step()
	}
	b.ReportMetric(float64(sum.Nanoseconds())/float64(b.N), "decide-ns")
}

// tellAll lets the replicas hold the call's prompt, from half of it to all.
func tellAll(b *testing.B, p *Peer, call *proxy.Call) {
	pr, err := p.readPrompt(context.Background(), call, "", p.fleet.List())
	if err != nil || len(pr.keys.Hashes) == 0 {
		b.Fatalf("no keys: %+v %v", pr.keys.Scheme, err)
	}
	for i, r := range p.fleet.List() {
		n := len(pr.keys.Hashes)/2 + i*len(pr.keys.Hashes)/2/len(p.fleet.List()) + 1
		var build crdt.Builder
		handles, hashes := make([]uint64, n), make([]uint64, n)
		for k := range handles {
			handles[k], hashes[k] = uint64(k)+1, uint64(pr.keys.Hashes[k])
		}
		build.Store(crdt.Op{Mode: crdt.Counted, Tier: crdt.TierGPU, PerPage: 1, Main: true, Root: uint64(pr.keys.Root)}, handles, hashes)
		slot, err := build.Slot(1, 1)
		if err != nil {
			b.Fatal(err)
		}
		now := time.Now().UnixMilli()
		p.index.Apply(&crdt.Delta{Stream: r.Stream, Epoch: uint64(now), Anchor: 1, Slots: []crdt.Slot{slot}}, now)
	}
}
