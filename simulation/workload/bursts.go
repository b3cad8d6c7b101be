package workload

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// Burst says what Bursts makes.
type Burst struct {
	Size     int     // requests a burst
	Within   float64 // seconds in which they all arrive
	Bursts   int
	Gap      float64 // seconds between two bursts, on average
	Head     int     // tokens that all prompts of a burst begin with
	Own      int     // tokens of its own that each prompt ends with
	Output   int
	Warm     bool // one request brings the head before the burst, as a session does that forks
	Replicas int
	Seed     uint64
}

// Bursts makes requests that come together, as the subagents of a session do:
// nobody has heard of the others' when they are sent.
func Bursts(b Burst) (*Workload, error) {
	if b.Size < 1 || b.Bursts < 1 || !(b.Within >= 0) || !(b.Gap > 0) || b.Own < 1 || b.Output < 1 || b.Head < 0 {
		return nil, fmt.Errorf("bursts: %+v is out of range", b)
	}
	w := &Workload{Name: fmt.Sprintf("%d within %g ms", b.Size, 1000*b.Within), Replicas: b.Replicas, Profile: "q32"}
	g := &generator{
		w: w, rnd: rand.New(rand.NewPCG(b.Seed, keySeed^0x6275)), rate: 1,
		salt: mix(b.Seed, nameHash("bursts")),
	}
	for i := range b.Bursts {
		at := g.arrive(1 / b.Gap)
		prompt := []Segment{}
		if b.Head > 0 {
			prompt = append(prompt, g.segment(b.Head, System))
		}
		if b.Warm {
			g.add(Request{At: max(at-b.Gap/2, 0), Session: -1, After: -1, Prompt: append(slices.Clip(prompt), g.segment(b.Own, User)), Output: b.Output})
		}
		for range b.Size {
			g.add(Request{
				At: at + b.Within*g.rnd.Float64(), Session: i, After: -1, Output: b.Output,
				Prompt: append(slices.Clip(prompt), g.segment(b.Own, User)),
			})
		}
	}
	arrange(w.Requests)
	return w, nil
}

// bursts is twelve requests of one session within 3 ms, again and again.
func bursts(g *generator, _ bool) {
	for session := 0; len(g.w.Requests) < g.size; session++ {
		at, head := g.arrive(2), g.segment(g.uniform(1000, 12000), System)
		for range 12 {
			g.add(Request{
				At: at + .003*g.rnd.Float64(), Session: session, After: -1,
				Prompt: []Segment{head, g.segment(g.uniform(200, 3000), User)}, Output: g.around(150, .7, 8, 1000),
			})
		}
	}
}
