package simulation

import (
	"math/rand/v2"
	"time"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/gossip"
	"github.com/banyan-llm/banyan/router/admission"
	realindex "github.com/banyan-llm/banyan/router/index"
	"github.com/banyan-llm/banyan/router/load"
	"github.com/banyan-llm/banyan/router/pick"
	"github.com/banyan-llm/banyan/router/policy"
	"github.com/banyan-llm/banyan/router/workingset"
)

// Times of a peer's housekeeping, ms, as in package router.
const (
	houseTickMs = 20
	vitalsMs    = 1_000
	slowStart   = 10 * time.Second // discovery.slow_start
)

// desk is the request side of one peer: router/pick between the real index,
// load table and policy, and what package router does around it.
type desk struct {
	peer   *faultPeer
	policy policy.Policy
	rand   *rand.Rand
	picker *pick.Picker
	marks  []*pick.Mark // per replica

	// Of the last decision: who could be tried, and what was seen of them.
	fleet   []int
	set     pick.Set
	weights []float64
	prompt  pick.Prompt
	pick.Scratch

	rule    workingset.Rule
	pool    []workingset.Cache
	queue   *admission.Queue // conversations that wait to begin
	tending bool             // it will be looked after
	let     *trip            // who was let in and is not sent yet; nil: nobody

	silences pick.Silences
	looked   int64 // when they were taken; 0: never
	vitals   int64 // when the mesh was last told how the peer does
	settling bool  // the queue of announcements will be emptied
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
	d := &desk{peer: p, policy: pol, rand: rand.New(rand.NewPCG(cfg.Seed, 0xde5<<16|uint64(len(m.desks))))}
	d.picker = pick.New(pick.Config{
		Index: p.index, Loads: p.loads,
		Changed:   func() { p.step(gossip.LoadChanged{Urgent: true}) },
		Announced: func(*pick.Notice) { p.step(gossip.Predicted{}) },
	})
	d.picker.Announcer().Serve(true)
	d.rule = workingset.Rule{Set: p.used, Share: cfg.WorkingSet, Pool: func() []workingset.Cache { return m.caches(d) }}
	d.queue = waitingLine(cfg)
	for k, g := range m.fleet {
		d.marks = append(d.marks, &pick.Mark{ID: uint64(k) + 1, Ref: p.index.Ref(g.stream), Entry: p.loads.Entry(g.stream)})
		p.loads.Believe(g.stream, m.books.rates[min(p.slot, cfg.Peers-1)*cfg.Replicas+k])
	}
	m.desks[p] = d
	return d
}

// look is the peer's housekeeping: the ages of what it knows, the load of peers
// that are silent, what it tells of itself.
func (m *meshRun) look(d *desk) {
	p, now := d.peer, d.peer.now()
	if d.looked != 0 && now-d.looked < houseTickMs {
		return
	}
	d.looked = now
	d.silences = pick.Silence(p.core.Peers(), p.id, now)
	p.loads.Decay(now)
	if now-d.vitals >= vitalsMs {
		d.vitals = now
		p.loads.JoinVitals(map[crdt.PeerID]crdt.Vitals{p.id: {
			Version: uint64(now), Name: p.name, Rate: p.loads.OwnRate(now), Ready: p.ready, Draining: p.draining,
		}})
	}
}

// scrape is the owners reading their engines' own load figures.
func (m *meshRun) scrape() bool {
	for _, p := range m.live() {
		p.do(func() {
			for _, g := range m.fleet {
				if f := p.follows[g.stream]; f != nil && f.hold.Owner() && f.hears() {
					st := g.model.Stats()
					p.loads.JoinScrapes(map[crdt.StreamID]crdt.Scrape{g.stream: {
						Version: uint64(p.wall()), Running: int32(st.Running), Waiting: int32(st.Waiting), KVUse: float32(st.KVUse()),
						Capacity: int64(st.Blocks * m.books.cfg.Page),
					}})
				}
			}
		})
	}
	return true
}

// decide is router's way to a decision: match, look, gather, ask, decide.
// False: no replica can be tried.
func (m *meshRun) decide(d *desk, i int) (policy.Decision, bool) {
	m.look(d)
	if !m.view(d, i) {
		return policy.Decision{}, false
	}
	d.picker.Ask(&d.Scratch, &d.prompt, m.books.cfg.sessionOf(&m.books.jobs[i]))
	dec := d.Decide(d.policy)
	return dec, dec.Pos >= 0
}

