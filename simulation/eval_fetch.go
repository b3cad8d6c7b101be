package simulation

import (
	"slices"

	"github.com/banyan-llm/banyan/router/pick"
	"github.com/banyan-llm/banyan/router/policy"
	"github.com/banyan-llm/banyan/simulation/replica"
)

// hosts are the replicas' host memories: whatever a replica computes is kept
// there too, least recently used out, and outlives its GPU's copy. A replica
// loads from its own, and with Config.Fetch from the others', one fetch after
// the other over the link of whoever hands out (vLLM's offloading connector and
// its P2P tier).
type hosts struct {
	memories []*memory
	index    *index    // what peers know of them
	free     []float64 // when each one's link is
	deep     [2][]int
	hands    []int // of the decision in the making
	busy     []float64
	loading  [][]loading // per replica
}

// loading is a part of a prompt on its way into a replica. Requests that begin
// with it wait for it (vLLM: "hit chunks are being loaded").
type loading struct {
	last  uint64 // its last key
	pages int
	until float64
}

func newHosts(cfg *Config) *hosts {
	if cfg.HostTokens == 0 {
		return nil
	}
	h := &hosts{
		index: newIndex(cfg), free: make([]float64, cfg.Replicas), hands: make([]int, cfg.Replicas), loading: make([][]loading, cfg.Replicas),
		deep: [2][]int{make([]int, cfg.Replicas), make([]int, cfg.Replicas)},
	}
	for range cfg.Replicas {
		h.memories = append(h.memories, newMemory(cfg.HostTokens/cfg.Page))
	}
	return h
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
		h.loading[k] = nil
		h.memories[k] = newMemory(h.memories[k].limit)
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

// source draws where a decision's winner, candidate c, fetches from; -1: nowhere.
func (r *run) source(now float64, peer int, d *policy.Decision, c *policy.Candidate) int {
	h := r.hosts
	if h == nil || !r.cfg.Fetch {
		return -1
	}
	at := pick.Source(h.hands, h.busy, c.Index, d, r.rnd)
	if at >= 0 && d.Fetched > 0 {
		r.views.peers[peer].loads.HandOut(r.views.names[at], d.Moving-c.FetchWait, millis(now))
	}
	return at
}

// candidate is the one of a replica, in the decision in the making.
func (r *run) candidate(replica int) *policy.Candidate {
	return &r.cands[slices.IndexFunc(r.cands, func(c policy.Candidate) bool { return c.Index == replica })]
}

// bring moves what a job's replica lacks on its GPU into it, from its own host
// memory and from its source's: when it is all there, and how many tokens of the
// prompt that are. What was thought to be there and is not is computed.
func (r *run) bring(now float64, j *job) (at float64, tokens int) {
	h := r.hosts
	if h == nil {
		return now, 0
	}
	keys := r.whole(j)
	have := r.engines[j.replica].Cached(keys, j.req.Tokens)
	tiers := &r.cfg.Routing.Tiers
	at = now
	hold := func(pages int) int { return min(pages*r.cfg.Page, j.req.Tokens-1) }
	h.loading[j.replica] = slices.DeleteFunc(h.loading[j.replica], func(l loading) bool { return l.until <= now })
	for _, l := range h.loading[j.replica] {
		if l.pages <= len(keys) && keys[l.pages-1] == l.last && hold(l.pages) > have {
			at, tokens, have = max(at, l.until), hold(l.pages), hold(l.pages)
		}
	}
	if own := hold(h.memories[j.replica].depth(keys)); own > have {
		at += tiers.CPU * float64(own-have)
		tokens, have = own, own
	}
	if j.source < 0 || r.down[j.source] {
		return at, tokens
	}
	pages := h.memories[j.source].depth(keys)
	from := hold(pages)
	at = max(at, now+tiers.Ask)
	if from <= have {
		return at, tokens
	}
	begin := max(now, h.free[j.source])
	h.free[j.source] = begin + tiers.Peer*float64(from-have)
	at = max(at, h.free[j.source]+tiers.Ask)
	h.loading[j.replica] = append(h.loading[j.replica], loading{last: keys[pages-1], pages: pages, until: at})
	r.fetched += int64(from - have)
	return at, from
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

// memory is a set of keys of bounded size, least recently used out.
type memory struct {
	limit int
	at    map[uint64]*kept
	ring  kept // next: the oldest
}

type kept struct {
	key        uint64
	prev, next *kept
}

func newMemory(limit int) *memory {
	m := &memory{limit: limit, at: map[uint64]*kept{}}
	m.ring.prev, m.ring.next = &m.ring, &m.ring
	return m
}

// put adds keys, or makes them the youngest, and returns those that went.
func (m *memory) put(keys []uint64) (gone []uint64) {
	for _, key := range keys {
		k := m.at[key]
		if k == nil {
			if len(m.at) >= m.limit {
				k = m.ring.next
				gone = append(gone, k.key)
				delete(m.at, k.key)
				k.unlink()
			} else {
				k = new(kept)
			}
			k.key = key
			m.at[key] = k
		} else {
			k.unlink()
		}
		k.prev, k.next = m.ring.prev, &m.ring
		k.prev.next, m.ring.prev = k, k
	}
	return gone
}

func (k *kept) unlink() { k.prev.next, k.next.prev = k.next, k.prev }

// depth counts the leading keys that are there, and makes them the youngest.
func (m *memory) depth(keys []uint64) int {
	n := 0
	for n < len(keys) && m.at[keys[n]] != nil {
		n++
	}
	m.put(keys[:n])
	return n
}
