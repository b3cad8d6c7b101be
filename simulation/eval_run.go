package simulation

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/banyan-llm/banyan/router/load"
	"github.com/banyan-llm/banyan/router/pick"
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
	waited        float64 // seconds before that, for room
	prefill       float64 // seconds the decision expected
	predicted     float64
	tokens        int64 // uncached tokens it expected
	blocks        int64
	cost          load.Cost
	sent          bool // to replica
	source        int  // where it fetches from; -1: nowhere
	fetch         pick.Fetch
	due           float64 // when what it fetches is there
	given         int     // tokens that are there then
	looks         int     // at its decision, while it is held; 0: it is not
	lead          *split  // nil: one replica serves it

	first, done float64 // seconds; 0: not yet
	cached      int     // tokens, as the engine counted
}

// came is when the request came, before it waited for room.
func (j *job) came() float64 { return j.arrived - j.waited }

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
	looks    fifo[look] // at held requests
	working  *working   // nil: no conversation waits
	moves    arrivals   // of what requests fetch
	second   map[pick.Look]int
	stage    int // of the workload's stages, the one that runs

	views  *views
	index  *index
	hosts  *hosts // nil: replicas have no host memory
	routed *routed
	wire   *traffic
	rates  []policy.Rates // per peer and replica, as believed at first
	pinned map[int]int    // session -> replica; empty unless Config.Pin
	shared *pool          // pooled reference; nil: a policy decides
	cands  []policy.Candidate

	passings []passing
	down     []bool // per replica
	retried  int

	deep [2][]int

	completed, failed int
	remote            int // requests that two replicas shared
	fetched           int64
	fetches           map[pick.FetchOutcome]int
	last              float64
	reasons           map[policy.Reason]int
}

func newRun(cfg Config) (*run, error) {
	r := &run{
		cfg: cfg, rnd: rand.New(rand.NewPCG(cfg.Seed, 0x65766c)),
		jobs: make([]job, len(cfg.Workload.Requests)), after: make(map[int][]int),
		views: newViews(&cfg), index: newIndex(&cfg), hosts: newHosts(&cfg), routed: newRouted(cfg.Peers, cfg.Replicas, cfg.Remember), wire: newTraffic(&cfg),
		deep:   [2][]int{make([]int, cfg.Replicas), make([]int, cfg.Replicas)},
		pinned: make(map[int]int), reasons: make(map[policy.Reason]int), second: make(map[pick.Look]int), fetches: make(map[pick.FetchOutcome]int),
	}
	if pooled(cfg.Policy) {
		limit := replica.Unlimited
		if cfg.Policy == PooledCaches && cfg.KVTokens != replica.Unlimited {
			limit = cfg.KVTokens / cfg.Page * cfg.Replicas
		}
		r.shared = newPool(limit, cfg.Replicas)
	} else {
		p, err := policy.New(cfg.Policy, *cfg.Routing)
		if err != nil {
			return nil, err
		}
		r.policy = p
	}
	r.working = r.newWorking()
	r.plan()
	for k := range cfg.Replicas {
		engine, err := r.newEngine(k)
		if err != nil {
			return nil, err
		}
		r.engines = append(r.engines, engine)
	}
	r.believe()
	for p := range cfg.Peers {
		r.views.believe(p, r.rates[p*cfg.Replicas:(p+1)*cfg.Replicas])
	}
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
		}
		policy.Relative(r.rates[p*r.cfg.Replicas:])
	}
}

// ledger is who counts the jobs in and out at their replicas.
type ledger interface {
	dispatch(now float64, j *job, second bool)
	firstToken(now float64, j *job)
	finish(now float64, j *job)
}

