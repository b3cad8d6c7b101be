package router

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/radix/workload"
	"github.com/banyan-llm/banyan/router/fleet"
	"github.com/banyan-llm/banyan/router/openai"
	"github.com/banyan-llm/banyan/router/policy"
	"github.com/banyan-llm/banyan/router/proxy"
)

// deciding is a peer that knows replicas, and a call for them.
type deciding struct {
	*Peer
	call   *proxy.Call
	tokens int
}

// newDeciding makes a peer whose replicas hold the call's prompt of token ids,
// from half of it to all.
func newDeciding(b testing.TB, replicas, tokens int) *deciding {
	b.Helper()
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
	d := &deciding{Peer: p, call: &proxy.Call{Endpoint: openai.Completions, Body: body}, tokens: tokens}
	d.tellAll(b)
	return d
}

// tellAll lets the replicas hold the call's prompt, from half of it to all.
func (d *deciding) tellAll(b testing.TB) {
	pr, err := d.path.prompts.readPrompt(context.Background(), d.call, "", &scratch{candidateSet: candidateSet{replicas: d.fleet.List()}})
	if err != nil || len(pr.keys.Hashes) == 0 {
		b.Fatalf("no keys: %+v %v", pr.keys.Scheme, err)
	}
	for i, r := range d.fleet.List() {
		n := len(pr.keys.Hashes)/2 + i*len(pr.keys.Hashes)/2/len(d.fleet.List()) + 1
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
		d.index.Apply(&crdt.Delta{Stream: r.Stream, Epoch: uint64(now), Anchor: 1, Slots: []crdt.Slot{slot}}, now)
	}
}

// decide picks once, as for a new call.
func (d *deciding) decide(b testing.TB) (target *proxy.Target, took time.Duration) {
	d.call.Memo = nil
	begin := time.Now()
	target, err := d.path.Pick(context.Background(), d.call)
	took = time.Since(begin)
	if err != nil || target.Matched < d.tokens/2 {
		b.Fatalf("picked %+v: %v", target, err)
	}
	return target, took
}

// BenchmarkPick is the whole decision for a prompt of token ids with replicas
// that hold more or less of it: token ids to keys, match, candidates, policy,
// and what is booked. decide-ns is what the request waits for, after-ns what is
// announced while it is under way. The budget for 64 replicas and 4,096 tokens
// is 6 us. The yardstick is taken in between.
func BenchmarkPick(b *testing.B) {
	for _, size := range []struct{ replicas, tokens int }{{64, 4096}, {8, 4096}, {256, 4096}, {64, 32_768}} {
		b.Run(fmt.Sprintf("%dx%d", size.replicas, size.tokens), func(b *testing.B) {
			d := newDeciding(b, size.replicas, size.tokens)
			d.path.picker.Announcer().Serve(true) // the queue is emptied here, to be measured
			var decide, after, chase times
			d.rounds(b, &chase, func() {
				target, took := d.decide(b)
				decide.add(took)
				after.add(timed(d.path.picker.Announcer().Settle))
				d.path.Done(target, proxy.Result{Status: 200, Duration: time.Millisecond})
			})
			decide.report(b, "decide")
			after.report(b, "after")
			chase.report(b, "chase")
		})
	}
}

// BenchmarkPickInService is BenchmarkPick of 64 replicas and 4,096 tokens in a
// running peer: what the request waits for includes waking who announces.
func BenchmarkPickInService(b *testing.B) {
	d := newDeciding(b, 64, 4096)
	if err := d.mesh.start(); err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { announce(ctx, d.path.picker.Announcer()) })
	b.Cleanup(func() { stop(); wg.Wait() })
	var decide, chase times
	d.rounds(b, &chase, func() {
		target, took := d.decide(b)
		decide.add(took)
		d.path.Done(target, proxy.Result{Status: 200, Duration: time.Millisecond})
		time.Sleep(20 * time.Microsecond) // until the next request comes
	})
	decide.report(b, "decide")
	chase.report(b, "chase")
}

// BenchmarkPickParts is BenchmarkPick of 64 replicas and 4,096 tokens, part by
// part of the same code.
func BenchmarkPickParts(b *testing.B) {
	d := newDeciding(b, 64, 4096)
	d.path.picker.Announcer().Serve(true) // the queue is emptied here, to be measured
	s := scratches.Get().(*scratch)
	var hash, match, gather, decide, book, after, chase times
	d.rounds(b, &chase, func() {
		now := time.Now()
		d.call.Memo = nil
		lora, err := d.path.directory.candidates(s, d.call)
		var pr *prompt
		hash.add(timed(func() { pr, err = d.path.prompts.readPrompt(context.Background(), d.call, lora, s) }))
		match.add(timed(func() { s.prompt = pr.prompt(); d.path.picker.Match(&s.prompt, &s.Scratch) }))
		gather.add(timed(func() {
			_, err = d.path.directory.candidates(s, d.call)
			d.path.picker.Look(&s.Scratch, d.path.view.seen(now), d.clock.ms(now), s.rand)
			d.path.gather(s, now)
		}))
		var choice policy.Decision
		decide.add(timed(func() {
			pol, _ := d.path.policyFor(d.call)
			d.path.picker.Ask(&s.Scratch, &s.prompt, d.path.session(d.call))
			choice = s.Decide(pol)
		}))
		var t *ticket
		book.add(timed(func() {
			t = s.ticket(&s.Cands[choice.Pos], pr, choice, now)
			d.path.picker.Book(&t.cost, nil, d.clock.ms(now))
			d.path.picker.Sent(&t.cost, &s.prompt, s.prompt.Blocks(choice.Matched), d.clock.ms(now))
			t.target("ttft", choice)
		}))
		after.add(timed(d.path.picker.Announcer().Settle))
		d.path.Done(&proxy.Target{Token: t}, proxy.Result{Status: 200, Duration: time.Millisecond})
		if err != nil {
			b.Fatal(err)
		}
	})
	for unit, t := range map[string]times{"hash": hash, "match": match, "gather": gather, "decide": decide, "book": book, "after": after, "chase": chase} {
		t.report(b, unit)
	}
}

// rounds runs step b.N times after some for warming up, and the yardstick now
// and then.
func (d *deciding) rounds(b *testing.B, chase *times, step func()) {
	for range 500 {
		step()
	}
	yardstick := loadChase()
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		step()
		if i%1024 == 0 {
			b.StopTimer()
			chase.add(yardstick.Step(1))
			b.StartTimer()
		}
	}
	b.StopTimer()
}

func timed(f func()) time.Duration {
	begin := time.Now()
	f()
	return time.Since(begin)
}

// times are samples of one thing.
type times []time.Duration

func (t *times) add(d time.Duration) { *t = append(*t, d) }

// report tells the mean and the median.
func (t times) report(b *testing.B, what string) {
	b.Helper()
	slices.Sort(t)
	sum := time.Duration(0)
	for _, d := range t {
		sum += d
	}
	b.ReportMetric(float64(sum.Nanoseconds())/float64(len(t)), what+"-ns")
	b.ReportMetric(float64(t[len(t)/2].Nanoseconds()), what+"-p50-ns")
}

// loadChase is the yardstick: each step of it is one dependent miss.
var loadChase = sync.OnceValue(workload.NewChase)
