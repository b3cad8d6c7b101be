package simulation

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/banyan-llm/banyan/router/pick"
	"github.com/banyan-llm/banyan/router/policy"
	"github.com/banyan-llm/banyan/simulation/replica"
	"github.com/banyan-llm/banyan/simulation/workload"
)

// Pooled is the policy name of the reference that every result is compared
// with: one infinite prefix cache that all replicas share, requests kept in
// one queue until a replica has room in its next step, no delay. It is not a
// proven bound: first come, first served with big and small requests mixed
// can be beaten by sorting them out.
const Pooled = "pooled"

// PooledCaches is Pooled with a cache as big as all replicas' together, the
// least recently used pages pushed out first: what could be had with the caches
// that there are, if every replica reached all of them.
const PooledCaches = "pooled_caches"

// pooled reports whether a policy's name is that of a reference.
func pooled(name string) bool { return name == Pooled || name == PooledCaches }

// Config is one evaluation. The zero value of every field but Workload is its
// default.
type Config struct {
	Workload *workload.Workload
	Policy   string         // a name of router/policy or Pooled; "": ttft
	Routing  *policy.Config // nil: policy.DefaultConfig

	Replicas int              // at most 64; 0: the workload's, else 16
	Peers    int              // 0: 1
	Profile  *replica.Profile // nil: the workload's, else q32
	KVTokens int              // KV cache of a replica; 0: the workload's, else the profile's; replica.Unlimited
	Page     int              // tokens a cache page; 0: a block of the trace, else 16
	Slow     []float64        // time factor of replica i (modulo its length); nil: all 1
	// PrefillReplicas of the replicas, the first ones, only prefill; whether two
	// replicas share a request is for Routing.Disagg to say. 0: none.
	PrefillReplicas int
	Away            []Away // replicas that are lost or added in mid-run, at least one is always there; not with PrefillReplicas
	// HostTokens of host memory keep what a replica computed beyond its KV cache;
	// 0: none. Fetch: replicas fetch from each other's host memory.
	HostTokens int
	Fetch      bool
	// WorkingSet is admission.working_set: new conversations wait while more than
	// this share of the caches is in use; 0: none waits.
	WorkingSet float64
	Prefill    bool // prefill pool: nobody decodes, output is one token
	// Pin keeps a session, its subagents too, at the replica that its first
	// request was sent to, whatever the policy would say later.
	Pin      bool
	Nameless bool                                      // requests do not name their session
	NoCache  bool                                      // replicas without prefix reuse
	Learn    bool                                      // peers calibrate rates online instead of knowing them
	Rates    func(policy.Rates, int, int) policy.Rates // what peer p believes of replica k; nil: the truth

	// Delays in seconds. A peer sees its own doings at once.
	LoadDelay     float64 // first tokens and finishes, to the other peers
	DispatchDelay float64 // dispatches and their predictions; -1: LoadDelay
	IndexDelay    float64 // engine events, to every peer
	ViewAge       float64 // what peers take DispatchDelay for; 0: what it is
	PredictFor    float64 // seconds a predicted block counts; 0: 5; negative: no predictions
	Remember      int     // pages a replica of its own prompts that a peer remembers besides, latest first
	MatchPages    int     // leading pages of a prompt that peers look at; 0: all
	Scrape        float64 // how often peers read the engines' own load figures; 0: 0.2
	ScrapedOnly   bool    // peers know load from those figures alone, not from what they sent

	// Speedup divides arrival times (2: twice the rate); 0: 1. Load, if set,
	// chooses it: arrivals at this share of the rate at which the pooled
	// reference completes the whole workload fed all at once.
	Speedup float64
	Load    float64

	From float64 // seconds of the original arrivals that only warm caches and are not reported
	Seed uint64

	// Progress is called now and then with the requests that are over and all
	// requests; it must be quick. False stops the run with ErrStopped. nil:
	// never called.
	Progress func(done, all int) bool
}

// ErrStopped says that Config.Progress ended a run.
var ErrStopped = errors.New("stopped")

// Validate reports every fault of the configuration.
func (c Config) Validate() error {
	c, err := c.complete()
	if !pooled(c.Policy) && c.Routing != nil {
		_, unknown := policy.New(c.Policy, *c.Routing)
		err = errors.Join(err, unknown)
	}
	return err
}

