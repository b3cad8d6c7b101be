package simulation

import (
	"math"
	"math/rand/v2"

	"github.com/banyan-llm/banyan/router/policy"
	"github.com/banyan-llm/banyan/simulation/replica"
	"github.com/banyan-llm/banyan/simulation/workload"
)

// job is one request on its way through the fleet.
type job struct {
	req  *workload.Request
	keys []uint64 // of prompt and output pages

	peer, replica int
	arrived       float64
	prefill       float64 // seconds the decision expected
	predicted     float64
	tokens        int64 // uncached tokens it expected
	blocks        int64
	young         bool   // see loads
	sent          bool   // to replica
	lead          *split // nil: one replica serves it

	first, done float64 // seconds; 0: not yet
	cached      int     // tokens, as the engine counted
}

// run is one evaluation in progress.
type run struct {
	cfg     Config
	policy  policy.Policy // nil: pooled
	rnd     *rand.Rand
	engines []*replica.Replica
	truth   []policy.Rates // per replica

	jobs     []job
	after    map[int][]int // request -> those that wait for its end
	arrivals arrivals
	waiting  []int // closed loop: arrived, but too many in flight
	flying   int
	stage    int // of the workload's stages, the one that runs

	loads  *loads
	index  *index
	routed *routed
	wire   *traffic
	rates  []policy.Rates      // per peer and replica
	learn  []policy.Calibrator // per peer and replica; nil: not learning
	demand []policy.Demand     // per peer
	pinned map[int]int         // session -> replica; empty unless Config.Pin
	scrape scrape
	shared *pool // pooled reference; nil: a policy decides
	cands  []policy.Candidate
	here   []policy.Candidate // of cands, those that are not down

	passings []passing
	down     []bool // per replica
	retried  int

	deep  [2][]int
	rate  meter // arrivals
	meanS meter // expected prefill of decisions

	completed, failed int
	remote            int // requests that two replicas shared
	last              float64
	reasons           map[policy.Reason]int
}

func newRun(cfg Config) (*run, error) {
	r := &run{
		cfg: cfg, rnd: rand.New(rand.NewPCG(cfg.Seed, 0x65766c)),
		jobs: make([]job, len(cfg.Workload.Requests)), after: make(map[int][]int),
		loads: newLoads(cfg.Peers, cfg.Replicas, cfg.DispatchDelay, cfg.LoadDelay),
		index: newIndex(&cfg), routed: newRouted(cfg.Peers, cfg.Replicas, cfg.Remember), wire: newTraffic(&cfg), cands: make([]policy.Candidate, cfg.Replicas),
		deep:   [2][]int{make([]int, cfg.Replicas), make([]int, cfg.Replicas)},
		demand: make([]policy.Demand, cfg.Peers), pinned: make(map[int]int),
		rate: newMeter(10), meanS: newMeter(10), reasons: make(map[policy.Reason]int),
	}
	if pooled(cfg.Policy) {
		limit := replica.Unlimited
		if cfg.Policy == PooledCaches && cfg.KVTokens != replica.Unlimited {
			limit = cfg.KVTokens / cfg.Page * cfg.Replicas
		}
		r.shared = newPool(limit)
	} else {
		p, err := policy.New(cfg.Policy, *cfg.Routing)
		if err != nil {
			return nil, err
		}
		r.policy = p
	}
	r.plan()
	for k := range cfg.Replicas {
		engine, err := r.newEngine(k)
		if err != nil {
			return nil, err
		}
		r.engines = append(r.engines, engine)
	}
	r.believe()
	for i := range cfg.Workload.Requests {
		r.jobs[i].req = &cfg.Workload.Requests[i]
	}
	r.expect(0, r.stageEnd(), 0)
	return r, nil
}

func (r *run) newEngine(k int) (*replica.Replica, error) {
	cfg := &r.cfg
	profile := slower(*cfg.Profile, cfg.Slow[k%len(cfg.Slow)])
	if k == len(r.truth) { // or it is one that comes back
		r.truth = append(r.truth, ratesOf(profile))
	}
	blocks := replica.Unlimited
	if cfg.KVTokens != replica.Unlimited && r.shared == nil {
		blocks = cfg.KVTokens / cfg.Page
	}
	return replica.New(replica.Config{
		Profile: profile, Page: cfg.Page, Blocks: blocks, Unique: true,
		NoCache: cfg.NoCache || r.shared != nil,
	})
}

// believe sets what every peer thinks of every replica's speed.
func (r *run) believe() {
	policy.Relative(r.truth)
	for p := range r.cfg.Peers {
		for k := range r.cfg.Replicas {
			rates := r.truth[k]
			if r.cfg.Rates != nil {
				rates = r.cfg.Rates(rates, p, k)
			}
			r.rates = append(r.rates, rates)
			if r.cfg.Learn {
				r.learn = append(r.learn, policy.NewCalibrator(rates))
			}
		}
		policy.Relative(r.rates[p*r.cfg.Replicas:])
	}
}

