package router

import (
	"context"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/router/console"
	"github.com/banyan-llm/banyan/router/fleet"
	"github.com/banyan-llm/banyan/router/index"
	"github.com/banyan-llm/banyan/router/openai"
	"github.com/banyan-llm/banyan/router/policy"
	"github.com/banyan-llm/banyan/router/proxy"
	"github.com/banyan-llm/banyan/router/token"
)

// prompt is what was learned of a request's body, once for all its tries.
type prompt struct {
	keys    token.Keys
	matched bool
	view    index.View
	lora    string
	whole   bool // a prefill leg failed: one replica is enough
}

// ticket follows one try from its dispatch to its end.
type ticket struct {
	share      share
	replica    *fleet.Replica
	ref        *index.Ref
	keys       *token.Keys
	at         time.Time
	first      time.Time
	matched    int
	confirmed  int // grid blocks that events vouch for
	predicted  float64
	policyName string
	reason     policy.Reason

	lead     *lead // the prefill side, nil if one replica does it all
	prompt   *prompt
	alone    policy.Decision // what this replica takes if the lead fails
	fellBack bool            // and it did
}

// scratch is the reusable part of one decision.
type scratch struct {
	replicas []*fleet.Replica
	cands    []policy.Candidate
	scores   []float64
	ids      []crdt.StreamID
	pools    policy.Pools
	rand     *rand.Rand
	choice   console.Choice
}

var scratches = sync.Pool{New: func() any {
	return &scratch{rand: rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))}
}}

// headBlocks is how far into a prompt the key lies by which prompts without a
// session are told apart: most share at least a greeting.
const headBlocks = 16

// Pick is the request path: body -> keys -> match -> decide -> count in.
func (p *Peer) Pick(ctx context.Context, call *proxy.Call) (*proxy.Target, error) {
	s := scratches.Get().(*scratch)
	defer scratches.Put(s)
	lora, err := p.candidates(s, call)
	if err != nil {
		return nil, err
	}
	pr, err := p.readPrompt(ctx, call, lora, s.replicas)
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	if !pr.matched {
		p.index.Match(pr.keys.Keys, &pr.view)
		pr.matched = true
	}
	view := p.view(begin, s.rand)
	s.cands, s.ids = s.cands[:0], s.ids[:0]
	for i, r := range s.replicas {
		s.cands, s.ids = append(s.cands, p.candidate(i, r, pr, begin)), append(s.ids, r.Stream)
	}
	p.board.fill(s.cands, s.ids, view.NowMs, view.AgeMs)
	if err := p.roomy(s, call, begin); err != nil {
		return nil, err
	}
	pol := p.policyFor(call)
	req := policy.Request{Tokens: pr.keys.Tokens, Key: uint64(pr.keys.Deepest()), MaxNew: call.Body.MaxTokens}
	if n := len(pr.keys.Keys); n > 0 {
		req.Prefix = uint64(pr.keys.Keys[min(n, headBlocks)-1])
	}
	if call.Session != "" {
		req.Session = p.hash(call.Session)
	}
	if call.Tenant != "" {
		req.Tenant = p.hash(call.Tenant)
	}
	if p.config().Routing.Disagg.On() {
		return p.pickSplit(ctx, call, s, pr, pol, &req, view, begin)
	}
	s.scores = slices.Grow(s.scores[:0], len(s.cands))[:len(s.cands)]
	d := pol.Decide(&req, view, s.cands, s.scores)
	if d.Pos < 0 {
		return nil, proxy.ErrNoReplica
	}
	t := p.countIn(s.replicas[s.cands[d.Pos].Index], &s.cands[d.Pos], pr, d, p.barTo(call, begin), begin)
	if t == nil {
		return nil, proxy.ErrSaturated
	}
	t.policyName, t.reason = pol.Name(), d.Reason
	tracePick(ctx, t, len(s.cands), view)
	p.metrics.decision.Observe(time.Since(begin).Seconds())
	p.record(s, s.cands, s.scores, &d, nil, t, pr.keys.Tokens)
	return t.target(pol.Name(), d), nil
}

// candidates lists the replicas that serve the call's model and may be tried.
func (p *Peer) candidates(s *scratch, call *proxy.Call) (lora string, err error) {
	s.replicas = s.replicas[:0]
	known, told := false, false
	for _, r := range p.fleet.List() {
		if r.Spec.Kind == "pool" || r.Spec.Role == "decode" && !p.config().Routing.Disagg.On() {
			continue
		}
		told = told || len(r.Models()) > 0
		name, ok := r.Serves(call.Body.Model)
		if !ok && call.Body.Model != "" {
			continue
		}
		known, lora = true, name
		if r.Up() && !slices.Contains(call.Tried, r.Name()) {
			s.replicas = append(s.replicas, r)
		}
	}
	switch {
	case len(s.replicas) > 0:
		return lora, nil
	case !known && told:
		return "", proxy.ErrUnknownModel
	}
	return "", proxy.ErrNoReplica
}

