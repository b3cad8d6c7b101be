package router

import (
	"context"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/banyan-llm/banyan/router/console"
	"github.com/banyan-llm/banyan/router/fleet"
	"github.com/banyan-llm/banyan/router/index"
	"github.com/banyan-llm/banyan/router/load"
	"github.com/banyan-llm/banyan/router/metrics"
	"github.com/banyan-llm/banyan/router/openai"
	"github.com/banyan-llm/banyan/router/pick"
	"github.com/banyan-llm/banyan/router/policy"
	"github.com/banyan-llm/banyan/router/proxy"
	"github.com/banyan-llm/banyan/router/requests"
	"github.com/banyan-llm/banyan/router/token"
)

// prompt is what was learned of a request's body, once for all its tries.
type prompt struct {
	keys   token.Keys
	single bool // the only prompt of its body: the engine's count of tokens is its
	api    openai.Endpoint
	whole  bool // a prefill leg failed: one replica is enough
	blame  blame
	before *blame // of the answer it goes on with; nil: of none

	uncached bool // the engine reads no cache for it
	anyRank  bool // vLLM picks the rank for it

	stored *storedPrompt // which it goes on with; nil: none, or not known
}

// ticket follows one try from its dispatch to its end.
type ticket struct {
	cost       load.Cost
	replica    *fleet.Replica
	keys       *token.Keys
	at         time.Time
	first      time.Time
	matched    int
	confirmed  int // grid blocks that events vouch for
	known      int // and that are believed there, whatever says so
	predicted  float64
	policyName string
	reason     policy.Reason
	single     bool // of the prompt
	api        openai.Endpoint
	serving    []*fleet.Replica // could answer it as well, with replica; nil: no other one
	blame      *blame
	trail      *requests.Trail // nil: nothing is remembered
	begun      time.Time       // of the try, whatever its legs did to at
	second     secondLook
	fetch      fetch

	// anyRank says that the engine picks the rank: what its caches did is not
	// known of this one, before or after.
	anyRank  bool
	response string // the id of the answer that it will store; "": none

	lead     *lead // the prefill side, nil if one replica does it all
	prompt   *prompt
	alone    policy.Decision // what this replica takes if the lead fails
	fellBack bool            // and it did
}

// scratch is the reusable part of one decision.
type scratch struct {
	candidateSet // who may be tried: the set of a model, or what is left of it
	left         candidateSet
	serving      []*fleet.Replica // the model; nil if one of them alone can answer
	stores       candidateSet     // of the model
	renders      []*fleet.Replica
	weights      []float64
	pages        []int
	drops        []bool
	fetches      []bool
	prompt       pick.Prompt
	anyRank      bool // of the prompt
	goesOn       *storedPrompt
	pools        policy.Pools
	rand         *rand.Rand
	choice       console.Choice
	known        []requests.Candidate
	pick.Scratch
}

var scratches = sync.Pool{New: func() any {
	return &scratch{rand: rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))}
}}

// requestPath is what a request goes through, from its body to its end.
type requestPath struct {
	rules     *inForce
	clock     clock
	prompts   *prompts
	directory *directory
	capacity  *capacity
	picker    *pick.Picker
	pairs     *pairs
	health    *health
	view      *meshView
	index     *index.Index
	loads     *load.Table
	tokens    *token.Tokenizer
	mesh      *link
	metrics   *metrics.Metrics
	usage     *metrics.Usage
	console   *console.Console
	traffic   traffic
	recorded  pace
}

