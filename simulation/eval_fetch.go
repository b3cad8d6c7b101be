package simulation

import (
	"slices"

	"github.com/banyan-llm/banyan/router/pick"
	"github.com/banyan-llm/banyan/router/policy"
	"github.com/banyan-llm/banyan/simulation/replica"
)

// hosts are the replicas' host memories and what peers know of them.
type hosts struct {
	*links
	index *index
	deep  [2][]int
	hands []int // of the decision in the making
	busy  []float64
}

func newHosts(cfg *Config) *hosts {
	l := newLinks(cfg)
	if l == nil {
		return nil
	}
	return &hosts{
		links: l, index: newIndex(cfg), hands: make([]int, cfg.Replicas),
		deep: [2][]int{make([]int, cfg.Replicas), make([]int, cfg.Replicas)},
	}
}

// tell keeps what a replica has computed.
func (h *hosts) tell(now float64, k int, events []replica.KVEvent) {
	if h == nil {
		return
	}
	var out []replica.KVEvent
	for _, e := range events {
		if e.Kind == replica.Stored {
			out = append(out, replica.KVEvent{Kind: replica.Stored, Keys: e.Keys})
			for _, gone := range h.memories[k].put(e.Keys) {
				out = append(out, replica.KVEvent{Kind: replica.Removed, Key: gone})
			}
		}
	}
	h.index.tell(now, k, out)
}

// lose empties the memory of a replica that is lost.
func (h *hosts) lose(k int) {
	if h != nil {
		h.index.lose(k)
		h.links.lose(k)
	}
}

// know fills in what a job's peer knows of host memories, and what each
// candidate could fetch.
func (r *run) know(now float64, peer int, keys []uint64, tokens int) {
	h := r.hosts
	if h == nil {
		return
	}
	h.index.advance(now)
	h.index.match(now, 0, keys, h.deep[0], h.deep[1])
	for k := range h.hands {
		h.hands[k] = pick.NoFetch
	}
	for i := range r.cands {
		c := &r.cands[i]
		c.CPU = max(c.GPU, h.deep[0][c.Index]*r.cfg.Page)
		c.Disk = c.CPU
		h.hands[c.Index] = c.CPU
	}
	if r.cfg.Fetch {
		e := &r.views.peers[peer]
		h.busy = e.loads.HandOuts(h.busy[:0], e.entries, millis(now))
		pick.Fetchable(r.cands, h.hands, h.busy, tokens-1)
	}
}

// source draws where a decision's winner fetches from.
func (r *run) source(now float64, j *job, d *policy.Decision, c *policy.Candidate) {
	j.source = -1
	h := r.hosts
	if h == nil || !r.cfg.Fetch {
		return
	}
	j.fetch = pick.Fetch{Decided: *d, Sure: c.Disk}
	j.source = pick.Source(h.hands, h.busy, c.Index, d, r.rnd)
	if j.source >= 0 {
		pick.HandOut(r.views.peers[j.peer].loads, r.views.names[j.source], d, c, millis(now))
	}
}

// candidate is the one of a replica, in the decision in the making.
func (r *run) candidate(replica int) *policy.Candidate {
	return &r.cands[slices.IndexFunc(r.cands, func(c policy.Candidate) bool { return c.Index == replica })]
}

// bring moves what a job's replica lacks on its GPU into it: when it is all there,
// and how many tokens of the prompt that are.
func (r *run) bring(now float64, j *job) (at float64, tokens int) {
	if r.hosts == nil {
		return now, 0
	}
	source, keys := j.source, r.whole(j)
	if source >= 0 && r.down[source] {
		source = -1
	}
	at, tokens, fetched := r.hosts.bring(now, j.replica, source, keys, j.req.Tokens, r.engines[j.replica].Cached(keys, j.req.Tokens))
	r.fetched += int64(fetched)
	return at, tokens
}

// learnFetch counts what came of a job's fetch; told: it was answered.
func (r *run) learnFetch(j *job, told bool) {
	if j.source < 0 {
		return
	}
	how := j.fetch.Outcome(told, j.cached)
	r.fetches[how]++
	if told && r.cfg.Learn {
		r.views.peers[j.peer].loads.LearnFetch(r.views.names[j.replica], &j.fetch.Decided, j.first-j.arrived, how == pick.FetchCame)
	}
}

// moveBefore reports whether something that is fetched comes next.
func (r *run) moveBefore(next float64) bool {
	if r.moves.len() == 0 {
		return false
	}
	at := r.moves.first()
	return at <= next && at <= r.nextPassing() && (r.arrivals.len() == 0 || at <= r.arrivals.first()) && (r.looks.len() == 0 || at <= r.looks.front().at)
}

// moved hands a job to its engine when all that it fetches is there, unless its
// replica was lost meanwhile.
func (r *run) moved(a arrival) {
	if j := &r.jobs[a.job]; j.sent && j.due == a.at {
		if j.due = 0; j.source >= 0 && r.down[j.source] {
			j.given = 0 // it went in the middle of it
		}
		r.enter(a.at, a.job, j.given)
	}
}

// enter hands a job to its engine; false: it can never fit.
func (r *run) enter(now float64, i, given int) bool {
	j := &r.jobs[i]
	err := r.engines[j.replica].Submit(now, replica.Request{
		ID: uint64(i), Prompt: j.req.Tokens, Output: r.output(j), Keys: j.keys, Given: given,
	})
	if err == nil {
		return true
	}
	if j.looks > 0 || j.sent {
		r.views.peers[j.peer].loads.Remove(&j.cost, 0, 0)
		r.views.tell(now, j.peer, 1)
	}
	r.failed++
	r.flying--
	j.replica = -1
	r.release(now, j)
	return false
}
