package simulation

import (
	"math/rand/v2"
	"slices"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/gossip"
	realindex "github.com/banyan-llm/banyan/router/index"
	"github.com/banyan-llm/banyan/router/policy"
	"github.com/banyan-llm/banyan/simulation/replica"
)

// Times of a peer's view, ms, as in package router.
const (
	refreshMs   = 100
	quietViewMs = 500 // silence up to this is no news, not old news
)

// desk is the request side of one peer: what package router does between the
// proxy, the index, the loads and the policy.
type desk struct {
	peer   *faultPeer
	policy policy.Policy
	rand   *rand.Rand
	rates  []policy.Rates // per replica
	learn  []policy.Calibrator
	young  [][]youngJob // per replica, oldest first
	view   realindex.View
	cands  []policy.Candidate
	demand policy.Demand

	looked      int64 // when the ages below were taken; 0: never
	load, index float64
	peers       int
}

// youngJob is an own dispatch that others may not have seen.
type youngJob struct {
	at      int64
	prefill float64
	tokens  int64
}

// desk is the peer's; one that starts anew starts with an empty one.
func (m *meshRun) desk(p *faultPeer) *desk {
	if d := m.desks[p]; d != nil {
		return d
	}
	cfg := &m.books.cfg
	pol, err := policy.New(cfg.Policy, *cfg.Routing)
	if err != nil {
		panic("invariant: " + err.Error()) // newMeshRun made one
	}
	d := &desk{
		peer: p, policy: pol, young: make([][]youngJob, len(m.fleet)), cands: make([]policy.Candidate, 0, len(m.fleet)),
		rand: rand.New(rand.NewPCG(cfg.Seed, 0xde5<<16|uint64(len(m.desks)))),
	}
	for k := range m.fleet {
		rates := m.books.rates[min(p.slot, cfg.Peers-1)*cfg.Replicas+k]
		d.rates, d.learn = append(d.rates, rates), append(d.learn, policy.NewCalibrator(rates))
	}
	m.desks[p] = d
	return d
}

// refresh looks at the ages of what the peer knows, now and then.
func (m *meshRun) refresh(d *desk) {
	if d.looked != 0 && m.now-d.looked < refreshMs {
		return
	}
	d.looked, d.peers = m.now, 1
	var silent []int64
	for _, info := range d.peer.core.Peers() {
		if info.Member {
			d.peers++
			silent = append(silent, info.ViewAge)
		}
	}
	slices.Sort(silent)
	age := func(ms int64) float64 {
		if ms > quietViewMs {
			return float64(ms)
		}
		return float64(m.cfg.DelayMs)
	}
	d.load, d.index = 0, 0
	if n := len(silent); n > 0 {
		d.load, d.index = age(silent[n-1]), age(silent[n/2])
	}
}

// decide asks the real policy with what this peer's real index and load table
// say now. False: no replica can be tried.
func (m *meshRun) decide(d *desk, i int) (policy.Decision, bool) {
	m.refresh(d)
	j, t := &m.books.jobs[i], &m.trips[i]
	d.peer.index.Match(t.prompt.keys, &d.view)
	d.cands = d.cands[:0]
	m.books.scrape.refresh(m.seconds(), m.books.cfg.Scrape, m.models())
	for k, g := range m.fleet {
		if g.up && g.cutOff[d.peer.slot] == 0 && t.tried != g {
			d.cands = append(d.cands, m.candidate(d, k))
		}
	}
	if len(d.cands) == 0 {
		return policy.Decision{}, false
	}
	view := policy.View{
		NowMs: m.now, AgeMs: d.load, IndexAgeMs: d.index, Peers: d.peers,
		Lambda: m.books.rate.perSecond(m.seconds()), MeanS: m.books.meanS.mean(), Rand: d.rand,
	}
	req := policy.Request{Tokens: j.req.Tokens, MaxNew: j.req.Output}
	if n := len(t.prompt.keys); n > 0 {
		req.Key, req.Prefix = uint64(t.prompt.keys[n-1]), uint64(t.prompt.keys[0])
	}
	if j.req.Session >= 0 {
		req.Session = uint64(j.req.Session) + 1
	}
	view.Share = d.demand.Ask(&req, m.now)
	dec := d.policy.Decide(&req, &view, d.cands, nil)
	return dec, dec.Pos >= 0
}

