package simulation

import (
	"slices"

	"github.com/banyan-llm/banyan/router/load"
	"github.com/banyan-llm/banyan/router/pick"
	"github.com/banyan-llm/banyan/router/policy"
)

// hold books a decided request and looks at the decision again soon, as a
// router does (router/pick); false: the decision is not worth it.
func (r *run) hold(now float64, i int, d *policy.Decision) bool {
	j := &r.jobs[i]
	if !pick.WorthAgain(r.policy, &r.views.peers[j.peer].scratch.View, d, len(r.cands)) || r.cfg.ScrapedOnly {
		return false
	}
	j.blocks = int64((j.req.Tokens + 15) / 16)
	r.views.dispatch(now, j, false)
	r.wire.load(now, j.peer, j.replica, true)
	j.looks = 1
	r.looks.push(look{now + pick.AgainMs/1000.0, i})
	return true
}

// look is a held request and when it is looked at again.
type look struct {
	at  float64
	job int
}

// lookAgain sends a held request, or moves it.
func (r *run) lookAgain(now float64, i int) {
	j := &r.jobs[i]
	e := &r.views.peers[j.peer]
	r.views.advance(now)
	r.index.advance(now)
	if r.down[j.replica] { // it would have been refused there
		e.loads.Remove(&j.cost, 0, 0)
		r.views.tell(now, j.peer, 1)
		j.looks = 0
		r.place(now, i)
		return
	}
	if !e.loads.News(&j.cost) {
		r.second[pick.LookAlone]++
		r.submit(now, i, 0)
		return
	}
	r.views.look(now, j.peer, &r.cfg, r.rnd)
	r.gather(now, j)
	r.views.askAgain(j.peer, j.req.Tokens, r.cfg.Page, r.whole(j), r.cfg.sessionOf(j))
	at := slices.IndexFunc(r.cands, func(c policy.Candidate) bool { return c.Index == j.replica })
	e.scratch.Cands = r.cands
	d, how := e.picker.Again(&e.scratch, r.policy, at, &j.cost)
	r.second[how]++
	if how == pick.LookStayed {
		r.submit(now, i, 0)
		return
	}
	from := j.replica
	j.replica, j.prefill, j.predicted, j.tokens = r.cands[d.Pos].Index, d.Prefill, d.Predicted, int64(j.req.Tokens-d.Matched-d.Fetched)
	r.source(now, j, &d, &r.cands[d.Pos])
	e.loads.Move(&j.cost, load.Cost{Replica: r.views.names[j.replica], Prefill: j.prefill, Tokens: j.tokens, Blocks: j.blocks}, nil, millis(now))
	r.views.tell(now, j.peer, 0)
	r.wire.load(now, j.peer, from, false)
	r.wire.load(now, j.peer, j.replica, true)
	if j.looks++; j.looks > pick.MaxLooks {
		r.submit(now, i, 0)
		return
	}
	r.looks.push(look{now + pick.AgainMs/1000.0, i})
}