// progressEvery is how many steps of engines pass between two reports.
const progressEvery = 4096

// play runs until nothing is left to happen, or until Progress has enough.
func (r *run) play() error {
	for steps := 0; ; {
		next, k := math.Inf(1), -1
		for i, e := range r.engines {
			if at := e.Next(); at < next {
				next, k = at, i
			}
		}
		if at := r.nextPassing(); at <= next && (r.arrivals.len() == 0 || at <= r.arrivals.first()) && r.completed+r.failed < len(r.jobs) {
			r.pass()
			continue
		}
		if r.arrivals.len() > 0 && r.arrivals.first() <= next {
			a := r.arrivals.pop()
			r.arrive(a.at, a.job)
			continue
		}
		if k < 0 {
			r.wire.end(r.last)
			return nil
		}
		r.step(next, k)
		if steps++; steps%progressEvery == 0 && r.cfg.Progress != nil && !r.cfg.Progress(r.completed+r.failed, len(r.jobs)) {
			return ErrStopped
		}
	}
}

// step completes one step of one engine.
func (r *run) step(now float64, k int) {
	res, ok := r.engines[k].Step(now)
	if !ok {
		return
	}
	r.index.tell(now, k, res.KV)
	r.wire.slot(now, k, res.KV)
	finished := false
	for i := range res.Tokens {
		t := &res.Tokens[i]
		if t.ID >= uint64(len(r.jobs)) {
			r.prefilled(now, int(t.ID)-len(r.jobs), t.Cached)
			continue
		}
		j := &r.jobs[t.ID]
		if t.First {
			r.firstToken(now, j, t.Cached)
		}
		if t.Done {
			finished = true
			r.finish(now, j)
		}
	}
	if r.shared != nil {
		r.feed(now)
	}
	for finished && len(r.waiting) > 0 && r.flying < r.cfg.Workload.Concurrency {
		i := r.waiting[0]
		r.waiting = r.waiting[1:]
		r.start(now, i)
	}
}

func (r *run) firstToken(now float64, j *job, cached int) {
	j.first = now
	if r.shared == nil {
		j.cached = j.found(cached)
	} else {
		r.shared.add(j.keys[:j.req.Tokens/r.cfg.Page])
	}
	r.loads.firstToken(now, j)
	r.wire.load(now, j.peer, j.replica, false)
	if r.learn != nil {
		at := j.peer*r.cfg.Replicas + j.replica
		r.learn[at] = r.learn[at].FirstToken(policy.Sample{
			Predicted: j.predicted, Prefill: j.prefill, Seen: now - j.arrived,
		})
		from := j.peer * r.cfg.Replicas
		policy.Blend(r.rates[from:from], r.learn[from:from+r.cfg.Replicas])
	}
}

func (r *run) finish(now float64, j *job) {
	j.done = now
	r.last = math.Max(r.last, now)
	r.completed++
	r.flying--
	r.loads.finish(now, j)
	r.wire.load(now, j.peer, j.replica, false)
	if r.shared != nil {
		r.shared.add(j.keys)
	}
	if r.learn != nil {
		at := j.peer*r.cfg.Replicas + j.replica
		r.learn[at] = r.learn[at].Run(now-j.first, j.req.Output-1)
	}
	r.release(now, j)
}

// release lets the requests that waited for this one arrive.
func (r *run) release(now float64, j *job) {
	for _, i := range r.after[j.req.ID] {
		req := r.jobs[i].req
		r.arrivals.push(arrival{at: math.Max(req.At/r.cfg.Speedup, now+req.Think), job: i})
	}
	j.keys = nil
	r.advanceStage(now)
}

func (r *run) arrive(now float64, i int) {
	if lead := r.jobs[i].lead; lead != nil && lead.handed {
		r.decodeLeg(now, i)
		return
	}
	if limit := r.cfg.Workload.Concurrency; limit > 0 && r.flying >= limit {
		r.waiting = append(r.waiting, i)
		r.jobs[i].arrived = now
		return
	}
	r.start(now, i)
}

// start brings a request to a peer, which decides at once.
func (r *run) start(now float64, i int) {
	j := &r.jobs[i]
	j.arrived = now
	j.peer = r.rnd.IntN(r.cfg.Peers)
	j.keys = j.req.AppendKeys(nil, r.cfg.Page)
	r.flying++
	r.rate.add(now, 1)
	r.place(now, i)
}

// place finds a replica for a request that its peer has.
func (r *run) place(now float64, i int) {
	j := &r.jobs[i]
	if r.shared != nil {
		r.shared.queue = append(r.shared.queue, i)
		r.feed(now)
		return
	}
	r.loads.advance(now)
	r.index.advance(now)
	d, shared := r.decide(now, i)
	r.reasons[d.Reason]++
	r.meanS.add(now, d.Prefill)
	if shared {
		return
	}
	j.replica, j.prefill, j.predicted = d.Pos, d.Prefill, d.Predicted
	j.tokens = int64(j.req.Tokens - d.Matched)
	r.submit(now, i, 0)
}

