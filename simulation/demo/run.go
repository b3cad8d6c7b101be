package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/banyan-llm/banyan/simulation/client"
	"github.com/banyan-llm/banyan/simulation/workload"
)

// vocabulary is more than the stand-ins' words, less than their vocabulary:
// prompts go as token ids.
const vocabulary = 128 << 10

// policies are compared in this order; peers come and go under the last one.
var policies = []string{"random", "round_robin", "ttft"}

// Bounds of the demo's waiting.
const (
	readyTimeout    = 30 * time.Second
	convergeTimeout = 20 * time.Second
	stopTimeout     = 10 * time.Second
	pollEvery       = 20 * time.Millisecond
)

const model = "demo-8b"

// Config says how large the demo is.
type Config struct {
	Binary   string // path of the banyan binary
	Peers    int
	Replicas int
	Requests int // all policies together
	Seed     uint64
	Progress io.Writer // what is going on, for people
	KeepLogs string    // folder for the children's logs; empty: a temporary one
}

// Validate reports every fault at once.
func (c *Config) Validate() error {
	var errs []error
	bound := func(name string, v, low, high int) {
		if v < low || v > high {
			errs = append(errs, fmt.Errorf("--%s: %d is not from %d to %d", name, v, low, high))
		}
	}
	bound("peers", c.Peers, 2, 8)
	bound("replicas", c.Replicas, 1, 16)
	bound("requests", c.Requests, 30, 100_000)
	return errors.Join(errs...)
}

// stage is the running demo.
type stage struct {
	cfg      Config
	dir      string
	balancer *balancer

	mu       sync.Mutex // guards below
	peers    []*child   // living ones
	started  int        // peers ever started, for their names
	replicas []*child
}

// Run plays the demo and judges it. The report is complete unless err is set.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	begin := time.Now()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &stage{cfg: cfg, dir: cfg.KeepLogs}
	if s.dir != "" {
		if err := os.MkdirAll(s.dir, 0o755); err != nil {
			return nil, err
		}
	}
	if s.dir == "" {
		dir, err := os.MkdirTemp("", "banyan-demo-")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir)
		s.dir = dir
	}
	defer func() { s.stopAll(ctx.Err() == nil) }()
	if err := s.raise(ctx); err != nil {
		return nil, err
	}
	var wg sync.WaitGroup
	bctx, stopBalancer := context.WithCancel(ctx)
	wg.Go(func() { s.balancer.run(bctx) })
	defer wg.Wait()
	defer stopBalancer()

	r := &Report{Peers: cfg.Peers, Replicas: cfg.Replicas, Policies: map[string]PolicyReport{}}
	for _, policy := range policies {
		if err := s.play(ctx, policy, r); err != nil {
			return nil, err
		}
	}
	s.judge(ctx, r)
	r.Seconds = time.Since(begin).Seconds()
	return r, ctx.Err()
}

func (s *stage) say(format string, args ...any) {
	fmt.Fprintf(s.cfg.Progress, format+"\n", args...)
}

// raise starts replicas, then peers, and waits until the peers see each other.
func (s *stage) raise(ctx context.Context) error {
	kept := ""
	if s.cfg.KeepLogs == "" {
		kept = " until it ends; --logs FOLDER keeps them"
	}
	s.say("starting %d mock replicas and %d router peers (logs in %s%s)", s.cfg.Replicas, s.cfg.Peers, s.dir, kept)
	for i := range s.cfg.Replicas {
		layout := []string{"map", "array"}[i%2]
		c, err := start(ctx, s.cfg.Binary, s.dir, fmt.Sprintf("r%d", i), "replica", "--name", fmt.Sprintf("r%d", i),
			"--listen", "127.0.0.1:0", "--events", "tcp://127.0.0.1:0", "--replay", "tcp://127.0.0.1:0",
			"--layout", layout, "--model", model, "--profile", "demo")
		if err != nil {
			return err
		}
		s.replicas = append(s.replicas, c)
	}
	if err := s.writeConfig(); err != nil {
		return err
	}
	b, err := newBalancer()
	if err != nil {
		return err
	}
	s.balancer = b
	for range s.cfg.Peers {
		if _, err := s.addPeer(ctx); err != nil {
			return err
		}
	}
	return s.waitFor(ctx, readyTimeout, "all peers see each other and are ready", func() bool {
		return s.agree(ctx, s.cfg.Peers) == nil
	})
}

