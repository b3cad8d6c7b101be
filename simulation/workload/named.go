package workload

import "math"

// generators are the workloads by name; each one's make says its shape.
var generators = map[string]spec{
	"b2b":           {replicas: 8, profile: "b2b", kvTokens: 307328, make: b2b},
	"b2b37":         {replicas: 4, profile: "llama3.1-70b_h100_tp4_linear", kvTokens: 461376, make: b2b37},
	"shared_prefix": {replicas: 8, profile: "8b-a100", requests: 2048, make: sharedPrefix},
	"few_prefixes":  {replicas: 8, profile: "q32", requests: 3000, make: fewPrefixes},
	"burst":         {replicas: 8, profile: "q32", requests: 1600, make: burst},
	"bursts":        {replicas: 16, profile: "q32", requests: 3600, make: bursts},
	"multi_turn":    {replicas: 8, profile: "q32", requests: 6000, make: multiTurn},
	"agents":        {replicas: 8, profile: "q32", requests: 4000, make: agents},
	"coding":        {replicas: 8, profile: "q32", requests: 6000, make: coding},
	"reasoning":     {replicas: 8, profile: "q32", requests: 800, make: reasoning},
	"zipf":          {replicas: 16, profile: "q32", requests: 6000, make: zipf},
	"hot":           {replicas: 16, profile: "q32", requests: 12000, make: hot},
	"demo":          {replicas: 4, profile: "demo", requests: 2000, make: demo},
}

// step is one rung of a ladder: requests a second, for seconds.
type step struct{ rate, seconds float64 }

// ladder sends groups*prompts prompts, each a shared head and a tail of its
// own, in one shuffled order that every step begins anew. Each step sends
// rate*seconds requests and ends when all of them are answered: the published
// runs were driven by inference-perf, and their logs show steps of 25 s that
// took 110 s. Without that an overloaded policy would carry its queue from
// step to step.
type ladder struct {
	groups, prompts int
	head, tail, out int
	filled          bool   // gaps are scaled so that they fill the step
	most            int    // requests a step; 0: no bound
	steps           []step // the first one warms the caches
}

// stagePause is inference-perf's default between two stages, in seconds.
const stagePause = 1

// b2b is llm-d's "73 %" run. The engines are told to ignore the end of text,
// so that 1,000 tokens come; the published counts are about 940, because the
// client tokenizes the text again. No step is answered more often than 1,024
// times: the published means over all are those of the steps, weighed with the
// requests sent but with 1,024 from 40 a second on, to a tenth of a request,
// whatever the scheduler. That many in flight is what Envoy lets through.
func b2b(g *generator, sized bool) {
	g.ladder(ladder{groups: 150, prompts: 5, head: 6000, tail: 1200, out: 1000, most: 1024, steps: []step{
		{15, 50},
		{3, 20},
		{10, 20},
		{15, 20},
		{20, 38},
		{22, 34},
		{25, 30},
		{30, 25},
		{35, 21},
		{40, 38},
		{43, 36},
		{46, 33},
		{49, 30},
		{52, 29},
		{55, 27},
		{57, 26},
		{60, 25},
	}}, sized)
}

// b2b37 is llm-d's "37 %" run, driven by inference-perf's constant load: that
// too draws its gaps from an exponential distribution, and scales them.
func b2b37(g *generator, sized bool) {
	g.ladder(ladder{groups: 83, prompts: 3, head: 8000, tail: 1000, out: 1000, filled: true, steps: []step{
		{9, 30}, {3, 210}, {4, 180}, {5, 120}, {6, 120}, {8, 90}, {10, 70}, {12, 60}, {15, 50}, {20, 50},
	}}, sized)
}

func (g *generator) ladder(l ladder, sized bool) {
	prompts := make([][]Segment, 0, l.groups*l.prompts)
	for range l.groups {
		head := g.segment(l.head, System)
		for range l.prompts {
			prompts = append(prompts, []Segment{head, g.segment(l.tail, User)})
		}
	}
	g.rnd.Shuffle(len(prompts), func(i, j int) { prompts[i], prompts[j] = prompts[j], prompts[i] })
	g.w.Pause = stagePause
	for i, s := range l.steps {
		start, rate := g.now, s.rate*g.rate
		g.w.Stages = append(g.w.Stages, Stage{Rate: rate, First: len(g.w.Requests), At: start})
		sent := int(s.rate * s.seconds)
		if l.most > 0 {
			sent = min(sent, l.most)
		}
		for n, at := range g.times(sent, rate, l.filled) {
			if sized && len(g.w.Requests) >= g.size {
				return
			}
			g.single(at, l.out, prompts[n%len(prompts)]...)
		}
		// The first request of a step comes after the last one of the step before.
		last := g.w.Requests[len(g.w.Requests)-1].At
		g.now = math.Max(start+s.seconds/g.rate, math.Nextafter(last, math.Inf(1)))
		if i == 0 {
			g.w.Warm = g.now
		}
	}
}

// times are n Poisson arrivals from now on; filled: the last one comes when n
// of them are due.
func (g *generator) times(n int, rate float64, filled bool) []float64 {
	times, start := make([]float64, n), g.now
	for i := range times {
		g.now += g.rnd.ExpFloat64() / rate
		times[i] = g.now
	}
	if filled && n > 0 {
		scale := float64(n) / rate / (g.now - start)
		for i, at := range times {
			times[i] = start + scale*(at-start)
		}
	}
	return times
}