// books are the peers' load tables, or those of the reference, which has no
// peers.
func (r *run) books() ledger {
	if r.shared != nil {
		return r.shared
	}
	return r.views
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
		if r.moveBefore(next) {
			r.moved(r.moves.pop())
			continue
		}
		if r.looks.len() > 0 {
			if at := r.looks.front().at; at <= next && at <= r.nextPassing() && (r.arrivals.len() == 0 || at <= r.arrivals.first()) {
				r.lookAgain(at, r.looks.pop().job)
				continue
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
	r.hosts.tell(now, k, res.KV)
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
	r.books().firstToken(now, j)
	r.wire.load(now, j.peer, j.replica, false)
	if r.cfg.Learn && j.source < 0 {
		r.views.learn(now, j)
	}
}

func (r *run) finish(now float64, j *job) {
	j.done = now
	r.last = math.Max(r.last, now)
	r.completed++
	r.flying--
	r.books().finish(now, j)
	r.wire.load(now, j.peer, j.replica, false)
	if r.shared != nil {
		r.shared.add(j.keys)
	}
	r.learnFetch(j, true)
	if r.cfg.Learn {
		r.views.learnRun(now, j)
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
	if i == wake {
		r.wake(now)
		return
	}
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
	j.arrived, j.source = now, -1
	j.peer = r.rnd.IntN(r.cfg.Peers)
	j.keys = j.req.AppendKeys(nil, r.cfg.Page)
	r.flying++
	if !r.waits(now, i) {
		r.place(now, i)
	}
}

// place finds a replica for a request that its peer has.
func (r *run) place(now float64, i int) {
	j := &r.jobs[i]
	if r.shared != nil {
		r.shared.queue = append(r.shared.queue, i)
		r.feed(now)
		return
	}
	r.views.advance(now)
	r.index.advance(now)
	d, shared := r.decide(now, i)
	r.reasons[d.Reason]++
	if shared {
		return
	}
	j.replica, j.prefill, j.predicted = d.Pos, d.Prefill, d.Predicted
	j.tokens = int64(j.req.Tokens - d.Matched - d.Fetched)
	r.source(now, j, &d, r.candidate(j.replica))
	if !r.hold(now, i, &d) {
		r.submit(now, i, 0)
	}
}

// submit hands a decided request to its engine and enters it into the books;
// given tokens of KV come with it (pooled only).
func (r *run) submit(now float64, i, given int) {
	j := &r.jobs[i]
	j.blocks = int64((j.req.Tokens + 15) / 16)
	if r.shared == nil {
		if j.due, given = r.bring(now, j); j.due > now {
			j.given = given
			r.moves.push(arrival{at: j.due, job: i})
		}
	}
	if !(j.due > now) && !r.enter(now, i, given) {
		return
	}
	j.sent = true
	if j.looks == 0 {
		r.books().dispatch(now, j, false)
		r.wire.load(now, j.peer, j.replica, true)
	}
	if j.looks = 0; r.shared == nil {
		keys := r.prompt(j)
		r.index.predict(now, j.peer, j.replica, keys)
		r.routed.send(j.peer, j.replica, keys)
		r.use(now, j)
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
	view := r.views.look(now, j.peer, &r.cfg, r.rnd)
	r.gather(now, j)
	if at, ok := r.pinned[j.req.Family()]; ok {
		return r.stay(j, at), false
	}
	req := r.views.ask(j.peer, j.req.Tokens, r.cfg.Page, r.whole(j), r.cfg.sessionOf(j))
	if r.cfg.PrefillReplicas > 0 {
		return r.share(now, i, req, view)
	}
	d := r.policy.Decide(req, view, r.cands, nil)
	d.Pos = r.cands[d.Pos].Index
	if r.cfg.Pin && j.req.Session >= 0 {
		r.pinned[j.req.Family()] = d.Pos
	}
	return d, false
}

// whole is the keys of a job's whole prompt.
func (r *run) whole(j *job) []uint64 { return j.keys[:min(len(j.keys), j.req.Tokens/r.cfg.Page)] }

// sessionOf is the session that a job's headers name; 0: none.
func (c *Config) sessionOf(j *job) uint64 {
	if family := j.req.Family(); family >= 0 && !c.Nameless {
		return uint64(family) + 1
	}
	return 0
}

// stay sends a job to the replica of its session.
func (r *run) stay(j *job, at int) policy.Decision {
	c := &r.cands[slices.IndexFunc(r.cands, func(c policy.Candidate) bool { return c.Index == at })]
	found := min(c.GPU, j.req.Tokens-1)
	own := c.Rates.Prefill(j.req.Tokens-found, j.req.Tokens)
	return policy.Decision{Pos: at, Reason: policy.ReasonSession, Matched: found, Prefill: own, Predicted: own}
}

// gather makes the candidates, as the job's peer sees them.
func (r *run) gather(now float64, j *job) {
	keys := r.prompt(j)
	r.index.match(now, j.peer, keys, r.deep[0], r.deep[1])
	r.routed.match(j.peer, keys, r.deep[1])
	r.views.scrape(millis(now), j.peer, &r.cfg, r.engines)
	r.cands = r.cands[:0]
	for k := range r.engines {
		if r.down[k] {
			continue
		}
		gpu := r.deep[0][k] * r.cfg.Page
		r.cands = append(r.cands, policy.Candidate{
			ID: uint64(k) + 1, Index: k, GPU: gpu, CPU: gpu, Disk: gpu, Predicted: r.deep[1][k] * r.cfg.Page,
			Held: int64(r.index.held[k] * r.cfg.Page), Weight: 1,
		})
	}
	r.know(now, j.peer, keys, j.req.Tokens)
	r.views.fill(now, j.peer, &r.cfg, r.cands)
}
