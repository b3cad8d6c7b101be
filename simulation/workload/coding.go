package workload

import "math"

// coding is coding agents, made from published figures alone (AgentX,
// InferenceX v3: median 43 turns, 142 k tokens in, 444 out, over 95 % of them
// seen before, 44 % of sessions fork, into 4 subagents at the median, no gap
// above 10 s). What is not published is plain: 32 k tokens that all begin with,
// 24 repositories by Zipf's law, a context that is compacted near 200 k.
//
// A subagent begins with all that its session has said so far, under the same
// name, within 5 ms of the others; its session goes on when the one with the
// most turns is done.
func coding(g *generator, _ bool) {
	a := coders{g: g, tools: g.segment(codingTools, System), repos: make([]Segment, 24)}
	for i := range a.repos {
		a.repos[i] = g.segment(g.uniform(2000, 12000), System)
		a.shares = append(a.shares, 1/float64(i+1))
	}
	for len(g.w.Requests) < g.size {
		a.session(g.arrive(.05))
	}
}

// Tokens of a coding agent's context.
const (
	codingTools   = 32_000  // tools and system prompt
	codingMost    = 200_000 // where a context ends
	codingCompact = 185_000 // where it is replaced by a summary
)

// coders makes sessions of coding agents.
type coders struct {
	g        *generator
	tools    Segment
	repos    []Segment
	shares   []float64
	sessions int
}

// session makes one session with its subagents.
func (a *coders) session(start float64) {
	g := a.g
	head := []Segment{a.tools, a.repos[a.repo()], g.segment(g.around(30000, .8, 500, 90000), User)}
	c := a.open(start, head)
	forks := 0
	if g.rnd.Float64() < .44 {
		forks = g.uniform(1, 2)
	}
	turns := g.around(43, .7, 3, 300)
	for range turns {
		if c.tokens() > codingCompact {
			c.history = append(c.history[:0:0], head...)
			c.history = append(c.history, g.segment(g.uniform(5000, 15000), User))
		}
		a.work(c, a.pause())
		if forks > 0 && c.tokens() > 60_000 && g.rnd.IntN(12) == 0 {
			forks--
			a.fork(c)
		}
	}
}

func (a *coders) repo() int {
	sum := 0.0
	for _, s := range a.shares {
		sum += s
	}
	x := a.g.rnd.Float64() * sum
	for i, s := range a.shares {
		if x -= s; x < 0 {
			return i
		}
	}
	return len(a.shares) - 1 // rounding
}

// open begins a session.
func (a *coders) open(start float64, head []Segment) *conversation {
	c := a.g.converse(a.sessions, start, head...)
	a.sessions++
	return c
}

// work is one turn: what a tool or a person said, and the answer.
func (a *coders) work(c *conversation, think float64) {
	g := a.g
	room := max(codingMost-c.tokens()-6000, 64)
	g.turn(c, g.around(2400, 1, 32, max(min(room, 30_000), 32)), g.around(444, .9, 16, 6000), think)
}

// pause is a tool's time, or now and then a person's.
func (a *coders) pause() float64 {
	median := 1.5
	if a.g.rnd.IntN(5) == 0 {
		median = 12
	}
	return min(median*math.Exp(1.1*a.g.rnd.NormFloat64()), maxPause)
}

// fork lets subagents work on what a session has said so far.
func (a *coders) fork(c *conversation) {
	g := a.g
	last, most := c.last, 0
	for range g.around(4, .8, 1, 43) {
		child := a.open(c.start, c.history)
		child.last, child.lineage = c.last, max(c.lineage, c.session+1)
		turns := g.around(6, .7, 1, 40)
		for i := range turns {
			think := .005 * g.rnd.Float64()
			if i > 0 {
				think = a.pause()
			}
			if child.tokens() > codingMost-10_000 {
				break
			}
			a.work(child, think)
		}
		if child.turn > most {
			last, most = child.last, child.turn
		}
	}
	c.last = last
	c.history = append(c.history, g.segment(g.around(1500, .6, 100, 8000), User))
}

// tokens is how long a conversation is.
func (c *conversation) tokens() (n int) {
	for _, s := range c.history {
		n += s.Tokens
	}
	return n
}