// Report is what `banyan sim --json` prints.
type Report struct {
	Trace           string  `json:"trace"`
	Policy          string  `json:"policy"`
	Peers           int     `json:"peers"`
	Replicas        int     `json:"replicas"`
	Requests        int     `json:"requests"`
	Completed       int     `json:"completed"`
	HitRatio        float64 `json:"hit_ratio"`       // cached over prompt tokens, as the engines counted
	IdealHitRatio   float64 `json:"ideal_hit_ratio"` // of one infinite cache, whole workload in order of arrival
	FollowUpCached  float64 `json:"follow_up_cached"`
	SameReplica     float64 `json:"same_replica"`
	TTFT            Spread  `json:"ttft_ms"` // of a workload in stages: percentiles are means over them, weighed with the requests
	TPOT            Pair    `json:"tpot_ms"`
	OutputPerSecond float64 `json:"output_tokens_per_s"` // of a workload in stages: the mean over them
	LoadCV          float64 `json:"load_cv"`             // of prefill seconds over replicas
	Recomputed      int64   `json:"recomputed_tokens"`
	GossipBytes     int64   `json:"gossip_bytes"` // of all frames between peers, before TCP and TLS
	ViewAge         Pair    `json:"view_age_ms"`
	Seed            uint64  `json:"seed"`
	TraceHash       string  `json:"trace_hash"`
	Told            string  `json:"told,omitempty"` // what reading changed of the trace

	// Of workloads with sessions. A fork is the first request of a subagent.
	Turns      Spread  `json:"turns_ttft_ms"`  // all requests but forks
	Forks      Spread  `json:"forks_ttft_ms"`  // zero if there are none
	SessionE2E float64 `json:"session_mean_s"` // from a session's first request to its last answer, its subagents' too
	Waited     int     `json:"conversations_that_waited,omitempty"`
	Again      int64   `json:"computed_again_tokens"`    // prompt tokens computed beyond what an endless cache would leave
	LiveTokens float64 `json:"live_session_tokens_mean"` // tokens of the sessions under way, beginnings that all share not counted

	Gossip      map[string]int64          `json:"gossip,omitempty"` // bytes by frame
	MaxOverMean float64                   `json:"max_over_mean"`    // of prefill seconds over replicas
	E2E         float64                   `json:"e2e_mean_s"`
	Seconds     float64                   `json:"seconds"` // virtual time from first arrival to last finish
	Speedup     float64                   `json:"speedup"`
	Preempted   int64                     `json:"preempted"`
	Reasons     map[policy.Reason]int     `json:"reasons,omitempty"`
	PerReplica  []int                     `json:"requests_per_replica"`
	Shared      int                       `json:"shared_requests,omitempty"` // by a prefill and a decode replica
	Fetched     int64                     `json:"fetched_tokens,omitempty"`  // from other replicas' host memory
	Fetches     map[pick.FetchOutcome]int `json:"fetches,omitempty"`         // what came of them
	Retried     int                       `json:"retried,omitempty"`         // sent again because their replica was lost
	Stages      []StageReport             `json:"stages,omitempty"`          // those that are not for warming
}

// StageReport is one stage of a workload that has stages.
type StageReport struct {
	Rate            float64 `json:"rate"` // requests a second, as sent
	Requests        int     `json:"requests"`
	Completed       int     `json:"completed"`
	TTFT            Spread  `json:"ttft_ms"`
	OutputPerSecond float64 `json:"output_tokens_per_s"`
	Seconds         float64 `json:"seconds"` // from its first request to its last token
}

// Spread describes many values.
type Spread struct {
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
}

// Pair is two percentiles of many values.
type Pair struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
}

// Limits of one evaluation.
const (
	maxReplicas = 64 // one bit each in the index model
	maxPeers    = 1024
)

// complete fills in defaults and reports every fault.
func (c Config) complete() (Config, error) {
	if c.Workload == nil || len(c.Workload.Requests) == 0 {
		return c, errors.New("workload: no requests")
	}
	w := c.Workload
	if c.Policy == "" {
		c.Policy = policy.Default
	}
	if c.Routing == nil {
		cfg := policy.DefaultConfig()
		c.Routing = &cfg
	}
	c.Replicas = first(c.Replicas, w.Replicas, 16)
	c.Peers = first(c.Peers, 1)
	c.Page = first(c.Page, w.Block, replica.DefaultPage)
	if c.Profile == nil {
		name := w.Profile
		if name == "" {
			name = "q32"
		}
		p, err := replica.ProfileByName(name)
		if err != nil {
			return c, err
		}
		c.Profile = &p
	}
	c.KVTokens = first(c.KVTokens, w.KVTokens, c.Profile.KVTokens)
	if c.DispatchDelay < 0 {
		c.DispatchDelay = c.LoadDelay
	}
	if pooled(c.Policy) { // it knows everything
		c.PrefillReplicas = 0
		c.Peers, c.LoadDelay, c.DispatchDelay, c.IndexDelay = 1, 0, 0, 0
	}
	if c.ViewAge == 0 {
		c.ViewAge = c.DispatchDelay
	}
	if c.PredictFor == 0 {
		c.PredictFor = 5
	}
	if c.Scrape == 0 {
		c.Scrape = 0.2
	}
	if c.Speedup == 0 {
		c.Speedup = 1
	}
	if len(c.Slow) == 0 {
		c.Slow = []float64{1}
	}
	return c, c.check()
}