// Pick is the request path: body -> keys -> match -> decide -> count in -> look
// again -> send.
func (p *requestPath) Pick(ctx context.Context, call *proxy.Call) (*proxy.Target, error) {
	s := scratches.Get().(*scratch)
	defer scratches.Put(s)
	pol, err := p.policyFor(call)
	if err != nil {
		return nil, err
	}
	lora, err := p.directory.candidates(s, call)
	if err == nil {
		err = p.directory.pin(s, call)
	}
	if err != nil {
		p.health.noOther(call)
		return nil, err
	}
	pr, err := p.prompts.readPrompt(ctx, call, lora, s)
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	s.prompt = pr.prompt()
	p.picker.Match(&s.prompt, &s.Scratch)
	view := p.picker.Look(&s.Scratch, p.view.seen(begin), p.clock.ms(begin), s.rand)
	p.whoFetches(s, call.Endpoint)
	s.anyRank, s.goesOn = pr.anyRank, pr.stored
	p.gather(s, begin)
	if call.Stored != "" && len(s.Cands) == 1 {
		s.Cands[0].Weight = 1 // a drained replica still answers for what it stores
	}
	s.leaveDrained(call.Hedge)
	if err := p.capacity.hasCapacity(s, call, begin); err != nil {
		return nil, err
	}
	if p.capacity.mustWait(&s.prompt, call, begin) {
		return nil, proxy.ErrCrowded
	}
	req := p.picker.Ask(&s.Scratch, &s.prompt, p.session(call))
	if p.rules.config().Routing.Disagg.On() {
		return p.pickSplit(ctx, call, s, pr, pol, req, view, begin)
	}
	d := s.Decide(pol)
	if d.Pos < 0 {
		return nil, proxy.ErrNoReplica
	}
	t := p.countIn(s, &s.Cands[d.Pos], pr, d, p.capacity.limitFor(call, begin), begin)
	if t == nil {
		return nil, proxy.ErrSaturated
	}
	p.metrics.Decision.Observe(time.Since(begin).Seconds())
	if t, err = p.settle(ctx, s, call, pr, pol, &d, t); err != nil {
		return nil, err
	}
	p.sent(s, t, d.Matched, begin)
	t.policyName, t.reason = pol.Name(), d.Reason
	tracePick(ctx, t, len(s.Cands), view)
	p.remember(s, call, s.Cands, s.Scores, &d, nil, t)
	p.record(s, call, s.Cands, s.Scores, &d, nil, t, pr.keys.Tokens)
	return t.target(pol.Name(), d), nil
}

// guilt decides whom the failures of the request count against.
func (pr *prompt) guilt() *blame {
	if pr.before != nil {
		return pr.before
	}
	return &pr.blame
}

// prompt is the keys as a decision sees them.
func (pr *prompt) prompt() pick.Prompt {
	k := &pr.keys
	return pick.Prompt{
		Chain:  *chainOf(k),
		Tokens: k.Tokens, Grid: k.Grid, Uncached: pr.uncached,
	}
}

// chainOf is the keys as the index compares them.
func chainOf(k *token.Keys) *index.Chain {
	return &index.Chain{Root: k.Root, Keys: k.Keys, Hashes: k.Hashes, Exact: k.Scheme.Exact(), Next: k.Next}
}

// session is the hash of the call's session; 0: none.
func (p *requestPath) session(call *proxy.Call) uint64 {
	if call.Session == "" {
		return 0
	}
	return p.directory.hash(call.Session)
}

// gather makes the candidates: what is known of each replica for this prompt.
func (p *requestPath) gather(s *scratch, now time.Time) {
	shared := 0 // tokens that a shared cache layer holds
	for i, m := range s.stores.Marks {
		if s.stores.replicas[i].Up() {
			shared = max(shared, s.Stored(&s.prompt, m))
		}
	}
	s.weights, s.pages, s.drops = s.weights[:0], s.pages[:0], s.drops[:0]
	for _, r := range s.replicas {
		s.weights, s.pages, s.drops = append(s.weights, r.Weight(now)), append(s.pages, r.Page()), append(s.drops, r.DropsLast())
	}
	s.Pages, s.Drops, s.Fetches = s.pages, s.drops, s.fetches // the set belongs to its model: what is made there is not kept
	p.picker.Gather(&s.Scratch, &s.Set, s.weights, &s.prompt, shared, p.clock.ms(now))
	if s.goesOn != nil {
		for i := range s.Cands {
			s.goesOn.goOn(&s.Cands[i], &s.prompt, max(1, s.pages[i]))
		}
	}
	if s.anyRank {
		s.creditEveryRank()
	}
}

// sent has the mesh told what a request that goes out will bring to its replica.
func (p *requestPath) sent(s *scratch, t *ticket, matched int, now time.Time) {
	if !t.anyRank {
		p.picker.Sent(&t.cost, &s.prompt, s.prompt.Blocks(matched), p.clock.ms(now))
	}
}

