package pick

import (
	"math/rand/v2"
	"sync"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/router/index"
	"github.com/banyan-llm/banyan/router/load"
	"github.com/banyan-llm/banyan/router/policy"
)

// Picker is the request side of one peer without its sockets: it sees what the
// index and the load table know of a prompt, and enters what was decided.
type Picker struct {
	index   *index.Index
	loads   *load.Table
	changed func()
	after   *Announcer

	mu     sync.Mutex // guards below
	demand policy.Demand
}

// Config makes a Picker.
type Config struct {
	Index *index.Index
	Loads *load.Table
	// Changed is called after a dispatch: the mesh should hear of this peer's
	// load at once.
	Changed func()
	// Announced is called when the index expects the blocks of a dispatch: the
	// mesh should hear of them soon. It must not keep the notice.
	Announced func(*Notice)
	// Late is called when the queue of announcements was full; nil: nobody asks.
	Late func()
}

// New makes a Picker.
func New(cfg Config) *Picker {
	k := &Picker{index: cfg.Index, loads: cfg.Loads, changed: cfg.Changed}
	late := cfg.Late
	if late == nil {
		late = func() {}
	}
	k.after = NewAnnouncer(func(n *Notice) {
		k.index.Predict(n.Replica, &index.Chain{Root: n.Chain.Root, Keys: n.Chain.Keys, Exact: n.Chain.Exact}, n.AtMs)
		cfg.Announced(n)
	}, late)
	return k
}

// Announcer is the queue of dispatches whose blocks are not announced yet. Its
// owner empties it.
func (k *Picker) Announcer() *Announcer { return k.after }

// Scratch is the reusable part of one decision.
type Scratch struct {
	Found   index.View
	Cands   []policy.Candidate // of the set, in its order
	Scores  []float64          // of the candidates
	Request policy.Request
	View    policy.View

	depth index.Depth
	sent  []load.Sent
	hands []int // of the set; empty if nobody fetches
	busy  []float64
}

// Match looks a prompt up for all replicas at once. What this peer dispatched
// before of prompts that begin like this one is announced first.
func (k *Picker) Match(p *Prompt, s *Scratch) {
	k.after.Before(p.Chain.Keys)
	k.index.Match(p.Chain.Keys, &s.Found)
	s.Found.Before(p.Chain.Next)
}

// Look fills in the view: how old this peer's knowledge is and how busy the
// fleet. rnd draws where the policy does.
func (k *Picker) Look(s *Scratch, ages Ages, nowMs int64, rnd *rand.Rand) *policy.View {
	lambda, meanS := k.loads.FleetRate(nowMs)
	s.View = policy.View{
		NowMs: k.loads.Wall(nowMs), AgeMs: ages.Load, Peers: ages.Peers, Lambda: lambda, MeanS: meanS, IndexAgeMs: ages.Index, Rand: rnd,
	}
	return &s.View
}

// Stored is how many tokens of the prompt one replica holds on any tier, as it
// was matched.
func (s *Scratch) Stored(p *Prompt, m *Mark) int {
	s.Found.Read(m.Ref, &s.depth)
	return s.depth.Any * p.Grid
}

// Known is how many blocks of the prompt one replica is believed to hold or to
// get, as it was matched.
func (s *Scratch) Known(m *Mark) int {
	s.Found.Read(m.Ref, &s.depth)
	return max(s.depth.Any, s.depth.Predicted)
}

// Gather makes the candidates: what is known of each replica of the set for the
// prompt as it was matched, with the ages of the view. weights are what slow
// start leaves of each replica's weight; shared is how many tokens a cache
// layer holds that all of them can load from.
func (k *Picker) Gather(s *Scratch, set *Set, weights []float64, p *Prompt, shared int, nowMs int64) {
	n := len(set.Marks)
	if cap(s.Cands) < n {
		s.Cands = make([]policy.Candidate, n, n+n/4)
	}
	s.Cands = s.Cands[:n]
	clear(s.Cands)
	s.hands = s.hands[:0]
	grid, d := p.Grid, &s.depth
	for i, m := range set.Marks {
		c := &s.Cands[i]
		s.Found.Read(m.Ref, d)
		c.ID, c.Index, c.Weight = m.ID, i, weights[i]
		c.GPU, c.CPU, c.Disk, c.Predicted, c.Suspect = d.GPU*grid, d.CPU*grid, d.Any*grid, d.Predicted*grid, d.Suspect*grid
		page := 1
		if i < len(set.Pages) {
			page = max(1, set.Pages[i])
		}
		c.Pool, c.Held = shared, int64(m.Ref.Blocks()*grid)
		p.clip(c, page, i < len(set.Drops) && set.Drops[i])
		if i < len(set.Fetches) {
			s.hand(set.Fetches[i], grid)
		}
	}
	if len(s.hands) == n && p.Chain.Exact && !p.Uncached {
		s.busy = k.loads.HandOuts(s.busy[:0], set.Entries, nowMs)
		Fetchable(s.Cands, s.hands, s.busy, p.Tokens-1)
	}
	k.loads.Snapshot(s.Cands, set.Entries, nowMs, s.View.AgeMs)
}

