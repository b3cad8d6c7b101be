//go:build e2e

package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/banyan-llm/banyan/router/console"
)

// madeUp is a mesh that exists only as a status document: sizes and troubles
// that a test cannot bring about by processes.
type madeUp struct {
	peers, replicas, pieces int
	change                  func(s *console.Status)
}

// madeUpPages are the pages that are looked at and judged.
var madeUpPages = map[string]madeUp{
	"healthy":  {peers: 3, replicas: 4, pieces: 40},
	"sixteen":  {peers: 3, replicas: 16, pieces: 200},
	"large":    {peers: 24, replicas: 64, pieces: 5000},
	"empty":    {peers: 1, change: func(s *console.Status) { s.Requests = console.Requests{} }},
	"diverged": {peers: 5, replicas: 8, pieces: 120, change: diverge},
}

func at[T any](v T) *T { return &v }

// status draws the document; the same each time but for the clock.
func (m madeUp) status() *console.Status {
	rnd := rand.New(rand.NewPCG(7, uint64(m.replicas)))
	now := time.Now().UnixMilli()
	s := &console.Status{
		Name: "router-a", PeerID: "00", Version: "1.4.0", Label: "pool-a", Policy: "ttft", Grid: 16, TimeMs: now, UptimeS: 93_781, Ready: true,
		Tree: console.Tree{Facts: uint64(m.pieces) * 1310, Bytes: int64(m.pieces) * 1310 * 38, Predicted: uint64(m.pieces) * 12},
		Mesh: console.Mesh{
			Peers: m.peers, PropagationMs: console.Quantiles{P50: at(3.1), P99: at(11.8), Count: 9000},
			BytesIn: map[string]uint64{"slots": 310 << 20}, BytesOut: map[string]uint64{"slots": 290 << 20},
		},
		Requests: console.Requests{
			Total: 812_344, Failed: 3, PromptTokens: 2_100_000_000, MatchedTokens: 1_610_000_000, CachedTokens: 1_570_000_000, Rate: 14,
			TTFTMs:  console.Quantiles{P50: at(182.0), P99: at(1130.0), Count: 800_000},
			AddedMs: console.Quantiles{P50: at(.14), P99: at(.9), Count: 800_000},
			Recent: &console.Recent{
				Seconds: 58, Total: 840, PromptTokens: 2_300_000, MatchedTokens: 1_850_000, CachedTokens: 1_820_000,
				TTFTMs: console.Quantiles{P50: at(164.0), P99: at(980.0), Count: 840}, AddedMs: console.Quantiles{P50: at(.13), P99: at(.7), Count: 840},
			},
		},
		Peers: []console.Peer{}, Replicas: []console.Replica{}, Prefixes: []console.Prefix{}, Problems: []console.Problem{},
	}
	for i := range m.peers {
		p := console.Peer{
			ID: fmt.Sprintf("%02x", i), Name: "router-" + string(rune('a'+i)), Address: fmt.Sprintf("10.0.0.%d:7946", 4+i), Self: i == 0, State: "alive", Ready: true,
			Version: "1.4.0", Rate: at(10 + 10*rnd.Float64()), Facts: at(s.Tree.Facts), Memory: at(uint64(300+rnd.IntN(20)) << 20), ViewAges: map[string]int64{},
		}
		if i > 0 {
			p.ViewAgeMs = at(float64(6 + rnd.IntN(9)))
		}
		for j := range m.peers {
			if j != i {
				p.ViewAges[fmt.Sprintf("%02x", j)] = int64(6 + rnd.IntN(9))
			}
		}
		s.Peers = append(s.Peers, p)
	}
	for i := range m.replicas {
		s.Replicas = append(s.Replicas, console.Replica{
			Name: fmt.Sprintf("gpu%02d", i), URL: fmt.Sprintf("http://10.0.1.%d:8000", 10+i), Engine: "vllm", EngineFrom: "/version", BlockSize: at(16), Role: "both", State: "up",
			Models: []string{"llama-3.3-70b"}, Tokenizer: "engine", Source: "static", Inflight: rnd.IntN(34), Uncached: int64(rnd.IntN(30_000)), KVUse: at(.5 + .45*rnd.Float64()),
			Cached: at(.6 + .3*rnd.Float64()), Running: at(12), Queued: at(0), Tries: 200 + i, Failed: i % 3, TTFTMs: at(140 + 9*float64(i)),
			Stream: console.Stream{
				State: "ok", Owners: []string{"router-a", "router-b"}, Epoch: 0x19a2b3c4d5, Floor: 918_222, Facts: 62_500, Linked: 62_500,
				Digest: "5a0c9e13b7d2f648", LastEventMs: at(int64(40)),
			},
		})
	}
	s.Prefixes = m.tree(rnd, s.Replicas)
	for i := range 90 {
		wave := 1 + .2*math.Sin(float64(i)/9) + .1*rnd.Float64()
		s.History = append(s.History, console.Point{TimeMs: now - int64(89-i)*10_000, Rate: at(42 * wave), Cached: at(.6 * wave), TTFT: at(150 * wave), Added: at(.12 * wave)})
	}
	if m.change != nil {
		m.change(s)
	}
	s.Judge()
	return s
}