// countIn books the request at a candidate's replica and tells the mesh. It
// returns nil if the replica has become full.
func (p *requestPath) countIn(s *scratch, c *policy.Candidate, pr *prompt, d policy.Decision, limit *load.Limit, now time.Time) *ticket {
	t := s.ticket(c, pr, d, now)
	if !p.picker.Book(&t.cost, limit, p.clock.ms(now)) {
		return nil
	}
	return t
}

func (s *scratch) ticket(c *policy.Candidate, pr *prompt, d policy.Decision, now time.Time) *ticket {
	r := s.replicas[c.Index]
	return &ticket{
		cost: s.prompt.Cost(r.Stream, &d), replica: r, keys: &pr.keys, single: pr.single, api: pr.api, serving: s.serving, blame: pr.guilt(), at: now, begun: now, matched: d.Matched + d.Fetched, predicted: d.Predicted,
		confirmed: s.prompt.Blocks(c.Disk), known: s.Known(s.Marks[c.Index]), anyRank: s.picksRank(c),
	}
}

// target tells the proxy where to go.
func (t *ticket) target(policyName string, d policy.Decision) *proxy.Target {
	spec := &t.replica.Spec
	return &proxy.Target{
		Replica: spec.Name, URL: spec.URL, Header: t.headers(), Policy: policyName, Reason: string(d.Reason), Matched: d.Matched, Token: t,
		Tokens: t.lead == nil && t.replica.Engine() == "vllm", Priority: priorities[spec.Priority],
		Source: t.fetch.address(),
	}
}

// priorities are how engines read the field priority, by what is configured.
var priorities = map[string]int{fleet.LowerFirst: -1, fleet.HigherFirst: 1}

// headers are what a replica is told by this router: rank and credentials.
func (t *ticket) headers() http.Header {
	spec := &t.replica.Spec
	var header http.Header
	if t.replica.OneOfMany() || spec.Labels["dp"] != "" {
		header = http.Header{"X-Data-Parallel-Rank": {strconv.Itoa(spec.Rank)}}
	}
	if spec.Credentials != "" {
		if header == nil {
			header = http.Header{}
		}
		header.Set("Authorization", "Bearer "+spec.Credentials)
	}
	if t.fetch.source != nil {
		if header == nil {
			header = http.Header{}
		}
		header.Set(kvSourceHeader, t.fetch.hostPort())
	}
	return header
}

// FirstToken is called when the first token of an answer was seen.
func (p *requestPath) FirstToken(target *proxy.Target, at time.Time) {
	t := target.Token.(*ticket)
	t.first = at
	p.loads.FirstToken(&t.cost, p.clock.ms(at))
	if !t.shared() && t.fetch.source == nil && !t.anyRank {
		p.loads.Learn(t.cost.Replica, policy.Sample{Predicted: t.predicted, Prefill: t.cost.Prefill, Seen: at.Sub(t.at).Seconds()})
	}
	t.replica.OK(at)
	p.mesh.loadChanged(false)
}

// Done is called when a try ended, whatever became of it.
func (p *requestPath) Done(target *proxy.Target, res proxy.Result) {
	t := target.Token.(*ticket)
	now := time.Now()
	prompt, cached := 0, 0
	if res.Usage.Known && !t.shared() {
		prompt, cached = res.Usage.Prompt, res.Usage.Cached
	}
	if t.lead != nil && !t.lead.sent {
		p.pairs.endLead(t, legOf(&res), openai.Usage{}, now)
	}
	if res.Lost || badAnswer(&res) != "" { // its time says nothing
		p.loads.Remove(&t.cost, prompt, cached)
	} else {
		p.loads.Done(&t.cost, res.Duration, prompt, cached)
	}
	p.mesh.loadChanged(false)
	t.rememberTry(&res, t.begun)
	if res.Lost {
		return
	}
	p.usage.ObserveTry(t.replica.Name(), &res, now)
	p.health.judge(t, &res, now)
	if t.lead == nil && !t.anyRank && (res.Status >= http.StatusBadRequest || res.Cause == proxy.CauseConnect) {
		p.index.Unpredict(t.cost.Replica, chainOf(t.keys), t.known, p.clock.ms(t.begun))
	}
	if t.response != "" && res.Err == nil && res.Usage.Known && !t.shared() && len(t.keys.Keys) > 0 {
		p.prompts.stored.put(t.response, &storedPrompt{*t.keys, res.Usage.Prompt + res.Usage.Completion})
	}
	p.learnFetch(t, &res)
	if !t.first.IsZero() && res.Usage.Known && res.Usage.Completion > 1 && badAnswer(&res) == "" {
		p.loads.LearnRun(t.cost.Replica, now.Sub(t.first).Seconds(), res.Usage.Completion-1)
	}
	p.observe(t, &res)
}

