package simulation

import (
	"github.com/banyan-llm/banyan/router/policy"
	"github.com/banyan-llm/banyan/simulation/replica"
)

// A handover of KV between two replicas: 262 kB a token (a 32B model) at
// 64 GB/s, and what starting it takes.
const (
	handToken = 4e-6 // seconds a token
	handStart = 0.005
)

// split is the prefill side of a job that two replicas share; a job of its own
// in the books.
type split struct {
	job
	handed bool // its KV is on the way to, or at, the decode replica
}

// pools are the candidates by role: the first Config.PrefillReplicas only
// prefill, the others serve whole requests or decode.
func (r *run) pools() policy.Pools {
	n := r.cfg.PrefillReplicas
	return policy.Pools{Whole: r.cands[n:], Prefill: r.cands[:n], Decode: r.cands[n:]}
}

// share decides between one replica and two; true if it were two, then the
// prefill leg is under way.
func (r *run) share(now float64, i int, req *policy.Request, view *policy.View) (policy.Decision, bool) {
	j, pools := &r.jobs[i], r.pools()
	s := policy.Disaggregate(r.policy, r.cfg.Routing, req, view, &pools)
	if !s.Remote() {
		s.Whole.Pos += r.cfg.PrefillReplicas
		return s.Whole, false
	}
	r.remote++
	lead := &split{job: *j}
	lead.replica, lead.prefill, lead.predicted = s.Prefill.Pos, s.Prefill.Prefill, s.Prefill.Predicted
	lead.tokens = int64(j.req.Tokens - s.Prefill.Matched)
	j.lead = lead
	j.replica = s.Decode.Pos + r.cfg.PrefillReplicas
	j.prefill, j.tokens, j.blocks = r.truth[j.replica].Prefill(1, j.req.Tokens), 1, int64((j.req.Tokens+15)/16)
	err := r.engines[lead.replica].Submit(now, replica.Request{
		ID: uint64(len(r.jobs) + i), Prompt: j.req.Tokens, Output: 1, Keys: j.keys[:min(len(j.keys), j.req.Tokens/r.cfg.Page)],
	})
	if err != nil { // it can never fit: the decode replica does it all
		j.lead = nil
		r.submit(now, i, 0)
		return s.Decode, true
	}
	for n, side := range []*job{&lead.job, j} {
		r.views.dispatch(now, side, n > 0)
		r.wire.load(now, side.peer, side.replica, true)
		r.index.predict(now, side.peer, side.replica, r.prompt(j))
	}
	return s.Decode, true
}

// prefilled ends the prefill leg of a job: its KV goes to the decode replica.
func (r *run) prefilled(now float64, i, cached int) {
	j := &r.jobs[i]
	lead := j.lead
	r.views.firstToken(now, &lead.job)
	r.views.finish(now, &lead.job)
	r.wire.load(now, lead.peer, lead.replica, false)
	lead.cached, lead.handed = cached, true
	r.arrivals.push(arrival{at: now + handStart + handToken*float64(j.req.Tokens), job: i})
}

// decodeLeg hands a prefilled job to its decode replica.
func (r *run) decodeLeg(now float64, i int) {
	j := &r.jobs[i]
	err := r.engines[j.replica].Submit(now, replica.Request{
		ID: uint64(i), Prompt: j.req.Tokens, Output: r.output(j), Keys: j.keys, Given: j.req.Tokens,
	})
	if err != nil {
		r.views.firstToken(now, j)
		r.views.finish(now, j)
		r.failed++
		r.flying--
		j.replica = -1
		r.release(now, j)
	}
}

// found is how many tokens of a job's prompt some cache had.
func (j *job) found(cached int) int {
	if j.lead != nil {
		return j.lead.cached
	}
	return cached
}