// sharedPrefix is SGLang's generated-shared-prefix bench: groups of equal
// size, in random order, as fast as one client process can send, for which
// 1,000 a second is taken. Five prompts a group: the
// published hit rates, 20 % spread evenly over 8 replicas and 75 % together,
// fit nothing else with these lengths.
func sharedPrefix(g *generator, _ bool) {
	const prompts, system, question, out = 5, 2048, 128, 256
	groups := max(g.size/prompts, 1)
	heads := make([]Segment, groups)
	for i := range heads {
		heads[i] = g.segment(system, System)
	}
	order := g.rnd.Perm(g.size)
	for n, i := range order {
		g.single(float64(n)/(1000*g.rate), out, heads[i%groups], g.segment(question, User))
	}
}

// fewPrefixes is the hot-spot trap: three long prefixes, many replicas.
func fewPrefixes(g *generator, _ bool) {
	heads := []Segment{g.segment(10000, System), g.segment(10000, System), g.segment(10000, System)}
	for range g.size {
		head := heads[g.rnd.IntN(len(heads))]
		g.single(g.arrive(24), 100, head, g.segment(g.uniform(50, 350), User))
	}
}

// burst keeps 800 unrelated requests in flight.
func burst(g *generator, _ bool) {
	g.w.Concurrency = 800
	for range g.size {
		g.single(0, 1000, g.segment(1000, User))
	}
}

// multiTurn is chat: sessions with a growing context and think times.
func multiTurn(g *generator, _ bool) {
	systems := make([]Segment, 8)
	for i := range systems {
		systems[i] = g.segment(g.uniform(300, 1500), System)
	}
	for session := 0; len(g.w.Requests) < g.size; session++ {
		c := g.converse(session, g.arrive(3), systems[g.rnd.IntN(len(systems))])
		for turns := g.around(6, .6, 2, 20); c.turn < turns; {
			g.turn(c, g.around(120, .9, 8, 3000), g.around(220, .7, 8, 1500), 1+9*g.rnd.ExpFloat64())
		}
	}
}

// agents share a long preamble, take 20-100 turns and come back 2 s after
// every answer.
func agents(g *generator, _ bool) {
	apps := make([]Segment, 5)
	for i := range apps {
		apps[i] = g.segment(g.uniform(4000, 12000), System)
	}
	for session := 0; len(g.w.Requests) < g.size; session++ {
		c := g.converse(session, g.arrive(.35), apps[g.rnd.IntN(len(apps))], g.segment(g.uniform(100, 800), User))
		for turns := g.uniform(20, 100); c.turn < turns; {
			g.turn(c, g.around(250, .8, 16, 4000), g.around(80, .7, 8, 800), 2)
		}
	}
}

// reasoning is short in, long out: nobody may lose.
func reasoning(g *generator, _ bool) {
	for range g.size {
		g.single(g.arrive(3), 8000, g.segment(g.uniform(100, 300), User))
	}
}

// zipf draws its prefix from 200 by Zipf's law.
func zipf(g *generator, _ bool) {
	heads := make([]Segment, 200)
	weight := make([]float64, len(heads))
	sum := 0.0
	for i := range heads {
		heads[i] = g.segment(g.uniform(1000, 8000), System)
		sum += 1 / float64(i+1)
		weight[i] = sum
	}
	for range g.size {
		x, at := g.rnd.Float64()*sum, 0
		for weight[at] < x {
			at++
		}
		g.single(g.arrive(60), g.around(150, .7, 8, 1000), heads[at], g.segment(g.uniform(50, 500), User))
	}
}

// hot has one prefix for everybody, at a high rate, and no decode to speak of.
func hot(g *generator, _ bool) {
	head := g.segment(2000, System)
	for range g.size {
		g.single(g.arrive(400), 1, head, g.segment(g.uniform(200, 600), User))
	}
}

// demo is small enough for two cores: chat with shared system prompts and
// completions by token ids with shared examples, about 100 requests a second.
// All heads together are more than one replica of its profile caches and much
// less than the fleet does.
func demo(g *generator, _ bool) {
	systems := make([]Segment, 40)
	for i := range systems {
		systems[i] = g.segment(g.uniform(500, 1100), System)
	}
	examples := make([]Segment, 24)
	for i := range examples {
		examples[i] = g.segment(g.uniform(700, 1500), Plain)
	}
	for session := 0; len(g.w.Requests) < g.size; session++ {
		at := g.arrive(32)
		if g.rnd.IntN(5) < 2 {
			for range g.uniform(1, 3) {
				g.single(at, g.uniform(8, 24), examples[g.rnd.IntN(len(examples))], g.segment(g.uniform(30, 150), Plain))
				at += g.rnd.ExpFloat64() / (20 * g.rate)
			}
			continue
		}
		c := g.converse(session, at, systems[g.rnd.IntN(len(systems))])
		for turns := g.uniform(2, 6); c.turn < turns; {
			g.turn(c, g.uniform(30, 160), g.uniform(16, 48), (.2+.4*g.rnd.ExpFloat64())/g.rate)
		}
	}
}