// view is what the peer knows of every replica that can be tried, for one
// request; false: there is none.
func (m *meshRun) view(d *desk, i int) bool {
	j, t, now := &m.books.jobs[i], &m.trips[i], d.peer.now()
	d.fleet, d.weights = d.fleet[:0], d.weights[:0]
	d.set.Reset()
	d.set.Fetches = d.set.Fetches[:0]
	for k, g := range m.fleet {
		if g.serves(d.peer) && t.tried != g {
			d.fleet, d.weights = append(d.fleet, k), append(d.weights, g.weight())
			d.set.Add(d.marks[k])
			if m.books.cfg.Fetch {
				d.set.Fetches = append(d.set.Fetches, true)
			}
		}
	}
	if len(d.fleet) == 0 {
		return false
	}
	d.prompt = pick.Prompt{
		Chain:  m.chain(t),
		Tokens: j.req.Tokens, Grid: m.books.cfg.Page,
	}
	d.picker.Match(&d.prompt, &d.Scratch)
	d.picker.Look(&d.Scratch, d.silences.Ages(now), now, d.rand)
	d.picker.Gather(&d.Scratch, &d.set, d.weights, &d.prompt, 0, now)
	d.prompt.Request(m.books.cfg.sessionOf(j), &d.Request)
	return true
}

// serves reports whether a peer finds the engine up.
func (g *meshEngine) serves(p *faultPeer) bool { return g.up && g.cutOff[p.slot] == 0 }

// chain is a request's prompt as keys.
func (m *meshRun) chain(t *trip) realindex.Chain {
	return realindex.Chain{Root: m.library.root, Keys: t.prompt.keys, Hashes: t.prompt.hash, Exact: true}
}

// weight is what slow start leaves of the engine's weight.
func (g *meshEngine) weight() float64 {
	if g.rose == 0 {
		return 1
	}
	return load.SlowStart(time.Duration(g.run.now-g.rose)*time.Millisecond, slowStart)
}

// dispatched tells the mesh what a request that was sent will leave at its
// replica: right after, as a router's own goroutine does.
func (m *meshRun) dispatched(d *desk, i int) {
	t, p := &m.trips[i], d.peer
	pr := pick.Prompt{Chain: m.chain(t), Grid: m.books.cfg.Page}
	d.picker.Sent(&t.cost, &pr, pr.Blocks(t.matched), p.now())
	if d.settling {
		return
	}
	d.settling = true
	m.after(0, func() {
		d.settling = false
		p.do(d.picker.Announcer().Settle)
	})
}

// started books a first token.
func (m *meshRun) started(d *desk, i int) {
	j, t, p := &m.books.jobs[i], &m.trips[i], d.peer
	p.loads.FirstToken(&t.cost, p.now())
	t.began = m.now
	if m.books.cfg.Learn && t.source == nil {
		p.loads.Learn(t.engine.stream, policy.Sample{Predicted: j.predicted, Prefill: j.prefill, Seen: float64(m.now-t.sent) / 1000})
	}
	p.step(gossip.LoadChanged{})
}

// ended books a request out, whatever became of it.
func (m *meshRun) ended(d *desk, i int) {
	t, p := &m.trips[i], d.peer
	p.requests--
	p.loads.Done(&t.cost, time.Duration(m.now-t.sent)*time.Millisecond, 0, 0)
	p.step(gossip.LoadChanged{})
}

// learned enters what an answer said of its prompt's cached part, and how fast
// it came.
func (m *meshRun) learned(d *desk, i int) {
	j, t, p := &m.books.jobs[i], &m.trips[i], d.peer
	m.learnFetch(d, i, true)
	if m.books.cfg.Learn {
		p.loads.LearnRun(t.engine.stream, j.done-j.first, j.req.Output-1)
	}
	chain := m.chain(t)
	p.index.Evidence(t.engine.stream, &chain, j.cached/m.books.cfg.Page, t.confirmed, p.at(t.sent))
	p.step(gossip.Predicted{})
}
