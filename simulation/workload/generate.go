package workload

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
)

// Options scale a generator. Zero values keep the workload's own figures.
type Options struct {
	Seed     uint64
	Requests int     // about how many; sessions are never cut
	Rate     float64 // factor on arrival rates (2: twice as fast)
	Replicas int     // fleet size; ladders and rates scale with it
}

// Generate makes the named workload.
func Generate(name string, o Options) (*Workload, error) {
	spec, ok := generators[name]
	if !ok {
		return nil, fmt.Errorf("unknown workload %q (have %v)", name, Names())
	}
	if o.Requests < 0 || o.Rate < 0 || o.Replicas < 0 || math.IsNaN(o.Rate) {
		return nil, fmt.Errorf("workload %s: requests, rate and replicas must not be negative", name)
	}
	w := &Workload{Name: name, Replicas: spec.replicas, Profile: spec.profile, KVTokens: spec.kvTokens}
	g := &generator{
		w:    w,
		rnd:  rand.New(rand.NewPCG(o.Seed, mix(keySeed, uint64(len(name))))),
		rate: 1, size: spec.requests, salt: mix(o.Seed, nameHash(name)),
	}
	if o.Requests > 0 {
		g.size = o.Requests
	}
	if o.Rate > 0 {
		g.rate = o.Rate
	}
	if o.Replicas > 0 {
		g.rate *= float64(o.Replicas) / float64(spec.replicas)
		w.Replicas = o.Replicas
	}
	spec.make(g, o.Requests > 0)
	arrange(g.w.Requests)
	return w, nil
}

// Names lists the workloads, sorted.
func Names() []string { return slices.Sorted(maps.Keys(generators)) }

// spec is one generator with the fleet it was published for.
type spec struct {
	replicas int
	profile  string
	kvTokens int
	requests int
	make     func(g *generator, sized bool)
}

// generator is the state of one generation.
type generator struct {
	w    *Workload
	rnd  *rand.Rand
	rate float64 // factor on rates
	size int     // requests wanted
	salt uint64  // keeps workloads and seeds apart
	next uint64  // segment ids handed out
	now  float64
}

// id returns a fresh segment id.
func (g *generator) id() uint64 {
	g.next++
	return mix(g.salt, g.next)
}

// segment returns a fresh segment.
func (g *generator) segment(tokens int, role Role) Segment {
	return Segment{ID: g.id(), Tokens: tokens, Role: role}
}

// arrive advances time by one Poisson gap at a rate per second.
func (g *generator) arrive(perSecond float64) float64 {
	g.now += g.rnd.ExpFloat64() / (perSecond * g.rate)
	return g.now
}

// uniform draws from [lo, hi].
func (g *generator) uniform(lo, hi int) int { return lo + g.rnd.IntN(hi-lo+1) }

// around draws a log-normal length with the given median, within [lo, hi].
func (g *generator) around(median, sigma float64, lo, hi int) int {
	return max(lo, min(hi, int(median*math.Exp(sigma*g.rnd.NormFloat64()))))
}

// add appends a request and returns its index.
func (g *generator) add(r Request) int {
	r.ID = len(g.w.Requests)
	r.Tokens = 0
	for _, s := range r.Prompt {
		r.Tokens += s.Tokens
	}
	if r.Reply == 0 {
		r.Reply = g.id()
	}
	g.w.Requests = append(g.w.Requests, r)
	return r.ID
}

// single appends a request without a session.
func (g *generator) single(at float64, output int, prompt ...Segment) {
	g.add(Request{At: at, Session: -1, After: -1, Prompt: prompt, Output: output})
}

// conversation is a session under construction.
type conversation struct {
	session, turn, last int
	lineage             int // see Request
	start               float64
	history             []Segment
}

func (g *generator) converse(session int, start float64, head ...Segment) *conversation {
	return &conversation{session: session, start: start, last: -1, history: slices.Clone(head)}
}

// turn appends a user's message and the request that answers it.
func (g *generator) turn(c *conversation, user, output int, think float64) {
	c.history = append(c.history, g.segment(user, User))
	reply := g.id()
	c.last = g.add(Request{
		At: c.start, Session: c.session, Lineage: c.lineage, Turn: c.turn, After: c.last, Think: think,
		Prompt: slices.Clone(c.history), Output: output, Reply: reply,
	})
	c.history = append(c.history, Segment{ID: reply, Tokens: output, Role: Assistant})
	c.turn++
}

// arrange orders requests by time; a session's stay in order. I3.
func arrange(reqs []Request) {
	slices.SortStableFunc(reqs, func(a, b Request) int { return cmp.Compare(a.At, b.At) })
	moved := make([]int, len(reqs))
	for i := range reqs {
		moved[reqs[i].ID] = i
	}
	for i := range reqs {
		reqs[i].ID = i
		if reqs[i].After >= 0 {
			reqs[i].After = moved[reqs[i].After]
		}
	}
}

func nameHash(name string) uint64 {
	h := uint64(keySeed)
	for i := range len(name) {
		h = mix(h, uint64(name[i]))
	}
	return h
}