// candidate is one replica as the peer sees it.
func (m *meshRun) candidate(d *desk, k int) policy.Candidate {
	g, page := m.fleet[k], m.books.cfg.Page
	ref := d.peer.index.Ref(g.stream)
	depth := d.view.Depth(ref)
	sum := d.peer.state.loads.Sum(g.stream)
	c := policy.Candidate{
		ID: uint64(k) + 1, Index: k, Weight: 1, Rates: d.rates[k],
		GPU: depth.GPU * page, CPU: depth.CPU * page, Disk: depth.Any * page,
		Predicted: depth.Predicted * page, Suspect: depth.Suspect * page, Held: int64(ref.Blocks() * page),
		Waiting: int(sum.Waiting), Prefill: sum.Prefill, Tokens: sum.Tokens,
		Streams: int(sum.Streams), Blocks: sum.Blocks, FirstToken: sum.FirstToken,
	}
	young := d.young[k]
	for len(young) > 0 && float64(m.now-young[0].at) >= d.load {
		young = young[1:]
	}
	d.young[k] = young
	for _, y := range young {
		c.YoungCount++
		c.YoungPrefill += y.prefill
		c.YoungTokens += y.tokens
	}
	m.books.scrape.fill(k, &c, int64(page))
	if in, ok := d.peer.state.intents[g.stream]; ok && in.Drain {
		c.Weight = 0
	}
	return c
}

// models are the replicas' models in order.
func (m *meshRun) models() []*replica.Replica {
	out := make([]*replica.Replica, len(m.fleet))
	for k, g := range m.fleet {
		out[k] = g.model
	}
	return out
}

// dispatched books a decided request and tells the mesh.
func (m *meshRun) dispatched(d *desk, i int) {
	j, t := &m.books.jobs[i], &m.trips[i]
	id := t.engine.stream
	d.young[j.replica] = append(d.young[j.replica], youngJob{m.now, j.prefill, j.tokens})
	sum := d.peer.state.loads.Sum(id)
	d.peer.state.book(id, func(l *crdt.Load) {
		if sum.Waiting == 0 && sum.Streams == 0 {
			l.FirstToken = m.now
		}
		l.Waiting++
		l.Prefill += j.prefill
		l.Tokens += j.tokens
	})
	d.peer.step(gossip.LoadChanged{Urgent: true})
	d.peer.index.Predict(id, &realindex.Chain{Root: m.library.root, Keys: t.prompt.keys, Exact: true}, d.peer.now())
	d.peer.step(gossip.Predicted{})
}

// started books a first token.
func (m *meshRun) started(d *desk, i int) {
	j, t := &m.books.jobs[i], &m.trips[i]
	d.peer.state.book(t.engine.stream, func(l *crdt.Load) {
		leaveQueue(l, j)
		l.Streams++
		l.Blocks += j.blocks
		l.FirstToken = m.now
	})
	d.peer.step(gossip.LoadChanged{})
	if m.books.cfg.Learn {
		d.learn[j.replica] = d.learn[j.replica].FirstToken(policy.Sample{
			Predicted: j.predicted, Prefill: j.prefill, Seen: float64(m.now-t.sent) / 1000,
		})
		policy.Blend(d.rates[:0], d.learn)
	}
}

// ended books a request out, whatever became of it.
func (m *meshRun) ended(d *desk, i int) {
	j, t := &m.books.jobs[i], &m.trips[i]
	d.peer.requests--
	d.peer.state.book(t.engine.stream, func(l *crdt.Load) {
		if t.streaming {
			l.Streams--
			l.Blocks -= j.blocks
		} else {
			leaveQueue(l, j)
		}
	})
	d.peer.step(gossip.LoadChanged{})
}

func leaveQueue(l *crdt.Load, j *job) {
	l.Waiting--
	l.Prefill -= j.prefill
	l.Tokens -= j.tokens
	if l.Waiting == 0 {
		l.Prefill, l.Tokens = 0, 0 // no drift of sums
	}
}

// learned enters what an answer said of its prompt's cached part.
func (m *meshRun) learned(d *desk, i int) {
	j, t := &m.books.jobs[i], &m.trips[i]
	d.peer.index.Evidence(t.engine.stream, &realindex.Chain{
		Root: m.library.root, Keys: t.prompt.keys, Hashes: t.prompt.hash, Exact: true,
	}, j.cached/m.books.cfg.Page, t.confirmed, t.sent)
	d.peer.step(gossip.Predicted{})
}