// readPrompt turns the body into block keys, once per call.
func (p *Peer) readPrompt(ctx context.Context, call *proxy.Call, lora string, replicas []*fleet.Replica) (*prompt, error) {
	if pr, ok := call.Memo.(*prompt); ok {
		return pr, nil
	}
	body := call.Body
	q := token.Query{Model: body.Model, LoRA: lora, Salt: body.CacheSalt, Chat: body.Endpoint == openai.Chat}
	if body.Prompt.Kind == openai.TokenPrompt {
		q.Tokens = body.Prompt.Tokens
	}
	switch body.Endpoint {
	case openai.Chat, openai.Completions:
		q.Text, q.Body = body.AppendCanonical, body.PromptBody
		if at := oracle(replicas, p.tokens.Resting); at != nil {
			q.Engine, q.PageTokens = at.Spec.URL, pageOf(replicas)
			if at.Spec.Credentials != "" {
				q.Header = http.Header{"Authorization": {"Bearer " + at.Spec.Credentials}}
			}
		}
	case openai.Responses, openai.Embeddings:
		q.Text = body.AppendCanonical
	}
	pr := &prompt{keys: p.tokens.Keys(ctx, &q), lora: lora}
	p.metrics.tokenized.WithLabelValues(string(pr.keys.Scheme), string(pr.keys.Reason)).Inc()
	call.Memo = pr
	return pr, ctx.Err()
}

// oracle draws a replica that can render prompts, so that in a pool of several
// engines equal prompts have equal keys; nil if none can. One that rests, by
// its URL, is drawn only if all do: else its share of the prompts would get
// text keys while others could tell.
func oracle(replicas []*fleet.Replica, resting func(url string) bool) (at *fleet.Replica) {
	from := rand.IntN(len(replicas))
	for i := range replicas {
		r := replicas[(from+i)%len(replicas)]
		if r.Engine() != "vllm" {
			continue
		}
		if !resting(r.Spec.URL) {
			return r
		}
		at = r
	}
	return at
}

// pageOf is the page by which images in rendered prompts are named, tokens: of
// a pool with several page sizes the first one, for whatever replica is asked,
// so that equal prompts have equal keys. 0 if unknown.
func pageOf(replicas []*fleet.Replica) int {
	for _, r := range replicas {
		if f := r.Facts(); f.Engine == "vllm" && f.BlockSize > 0 {
			return f.BlockSize
		}
	}
	return 0
}

// view is what this peer knows of its own knowledge now.
func (p *Peer) view(now time.Time, rnd *rand.Rand) *policy.View {
	lambda, meanS := p.board.fleetRate()
	v := p.seen(now)
	return &policy.View{
		NowMs: now.UnixMilli(), AgeMs: v.load, Peers: v.peers, Lambda: lambda, MeanS: meanS, IndexAgeMs: v.index, Rand: rnd,
	}
}

// candidate gathers what is known of one replica for this prompt.
func (p *Peer) candidate(i int, r *fleet.Replica, pr *prompt, now time.Time) policy.Candidate {
	m := p.markOf(r)
	d := pr.view.Depth(m.ref)
	grid := pr.keys.Grid
	return policy.Candidate{
		ID: m.id, Index: i, Weight: r.Weight(now),
		GPU: d.GPU * grid, CPU: d.CPU * grid, Disk: d.Any * grid, Predicted: d.Predicted * grid, Suspect: d.Suspect * grid,
	}
}

// countIn books the request at its replica and tells the mesh. It returns nil
// if the replica has become full.
func (p *Peer) countIn(r *fleet.Replica, c *policy.Candidate, pr *prompt, d policy.Decision, below *bar, now time.Time) *ticket {
	t := p.ticket(r, c, pr, d, now)
	if !p.board.dispatchBelow(&t.share, below, now.UnixMilli()) {
		return nil
	}
	p.announce(t, now)
	return t
}

// announce tells the mesh of a dispatch and of the blocks it will leave.
func (p *Peer) announce(t *ticket, now time.Time) {
	p.index.Predict(t.share.id, &index.Chain{Root: t.keys.Root, Keys: t.keys.Keys, Exact: t.keys.Scheme.Exact()}, now.UnixMilli())
	p.mesh.loadChanged(true)
	p.mesh.predicted()
}

func (p *Peer) ticket(r *fleet.Replica, c *policy.Candidate, pr *prompt, d policy.Decision, now time.Time) *ticket {
	return &ticket{
		share: share{
			id: r.Stream, prefill: d.Prefill, tokens: int64(max(1, pr.keys.Tokens-d.Matched)),
			blocks: int64(len(pr.keys.Keys)),
		},
		replica: r, ref: p.markOf(r).ref, keys: &pr.keys, at: now, matched: d.Matched, predicted: d.Predicted,
		confirmed: c.Disk / max(1, pr.keys.Grid),
	}
}

