package simulation

import (
	"maps"
	"math"
	"slices"

	"github.com/banyan-llm/banyan/simulation/workload"
)

// reportSessions tells turns from forks and sums up whole sessions.
func (r *run) reportSessions(rep *Report) {
	var turns, forks []float64
	type life struct{ from, to float64 }
	families := make(map[int]life)
	before := make(map[int]*job) // session -> its last request
	base := make(map[int]int)    // subagent's session -> tokens that its caller holds
	lived := 0.0
	for i := range r.jobs {
		j := &r.jobs[i]
		if j.req.At < r.cfg.From || j.done == 0 || j.req.Session < 0 {
			continue
		}
		if fork := j.req.Lineage > 0 && j.req.Turn == 0; fork {
			forks = append(forks, j.first-j.came())
			if j.req.After >= 0 {
				base[j.req.Session] = own(r.jobs[j.req.After].req)
			}
		} else {
			turns = append(turns, j.first-j.came())
		}
		f, ok := families[j.req.Family()]
		if !ok {
			f = life{math.Inf(1), 0}
		}
		families[j.req.Family()] = life{math.Min(f.from, j.came()), math.Max(f.to, j.done)}
		lived += float64(own(j.req)-base[j.req.Session]) * (j.done - j.came())
		if last := before[j.req.Session]; last != nil && j.came() > last.done {
			lived += float64(own(last.req)-base[j.req.Session]) * (j.came() - last.done)
		}
		before[j.req.Session] = j
	}
	if len(families) == 0 {
		return
	}
	rep.Turns, rep.Forks = spread(turns), spread(forks)
	sum := 0.0
	for _, name := range slices.Sorted(maps.Keys(families)) { // E1: one order, one sum
		sum += families[name].to - families[name].from
	}
	rep.SessionE2E = sum / float64(len(families))
	if rep.Seconds > 0 {
		rep.LiveTokens = lived / rep.Seconds
	}
}

// own is a request's tokens that do not belong to all.
func own(req *workload.Request) int {
	n := req.Output
	for _, s := range req.Prompt {
		if s.Role != workload.System {
			n += s.Tokens
		}
	}
	return n
}