// submit hands a decided request to its engine and enters it into the books;
// given tokens of KV come with it (pooled only).
func (r *run) submit(now float64, i, given int) {
	j := &r.jobs[i]
	j.blocks = int64((j.req.Tokens + 15) / 16)
	err := r.engines[j.replica].Submit(now, replica.Request{
		ID: uint64(i), Prompt: j.req.Tokens, Output: r.output(j), Keys: j.keys, Given: given,
	})
	if err != nil { // it can never fit
		r.failed++
		r.flying--
		j.replica = -1
		r.release(now, j)
		return
	}
	j.sent = true
	r.loads.dispatch(now, j)
	r.wire.load(now, j.peer, j.replica, true)
	if r.shared == nil {
		keys := r.prompt(j)
		r.index.predict(now, j.peer, j.replica, keys)
		r.routed.send(j.peer, j.replica, keys)
		if r.cfg.PredictFor > 0 {
			r.wire.predict(now, j.peer, j.req.Tokens)
		}
	}
}

// prompt is the keys of a job's prompt that peers look at.
func (r *run) prompt(j *job) []uint64 {
	n := min(len(j.keys), j.req.Tokens/r.cfg.Page)
	if r.cfg.MatchPages > 0 {
		n = min(n, r.cfg.MatchPages)
	}
	return j.keys[:n]
}

// decide asks the real policy with what the job's peer sees now; true if two
// replicas share the job, which then is on its way.
func (r *run) decide(now float64, i int) (policy.Decision, bool) {
	j := &r.jobs[i]
	r.look(now, j)
	view := policy.View{
		NowMs: millis(now), AgeMs: 1000 * r.cfg.ViewAge, Peers: r.cfg.Peers,
		Lambda: r.rate.perSecond(now), MeanS: r.meanS.mean(),
		IndexAgeMs: 1000 * r.cfg.IndexDelay, Rand: r.rnd,
	}
	req := policy.Request{Tokens: j.req.Tokens}
	if n := len(j.keys); n > 0 {
		req.Key, req.Prefix = j.keys[min(n, max(j.req.Tokens/r.cfg.Page, 1))-1], j.keys[0]
	}
	if family := j.req.Family(); family >= 0 {
		req.Session = uint64(family) + 1
	}
	if at, ok := r.pinned[j.req.Family()]; ok {
		return r.stay(j, at), false
	}
	view.Share = r.demand[j.peer].Ask(&req, view.NowMs)
	if r.cfg.PrefillReplicas > 0 {
		return r.share(now, i, &req, &view)
	}
	r.here = r.here[:0]
	for k := range r.cands {
		if !r.down[k] {
			r.here = append(r.here, r.cands[k])
		}
	}
	d := r.policy.Decide(&req, &view, r.here, nil)
	d.Pos = r.here[d.Pos].Index
	if r.cfg.Pin && j.req.Session >= 0 {
		r.pinned[j.req.Family()] = d.Pos
	}
	return d, false
}

// stay sends a job to the replica of its session.
func (r *run) stay(j *job, at int) policy.Decision {
	c := &r.cands[at]
	found := min(c.GPU, j.req.Tokens-1)
	own := c.Rates.Prefill(j.req.Tokens-found, j.req.Tokens)
	return policy.Decision{Pos: at, Reason: policy.ReasonSession, Matched: found, Prefill: own, Predicted: own}
}

// look fills the candidates as the job's peer sees them.
func (r *run) look(now float64, j *job) {
	keys := r.prompt(j)
	r.index.match(now, j.peer, keys, r.deep[0], r.deep[1])
	r.routed.match(j.peer, keys, r.deep[1])
	r.scrape.refresh(now, r.cfg.Scrape, r.engines)
	for k := range r.cands {
		var sum, young loadSum
		if !r.cfg.ScrapedOnly {
			sum, young = r.loads.sum(j.peer, k), r.loads.young[r.loads.at(j.peer, k)]
		}
		gpu := r.deep[0][k] * r.cfg.Page
		c := &r.cands[k]
		*c = policy.Candidate{
			ID: uint64(k) + 1, Index: k, GPU: gpu, CPU: gpu, Disk: gpu, Predicted: r.deep[1][k] * r.cfg.Page,
			Held:    int64(r.index.held[k] * r.cfg.Page),
			Waiting: sum.waiting, Prefill: sum.prefill, Tokens: sum.tokens, Streams: sum.streams, Blocks: sum.blocks,
			YoungCount: young.waiting, YoungPrefill: young.prefill,
			Rates: r.rates[j.peer*r.cfg.Replicas+k], Weight: 1,
		}
		if at := r.loads.first(j.peer, k); !math.IsInf(at, -1) {
			c.FirstToken = millis(at)
		}
		r.scrape.fill(k, c, int64(r.cfg.Page))
	}
}

// epochMillis is virtual time 0 on the peers' clocks: a first token at second
// 0 must not look like none.
const epochMillis = 1_000_000

func millis(seconds float64) int64 { return epochMillis + int64(math.Round(seconds*1000)) }