// hand notes what the replica that was read last can hand to others: what it
// has on its GPU is on its host soon, and that is where engines fetch from.
func (s *Scratch) hand(fetches bool, grid int) {
	if !fetches {
		s.hands = append(s.hands, NoFetch)
		return
	}
	s.hands = append(s.hands, s.depth.CPU*grid)
}

// Fetch is what the winner of a decision should fetch, and from which replica of
// the set; -1: nothing.
func (s *Scratch) Fetch(d *policy.Decision) (f Fetch, source int) {
	if d.Pos < 0 {
		return f, -1
	}
	c := &s.Cands[d.Pos]
	return Fetch{Decided: *d, Sure: c.Disk}, Source(s.hands, s.busy, c.Index, d, s.View.Rand)
}

// WithCapacity drops the candidates whose replicas are full.
func (k *Picker) WithCapacity(s *Scratch, set *Set, limit *load.Limit, nowMs int64) {
	s.Cands = k.loads.WithCapacity(s.Cands, set.Entries, limit, nowMs)
}

// Ask makes the request that the policy sees and counts it: the view says then
// what share of this peer's requests begin like it.
func (k *Picker) Ask(s *Scratch, p *Prompt, session uint64) *policy.Request {
	p.Request(session, &s.Request)
	k.mu.Lock()
	defer k.mu.Unlock()
	s.View.Share = k.demand.Ask(&s.Request, s.View.NowMs)
	return &s.Request
}

// Decide asks the policy for one of the candidates; Pos is -1 if there is none.
func (s *Scratch) Decide(pol policy.Policy) policy.Decision {
	if n := len(s.Cands); cap(s.Scores) < n {
		s.Scores = make([]float64, n, n+n/4)
	}
	s.Scores = s.Scores[:len(s.Cands)]
	return pol.Decide(&s.Request, &s.View, s.Cands, s.Scores)
}

// Book counts a request in at its replica and tells the mesh of it. False: the
// replica has become full, and nothing was done.
func (k *Picker) Book(c *load.Cost, limit *load.Limit, nowMs int64) bool {
	if !k.loads.DispatchWithin(c, limit, nowMs) {
		return false
	}
	k.changed()
	return true
}

// Sent follows Book when the request goes to its replica: the mesh will soon
// hear of the blocks that it leaves there. hit is how many of them are believed
// cached.
func (k *Picker) Sent(c *load.Cost, p *Prompt, hit int, nowMs int64) {
	k.after.Add(Notice{Replica: c.Replica, Chain: p.Chain, Hit: hit, AtMs: nowMs})
}

// Again looks at a booked request a second time, at candidates that were
// gathered anew; it is booked at the candidate at. It answers LookStayed or
// LookMoved. Callers ask load.Table.News before: without news there is nothing
// to decide (LookAlone).
func (k *Picker) Again(s *Scratch, pol policy.Policy, at int, c *load.Cost) (policy.Decision, Look) {
	s.sent = k.loads.SentSince(s.sent[:0], c)
	if n := len(s.Cands); cap(s.Scores) < n {
		s.Scores = make([]float64, n, n+n/4)
	}
	s.Scores = s.Scores[:len(s.Cands)]
	d := Again(pol, &s.Request, &s.View, s.Cands, s.Scores, at, c, s.sent)
	if d.Pos < 0 || d.Pos == at {
		return d, LookStayed
	}
	return d, LookMoved
}

// HandOut follows a decision whose winner fetches from a replica: that one is
// busy for the time of it.
func (k *Picker) HandOut(s *Scratch, source crdt.StreamID, d *policy.Decision, nowMs int64) {
	HandOut(k.loads, source, d, &s.Cands[d.Pos], nowMs)
}

// BookSecond counts a request in at the second of its two replicas, where the
// prompt is not computed but arrives.
func (k *Picker) BookSecond(c *load.Cost, p *Prompt, nowMs int64) {
	k.loads.Add(c, nowMs)
	k.changed()
	k.Sent(c, p, -1, nowMs)
}