// play sends the traffic under one policy, with empty caches at its start.
func (s *stage) play(ctx context.Context, policy string, r *Report) error {
	if err := s.resetCaches(ctx); err != nil {
		return err
	}
	load, err := workload.Generate("demo", workload.Options{Seed: s.cfg.Seed, Requests: s.cfg.Requests / len(policies)})
	if err != nil {
		return err
	}
	s.say("policy %-11s %d requests", policy, len(load.Requests))
	c := client.New(s.balancer.url(), true) // a new connection each time: the balancer chooses a peer each time
	c.Timeout = requestTimeout
	t := &traffic{client: c, writer: client.Writer{Model: model, Vocab: vocabulary}, load: load, policy: policy}
	excused := func(client.Answer) bool { return false }
	var upset *upset
	if policy == policies[len(policies)-1] {
		upset = newUpset(s, len(load.Requests))
		t.sent = upset.sent
		excused = upset.excused
	}
	t.run(ctx)
	if upset != nil {
		if err := upset.finish(r, t.answers); err != nil {
			return err
		}
	}
	p := summarise(t.answers, s.cfg.Replicas, excused)
	r.Policies[policy] = p
	r.Requests += p.Requests
	r.Failed += p.Failed
	for i, a := range t.answers {
		if a.Retried {
			r.Retried++
		}
		if a.Err != nil && !excused(a) && ctx.Err() == nil {
			s.say("  request %d failed: %v", i, a.Err)
		}
	}
	return ctx.Err()
}

// judge compares the peers' digests and sets every check.
func (s *stage) judge(ctx context.Context, r *Report) {
	s.say("comparing digests of all peers")
	var why error
	err := s.waitFor(ctx, convergeTimeout, "all digests are equal", func() bool {
		why = s.agree(ctx, s.cfg.Peers)
		return why == nil
	})
	r.Converged = err == nil
	streams, facts := 0, uint64(0)
	for _, st := range s.statuses(ctx) {
		r.DivergentStreams = max(r.DivergentStreams, st.Mesh.Divergent)
		streams, facts = len(st.Replicas), st.Tree.Facts
	}
	r.PropagationMs = s.propagation(ctx)
	r.check(r.Failed == 0, "every request outside the killed peer succeeded", "%d failed", r.Failed)
	r.check(r.KilledPeer.RequestsFailed == 0, "the killed peer cost only streams that were already answering", "%d requests failed", r.KilledPeer.RequestsFailed)
	r.check(r.JoinedPeer.ReadyMs > 0, "a fresh peer joined and became ready while traffic ran", "it did not")
	r.check(r.Converged, fmt.Sprintf("all %d peers hold equal digests of %d streams, %d facts", s.cfg.Peers, streams, facts), "%v", why)
	r.check(facts > 0, "the shared tree is not empty", "no facts: events do not arrive")
	r.check(r.DivergentStreams == 0, "no stream diverged", "%d did", r.DivergentStreams)
	best, random := r.Policies["ttft"].CachedTokenRatio, r.Policies["random"].CachedTokenRatio
	r.check(best > random && best > r.Policies["round_robin"].CachedTokenRatio, "ttft finds more cached tokens than random and round_robin", "%.3f against %.3f and %.3f", best, random, r.Policies["round_robin"].CachedTokenRatio)
}

// waitFor polls until ok or the time is over.
func (s *stage) waitFor(ctx context.Context, limit time.Duration, what string, ok func() bool) error {
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); sleep(ctx, pollEvery) {
		if ok() {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return fmt.Errorf("not within %v: %s", limit, what)
}

// stopAll ends every child, peers first. Whoever pressed Ctrl-C ended them too,
// and does not want to hear how each went.
func (s *stage) stopAll(tell bool) {
	s.mu.Lock()
	peers, replicas := s.peers, s.replicas
	s.peers, s.replicas = nil, nil
	s.mu.Unlock()
	var wg sync.WaitGroup
	for _, c := range append(peers, replicas...) {
		wg.Go(func() {
			if err := c.stop(stopTimeout); err != nil && tell {
				s.say("stopping: %v", err)
			}
		})
	}
	wg.Wait()
}