func (c *Config) check() error {
	var errs []error
	bad := func(key string, ok bool, v any) {
		if !ok {
			errs = append(errs, fmt.Errorf("%s: %v is out of range", key, v))
		}
	}
	seconds := func(v float64) bool { return v >= 0 && v < 1e6 }
	bad("replicas", c.Replicas >= 1 && c.Replicas <= maxReplicas, c.Replicas)
	bad("prefill_replicas", c.PrefillReplicas >= 0 && c.PrefillReplicas < max(c.Replicas, 1), c.PrefillReplicas)
	bad("peers", c.Peers >= 1 && c.Peers <= maxPeers, c.Peers)
	bad("page", c.Page >= 1, c.Page)
	bad("host_tokens", c.HostTokens == 0 || c.HostTokens >= c.Page && c.PrefillReplicas == 0, c.HostTokens)
	bad("fetch", !c.Fetch || c.HostTokens > 0, c.Fetch)
	bad("working_set", c.WorkingSet >= 0 && c.WorkingSet < 1000, c.WorkingSet)
	bad("remember", c.Remember >= 0, c.Remember)
	bad("match_pages", c.MatchPages >= 0, c.MatchPages)
	bad("load_delay", seconds(c.LoadDelay), c.LoadDelay)
	bad("dispatch_delay", seconds(c.DispatchDelay), c.DispatchDelay)
	bad("index_delay", seconds(c.IndexDelay), c.IndexDelay)
	bad("view_age", seconds(c.ViewAge), c.ViewAge)
	bad("scrape", seconds(c.Scrape), c.Scrape)
	bad("speedup", c.Speedup > 0, c.Speedup)
	bad("load", c.Load >= 0 && c.Load < 100, c.Load)
	gone := map[int]bool{}
	for _, a := range c.Away {
		bad("away", a.Replica >= 0 && a.Replica < c.Replicas && seconds(a.From) && (a.To == 0 || seconds(a.To) && a.To > a.From) && c.PrefillReplicas == 0, a)
		gone[a.Replica] = true
	}
	bad("away", len(gone) < max(c.Replicas, 1), c.Away)
	for _, f := range c.Slow {
		bad("slow", f > 0 && !math.IsInf(f, 0), f)
	}
	return errors.Join(errs...)
}

// Evaluate runs one configuration. 12,000 requests over 16 replicas and 16
// peers take a few seconds.
func Evaluate(cfg Config) (Report, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return Report{}, fmt.Errorf("evaluate: %w", err)
	}
	if cfg.Load > 0 {
		if cfg.Speedup, err = speedup(cfg); err != nil {
			return Report{}, fmt.Errorf("evaluate: %w", err)
		}
	}
	r, err := newRun(cfg)
	if err != nil {
		return Report{}, fmt.Errorf("evaluate: %w", err)
	}
	if err := r.play(); err != nil {
		return Report{}, fmt.Errorf("evaluate: %w", err)
	}
	return r.report(), nil
}

// Capacity is the rate, in requests a second, at which the pooled reference
// completes the whole workload when all of it is there at once.
func Capacity(cfg Config) (float64, error) {
	r, err := atOnce(cfg)
	if err != nil {
		return 0, err
	}
	return float64(r.completed) / r.last, nil
}

// atOnce plays a workload under the pooled reference, all of it there at once.
func atOnce(cfg Config) (*run, error) {
	cfg.Policy, cfg.Speedup, cfg.Load = Pooled, math.MaxFloat64, 0
	cfg, err := cfg.complete()
	if err != nil {
		return nil, fmt.Errorf("capacity: %w", err)
	}
	r, err := newRun(cfg)
	if err != nil {
		return nil, fmt.Errorf("capacity: %w", err)
	}
	if err := r.play(); err != nil {
		return nil, fmt.Errorf("capacity: %w", err)
	}
	return r, nil
}

// SessionCapacity is Capacity of a workload with sessions: all begin at once and
// nobody pauses. The last fifth of the requests is left out, since the longest
// sessions end alone.
func SessionCapacity(cfg Config) (float64, error) {
	w := *cfg.Workload
	w.Requests = slices.Clone(w.Requests)
	for i := range w.Requests {
		w.Requests[i].Think = 0
	}
	cfg.Workload = &w
	r, err := atOnce(cfg)
	if err != nil {
		return 0, err
	}
	var over []float64
	for i := range r.jobs {
		if r.jobs[i].done > 0 {
			over = append(over, r.jobs[i].done)
		}
	}
	if len(over) == 0 {
		return 0, errors.New("capacity: no request was completed")
	}
	slices.Sort(over)
	n := max(len(over)*4/5, 1)
	return float64(n) / over[n-1], nil
}

// speedup is the factor on arrival times that makes the load cfg.Load.
func speedup(cfg Config) (float64, error) {
	capacity, err := Capacity(cfg)
	if err != nil {
		return 0, err
	}
	rate := cfg.Workload.Rate()
	if math.IsInf(rate, 0) {
		return 1, nil // everything is there at once as it is
	}
	return cfg.Load * capacity / rate, nil
}

// first is the first value that is not zero.
func first(values ...int) int {
	for _, v := range values {
		if v != 0 {
			return v
		}
	}
	return 0
}