// tree grows pieces at random, shared ones near the root, as system prompts
// and conversations do.
func (m madeUp) tree(rnd *rand.Rand, replicas []console.Replica) []console.Prefix {
	out := []console.Prefix{}
	for i := range m.pieces {
		p := console.Prefix{Key: fmt.Sprintf("%016x", rnd.Uint64()), Parent: "0000000000000000", Blocks: 4 + rnd.IntN(60), Model: "llama-3.3-70b"}
		if i%3 > 0 {
			p.Tenant = []string{"acme", "globex"}[i%2]
		}
		holders := len(replicas)
		p.HitShare = at(.3 - .07*float64(min(i, 3)))
		if i > 2 {
			above := out[int(float64(i)*rnd.Float64()*rnd.Float64()*rnd.Float64())]
			p.Parent, p.Under, p.Tokens = above.Key, above.Key, above.Tokens
			share := *above.HitShare * (.1 + .5*rnd.Float64())
			p.HitShare = &share
			holders = 1 + rnd.IntN(max(1, len(above.Holders)/2))
		}
		p.Tokens += 16 * p.Blocks
		from := rnd.IntN(len(replicas))
		for j := range holders {
			p.Holders = append(p.Holders, replicas[(from+j)%len(replicas)].Name)
		}
		out = append(out, p)
	}
	return out
}

// diverge is a bad day: peers that disagree, one that fails, a replica down.
func diverge(s *console.Status) {
	s.Mesh.Divergent = 2
	s.Peers[3].State, s.Peers[3].Ready, s.Peers[3].Rate, s.Peers[3].Facts, s.Peers[3].Memory = "failed", false, nil, nil, nil
	s.Peers[4].Draining = true
	s.Peers[1].ViewAges["02"], s.Peers[2].ViewAges["01"] = 1840, 2210
	s.Peers[2].ViewAgeMs = at(2210.0)
	r := &s.Replicas[3]
	r.State, r.Reason, r.SinceMs, r.Inflight = "down", "connection refused", 12_000, 0
	s.Replicas[5].State = "draining"
	s.Replicas[6].Stream.State, s.Replicas[6].Stream.Detail = "quarantined", "its numbering restarts again and again; two processes behind one URL look like that"
	s.Problems = append(s.Problems,
		console.Problem{Text: "gpu03 is down: connection refused", Help: "Requests go to the others; see deploy/README.md#replica-down"},
		console.Problem{Text: "Events of gpu06 are ignored: its numbering restarts again and again, as with two engines behind one URL; give each engine a URL of its own", Help: "Its cache is predicted meanwhile"},
		console.Problem{Text: "Peer router-d failed", Help: "The others took over. Restart it; if it is gone for good, do nothing: it leaves this list an hour after it failed"},
		console.Problem{Text: "Load data of peer router-c is 2.2 s old", Help: "The peer is dead, short of CPU or cut off. A dead peer is listed as failed after 6 to 22 s; if it is not, look at its CPU limit and the link"},
		console.Problem{Text: "Peers disagree on the cached blocks of 2 replicas", Help: "It repairs itself, and requests go on. Save `banyan status --json` of two peers and report a bug"},
	)
}

// chatter fills a console with decisions and events.
func (m madeUp) chatter(c *console.Console) {
	s := m.status()
	quiet := *s
	quiet.Replicas, quiet.Peers, quiet.Mesh = append([]console.Replica{}, s.Replicas...), append([]console.Peer{}, s.Peers...), console.Mesh{}
	for i := range quiet.Replicas {
		quiet.Replicas[i].State, quiet.Replicas[i].Stream.State = "up", "ok"
	}
	for i := range quiet.Peers {
		quiet.Peers[i].State, quiet.Peers[i].Ready, quiet.Peers[i].Draining = "alive", true, false
	}
	c.Observe(&quiet)
	c.Observe(s)
	rnd := rand.New(rand.NewPCG(8, 8))
	for i := range 30 {
		if len(s.Replicas) == 0 {
			return
		}
		d := console.Choice{
			TimeMs: s.TimeMs - int64(30-i)*310, Policy: "ttft", Replica: s.Replicas[rnd.IntN(len(s.Replicas))].Name, Reason: []string{"prefix", "prefix", "load", "spill", "session"}[i%5],
			Matched: 16 * rnd.IntN(120), Prompt: 2210, PredictedSeconds: .04 + rnd.Float64()/2,
		}
		for j, r := range s.Replicas {
			d.Candidates = append(d.Candidates, console.Option{Replica: r.Name, Score: .2 + float64(j)*.031, Confirmed: d.Matched, Expected: 16, Waiting: j % 3, Streams: j})
		}
		c.Decided(&d)
	}
}