// target tells the proxy where to go.
func (t *ticket) target(policyName string, d policy.Decision) *proxy.Target {
	spec := &t.replica.Spec
	return &proxy.Target{
		Replica: spec.Name, URL: spec.URL, Header: t.headers(), Policy: policyName, Reason: string(d.Reason), Matched: d.Matched, Token: t,
	}
}

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
	return header
}

// FirstToken is called when the first token of an answer was seen.
func (p *Peer) FirstToken(target *proxy.Target, at time.Time) {
	t := target.Token.(*ticket)
	t.first = at
	p.board.firstToken(&t.share, at.UnixMilli())
	if !t.shared() {
		p.board.learn(t.share.id, policy.Sample{Predicted: t.predicted, Prefill: t.share.prefill, Seen: at.Sub(t.at).Seconds()})
	}
	t.replica.OK(at)
	p.mesh.loadChanged(false)
}

// Done is called when a try ended, whatever became of it.
func (p *Peer) Done(target *proxy.Target, res proxy.Result) {
	t := target.Token.(*ticket)
	now := time.Now()
	prompt, cached := 0, 0
	if res.Usage.Known && !t.shared() {
		prompt, cached = res.Usage.Prompt, res.Usage.Cached
	}
	if t.lead != nil && !t.lead.running {
		p.endLead(t, legOf(&res), openai.Usage{}, now)
	}
	if res.Lost { // its time says nothing
		p.board.leave(&t.share, prompt, cached)
	} else {
		p.board.done(&t.share, res.Duration, prompt, cached)
	}
	p.mesh.loadChanged(false)
	if res.Lost {
		return
	}
	if res.Err != nil && !res.ClientGone {
		guilty := t.replica
		if t.lead != nil && t.lead.cut {
			guilty = t.lead.replica
		}
		if p.fleet.Fail(guilty, now, res.Cause == proxy.CauseConnect, fleet.Cause(res.Err)) {
			p.log.Warn("replica down", "replica", guilty.Name(), "reason", fleet.Cause(res.Err))
		}
	} else if res.Status > 0 && res.Status < 500 {
		t.replica.OK(now)
	}
	if !t.first.IsZero() && res.Usage.Known && res.Usage.Completion > 1 {
		p.board.learnRun(t.share.id, now.Sub(t.first).Seconds(), res.Usage.Completion-1)
	}
	p.observe(t, &res)
}

// observe turns a finished try into metrics and evidence.
func (p *Peer) observe(t *ticket, res *proxy.Result) {
	m := p.metrics
	if res.Answered {
		m.answered(t.policyName, t.reason, res.Status)
	}
	if res.TTFT > 0 {
		m.ttft.Observe(res.TTFT.Seconds())
	}
	m.duration.Observe(res.Duration.Seconds())
	if res.ClientGone {
		m.disconnects.Inc()
	}
	u := res.Usage
	if !u.Known {
		return
	}
	m.prompt.Add(float64(u.Prompt))
	m.output.Add(float64(u.Completion))
	if t.shared() { // the prompt was computed by the lead: its word counts
		u, t = t.lead.said(), t.lead.ticket
	}
	p.traffic.add(&res.Usage, u.Cached)
	switch {
	case u.CachedKnown:
		t.replica.NoteReport()
	case !u.Known || !t.replica.Reports():
		return // it may never say
	}
	m.cached.Add(float64(u.Cached))
	m.matched.Add(float64(t.matched))
	m.predictionError.Observe(float64(max(t.matched-u.Cached, u.Cached-t.matched)))
	p.index.Evidence(t.share.id, &index.Chain{Root: t.keys.Root, Keys: t.keys.Keys, Hashes: t.keys.Hashes, Exact: t.keys.Scheme.Exact()},
		u.Cached/max(1, t.keys.Grid), t.confirmed, t.at.UnixMilli())
	p.mesh.predicted()
}

// policyFor is the configured policy, or the one the request names if that is
// allowed.
func (p *Peer) policyFor(call *proxy.Call) policy.Policy {
	r := p.rules.Load()
	if call.Policy != "" && r.cfg.HTTP.PolicyOverride {
		if pol, ok := r.policies[call.Policy]; ok {
			return pol
		}
	}
	return r.policies[r.cfg.Policy]
}

// mark is what never changes of a replica, worked out once.
type mark struct {
	id  uint64 // hash of the name
	ref *index.Ref
}

func (p *Peer) markOf(r *fleet.Replica) *mark {
	if m, ok := r.Mark.Load().(*mark); ok {
		return m
	}
	m := &mark{id: p.hash(r.Name()), ref: p.index.Ref(r.Stream)}
	r.Mark.Store(m)
	return m
}

// hash names a session, tenant or replica in 64 bits, equal on all peers.
func (p *Peer) hash(s string) uint64 { return uint64(p.hasher.Root("name", s)) }