// observe turns a finished try into metrics and evidence.
func (p *requestPath) observe(t *ticket, res *proxy.Result) {
	m := p.metrics
	if res.Answered {
		if res.Status < 500 && !res.ClientGone && (res.Err != nil || res.Failed || res.Wrong != openai.WrongNothing) {
			m.Cut.Inc()
			m.Failed.Add(1) // its status said that all was well
		}
		m.Answered(t.policyName, t.reason, res.Status)
	}
	if res.TTFT > 0 && res.Before == 0 { // the rest of an answer has no first token
		m.TTFT.Observe(res.TTFT.Seconds())
	}
	m.Duration.Observe(res.Duration.Seconds())
	if res.ClientGone {
		m.Disconnects.Inc()
	}
	u := res.Usage
	if !u.Known {
		return
	}
	m.Prompt.Add(float64(u.Prompt))
	m.Output.Add(float64(u.Completion))
	if t.shared() { // the prompt was computed by the lead: its word counts
		p.usage.Replica(t.replica.Name()).AddTokens(0, 0, u.Completion)
		u = t.lead.said()
		t.trail.Note(func(r *requests.Record) { notePrompt(r, &u) })
		t = t.lead.ticket
	}
	p.usage.Replica(t.replica.Name()).AddTokens(u.Prompt, u.Cached, u.Completion)
	if t.single && !t.shared() {
		p.tokens.Verify(t.keys, u.Prompt)
	}
	p.traffic.add(&res.Usage, u.Cached)
	t.noteReport(&u)
	if !u.CachedKnown && (!u.Known || !t.replica.Reports()) {
		return // it may never say
	}
	if t.single && t.keys.Scheme.Exact() && t.fetch.source == nil {
		t.replica.NoteMatch(t.confirmed*t.keys.Grid, u.Cached)
	}
	m.Cached.Add(float64(u.Cached))
	m.Matched.Add(float64(t.matched))
	m.PredictionError.Observe(float64(max(t.matched-u.Cached, u.Cached-t.matched)))
	if t.anyRank {
		return
	}
	p.index.Evidence(t.cost.Replica, chainOf(t.keys), u.Cached/max(1, t.keys.Grid), t.confirmed, p.clock.ms(t.at))
	p.mesh.predicted()
}

// noteReport notes whether the engine tells cached tokens. Responses always have
// them, and say nothing of the other APIs.
func (t *ticket) noteReport(u *openai.Usage) {
	switch t.api {
	case openai.Responses:
	case openai.Chat, openai.Completions, openai.Messages:
		if !u.CachedKnown && u.Known && t.matched > 0 {
			t.replica.NoteSilence()
			return
		}
		fallthrough
	default:
		if u.CachedKnown {
			t.replica.NoteReport()
		}
	}
}

// policyFor is the configured policy, or the one the request names if that is
// allowed. Who misspells it is told: a measurement would be of another one.
func (p *requestPath) policyFor(call *proxy.Call) (policy.Policy, error) {
	r := p.rules.Load()
	if call.Policy == "" || !r.cfg.HTTP.PolicyOverride {
		return r.policies[r.cfg.Policy], nil
	}
	if pol, ok := r.policies[call.Policy]; ok {
		return pol, nil
	}
	return nil, openai.Invalid("", "X-Banyan-Policy names none of "+strings.Join(policy.Names(), ", "))
}

// hash names a session, tenant or replica in 64 bits, equal on all peers.
func (d *directory) hash(s string) uint64 { return uint64(d.hasher.Root("name", s)) }
