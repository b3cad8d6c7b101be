package policy

import (
	"math"
	"slices"
)

// pickTTFT takes the earliest predicted first token.
// For a request of L tokens and each candidate k, at view age d; a, b, cq, chunk,
// t0 and f are k's Rates.A, B, CQ, Chunk, T0 and Speed, the figures are Config's
// defaults:
//
//	u = uncached tokens, at least 1
//	s = ceil(u/chunk)*a + b*u + cq*(L^2-(L-u)^2)  (transfers: own, fetch)
//	S, n = prefill seconds and number of requests there without a first token;
//	       own dispatches younger than d count min(peers, 16) times
//	W = max(S - time since the last first token there, 0.1*S)
//	B = W + 0.5*t0*streams + live*s, raised where unseen requests are expected
//	score = B + late + s*(1 + copy) + (n + n_min)*s/f, over the operator's weight
//	live = live_weight * the share of its cache that is in use; sessions only
//	copy = room_weight * how full its cache is * the share of u that another
//	       candidate holds
//	n_min = the least n of all candidates
//	late = how long after W what it fetches from another replica is there
func pickTTFT(q *query) (int, Reason) {
	if q.stale() {
		return q.fallback(), ReasonStale
	}
	b := best{q: q, pos: -1}
	q.score(&b)
	if pos, ok := q.guard(b.pos); ok {
		return pos, ReasonStale
	}
	pos := q.holder(&b)
	if next, ok := q.spread(pos); ok {
		return next, ReasonSpill
	}
	return pos, q.prefixReason(pos)
}

// spread sends a request, now and then, to a replica with far fewer streams
// than the winner although computing the prompt there takes longer, so that
// the next ones find it. Staying costs each of them the difference in streams,
// going costs one of them the price of the missing part; which of the two is
// less depends on how many are still to come, and nobody knows. Going with the
// odds of difference over price costs at most twice the better one (rent or
// buy), needs no memory, and leaves prompts alone that nobody else sends.
func (q *query) spread(winner int) (int, bool) {
	cfg := &q.cfg.TTFT
	own := q.prefill[winner]
	if cfg.Spread == 0 || cfg.StreamWeight*float64(q.cands[winner].Streams) <= cfg.HolderSteps {
		return 0, false // nobody has so many fewer
	}
	b := best{q: q, pos: -1, quiet: true}
	for _, i := range q.live {
		if q.prefill[i] > own {
			b.offer(i, q.scoreAs(i, own))
		}
	}
	if b.pos < 0 {
		return 0, false
	}
	t0 := q.cands[winner].Rates.usable().T0
	gain := t0 * (cfg.StreamWeight*float64(q.cands[winner].Streams-q.cands[b.pos].Streams) - cfg.HolderSteps)
	gain = min(gain, q.scoreAs(winner, own)-b.score)
	price := (q.prefill[b.pos] - own) * (1 + spreadRoom*cfg.RoomWeight*full(&q.cands[b.pos]))
	if !(gain > 0) || q.view.Rand.Float64()*price >= cfg.Spread*gain {
		return 0, false
	}
	return b.pos, true
}

// spreadRoom is how many times more than in the score a copy costs that nobody
// waits for: what it pushes out would have stayed.
const spreadRoom = 5

// scoreAs is the score that a candidate would have if its own prefill took so
// many seconds.
func (q *query) scoreAs(i int, own float64) float64 {
	crowd := q.cfg.TTFT.WaitWeight*q.waiting[i] + q.cfg.TTFT.MinWaitWeight*q.fewest
	return (q.base[i] + own + crowd*own) / q.weight(i)
}

// holder prefers the replica that holds most of the prompt while it scores
// worse by a few decode steps at most: turns of a conversation stay together
// where the score hardly tells replicas apart.
func (q *query) holder(b *best) int {
	if q.cfg.TTFT.HolderSteps == 0 {
		return b.pos
	}
	deepest := best{q: q, pos: -1, quiet: true}
	for _, i := range q.live {
		if q.matched[i] > q.matched[b.pos] {
			deepest.offer(i, -float64(q.matched[i]))
		}
	}
	if deepest.pos < 0 {
		return b.pos
	}
	slack := q.cfg.TTFT.HolderSteps * q.cands[deepest.pos].Rates.usable().T0
	if q.total(deepest.pos) > b.score+slack {
		return b.pos
	}
	return deepest.pos
}

// weigh fills matched, deepest, prefill, late, share, waiting and base of every live
// candidate, and pours.
func (q *query) weigh() {
	cfg := &q.cfg.TTFT
	n := len(q.cands)
	q.matched, q.prefill = grow(q.matched, n), grow(q.prefill, n)
	q.base, q.waiting, q.share, q.late = grow(q.base, n), grow(q.waiting, n), grow(q.share, n), grow(q.late, n)
	mirrored := float64(min(q.view.Peers, cfg.YoungCap) - 1) // peers that may be doing the same unseen
	steps := 0.0
	q.deepest = 0
	for _, i := range q.live {
		c := &q.cands[i]
		rates := &c.Rates
		if !rates.sane() {
			fixed := rates.usable()
			rates = &fixed
		}
		q.matched[i], q.prefill[i] = q.ownAt(c, rates)
		q.deepest = max(q.deepest, q.matched[i])
		q.share[i] = q.prefill[i] / rates.Speed
		held, waiting := c.Prefill, float64(c.Waiting)
		if mirrored > 0 {
			held += mirrored * c.YoungPrefill
			waiting += mirrored * float64(c.YoungCount)
		}
		step := cfg.StreamWeight * rates.T0
		steps += step
		q.waiting[i] = waiting
		wait := q.remaining(c, held)
		q.late[i] = 0
		if c.Fetch > q.matched[i] {
			f := q.fetch(c, rates, q.matched[i], q.prefill[i], wait)
			q.prefill[i], q.late[i] = f.prefill, f.late
			q.share[i] = f.prefill / rates.Speed
		}
		q.base[i] = wait + step*float64(c.Streams) + q.crowding(i)*q.prefill[i]
	}
	q.pour(q.unseen(steps / float64(len(q.live))))
	for _, i := range q.live {
		q.base[i] += q.late[i]
	}
}

// unseen is the work, in seconds, that other peers are expected to have sent
// since the view was taken: lambda*d*(R-1)/R*(mean s + 0.5*t0).
func (q *query) unseen(step float64) float64 {
	v := q.view
	if v.Peers <= 1 {
		return 0
	}
	others := float64(v.Peers-1) / float64(v.Peers)
	work := q.cfg.TTFT.PourWeight * v.Lambda * v.AgeMs / 1000 * others * (v.MeanS + step)
	if !(work > 0 && work < math.MaxFloat64) {
		return 0
	}
	return work
}

// score offers every live candidate to b.
func (q *query) score(b *best) {
	q.weigh()
	q.fewest = math.MaxFloat64
	for _, i := range q.live {
		q.fewest = min(q.fewest, q.waiting[i])
	}
	for _, i := range q.live {
		b.offer(i, q.total(i))
	}
}

// total is the score of one candidate.
func (q *query) total(i int) float64 {
	cfg := &q.cfg.TTFT
	crowd := (cfg.WaitWeight*q.waiting[i] + cfg.MinWaitWeight*q.fewest) * q.share[i]
	score := q.base[i] + q.prefill[i]*(1+q.copying(i)) + crowd
	if w := q.weight(i); w != 1 { // a division saved, mostly
		score /= w
	}
	return score
}

// copying is by how many times computing anew costs more because another
// candidate holds a part of it already: in a full cache the copy pushes out as
// many tokens, which somebody then computes again, and that again pushes out
// some. What nobody holds must be computed somewhere and costs nothing more.
// Who holds what is not asked of a view that is too old to compare the fleet by.
func (q *query) copying(i int) float64 {
	if q.matched[i] >= q.deepest {
		return 0
	}
	taken := full(&q.cands[i])
	if taken == 0 || q.stale() {
		return 0
	}
	copied := float64(q.deepest-q.matched[i]) / float64(q.req.Tokens-q.matched[i])
	return q.cfg.TTFT.RoomWeight * copied * taken
}

// crowding is by how many times computing costs more because of what it pushes
// out that is in use: an agent's context of 100 k tokens is asked for again
// within seconds, computed anew, and pushes out another one. Whoever has the
// prompt computes little and so pushes out little; a new session goes where
// there is room. Only sessions are known to come back. It is part of the base,
// since the engines' word is as old as a scrape and equal for all peers: what
// is poured evens it out before everybody follows it. A view that is too old
// knows no such thing.
func (q *query) crowding(i int) float64 {
	if q.req.Session == 0 || q.stale() {
		return 0
	}
	return q.cfg.TTFT.LiveWeight * kvUse(&q.cands[i])
}

// full is the share of a replica's cache that is taken, from 0 to 1, idle
// pages included: what its events told of over what it has, or what it says is
// in use, which in most engines leaves idle pages out; 0 if both are unknown.
func full(c *Candidate) float64 {
	use := kvUse(c)
	if c.Capacity > 0 && c.Held > 0 {
		use = max(use, min(float64(c.Held)/float64(c.Capacity), 1))
	}
	return use
}

// guard notices that the load view is older than the gap between decisions
// while affinity hardly discriminates; then one of the equals is as good as
// another, and a random one does not herd. The few that lack the prompt are
// drawn too, with odds in inverse of their own prefill, or they would be left
// out for as long as the prompt stays hot. It leaves so many decisions to the
// score that GuardGap of those are unseen at each replica: that few do not herd
// either, and they even out what chance heaps up.
func (q *query) guard(winner int) (int, bool) {
	cfg := &q.cfg.TTFT
	n := float64(len(q.live))
	unseen := q.view.AgeMs / 1000 * q.view.Lambda / n
	if cfg.GuardGap == 0 || q.view.Peers <= 1 || unseen <= cfg.GuardGap || q.view.Rand.Float64()*unseen < cfg.GuardGap {
		return 0, false
	}
	alike, odds := 0, 0.0
	for _, i := range q.live {
		near := math.Abs(q.prefill[i]-q.prefill[winner]) <= cfg.GuardBand*q.prefill[winner]
		if near && float64(q.matched[i]) >= cfg.GuardDepth*float64(q.req.Tokens) {
			alike++
		}
		odds += q.weight(i) / q.prefill[i]
	}
	if alike == 0 || float64(alike) < cfg.GuardShare*n {
		return 0, false
	}
	at := q.view.Rand.Float64() * odds
	for _, i := range q.live {
		if at -= q.weight(i) / q.prefill[i]; at < 0 {
			return i, true
		}
	}
	return winner, true // rounding
}

// stale reports whether the view is too old to compare the whole fleet by.
func (q *query) stale() bool {
	bound := q.cfg.TTFT.StaleMs
	return bound > 0 && (q.view.AgeMs > bound || q.view.IndexAgeMs > bound)
}

// fallback compares only replicas that do not depend on a fresh view: the
// request's two rendezvous replicas and the best known holder, ties in that
// order, and one drawn at random. The turns of a session keep meeting there: the first one is left only
// for a score that is less by a factor, because small differences in a load
// this old are none. What many send has more replicas (see replicas). Hashing
// may still drown some, so the one drawn at random is taken where it costs less:
// that herds nobody.
func (q *query) fallback() int {
	key, ok := q.req.affinityKey()
	if !ok {
		key = q.view.Rand.Uint64()
	}
	if n := q.replicas(); n > 2 {
		return q.among(key, n)
	}
	drawn := q.live[q.view.Rand.IntN(len(q.live))]
	first := q.home(key, -1)
	second := q.home(key, first)
	deepest := first
	for _, i := range q.live {
		if q.deep(i) > q.deep(deepest) {
			deepest = i
		}
	}
	q.live = q.live[:0]
	for _, i := range [...]int{first, second, deepest, drawn} {
		if i >= 0 && !slices.Contains(q.live, i) {
			q.live = append(q.live, i)
		}
	}
	q.score(&best{q: q, pos: -1})
	known := [...]int{first, second, deepest}
	pos := first
	for _, i := range known {
		if i >= 0 && q.total(i) < q.total(pos) {
			pos = i
		}
	}
	if q.total(first) <= q.cfg.TTFT.StaleStay*q.total(pos) {
		pos = first
	}
	if !slices.Contains(known[:], drawn) && q.drowned(pos, drawn) {
		return drawn
	}
	return pos
}

// firmSpill is how much more than stale_spill a session bears, as what it cached
// is at its replicas alone, and whoever knows them by a load of long ago.
const firmSpill = 8

// drowned reports whether a request costs more at pos, beyond what both have to
// wait for, than at a replica drawn at random.
func (q *query) drowned(pos, drawn int) bool {
	factor := q.cfg.TTFT.StaleSpill
	if q.req.Session != 0 || q.blind() {
		factor *= firmSpill
	}
	common := min(q.base[pos], q.base[drawn])
	return factor > 0 && factor*(q.total(drawn)-common) < q.total(pos)-common
}

// home is the rendezvous replica of key among the live ones, except one; -1
// if there is no other.
func (q *query) home(key uint64, except int) int {
	b := best{q: q, pos: -1, quiet: true}
	for _, i := range q.live {
		if i != except {
			b.offer(i, rendezvous(key, q.cands[i].ID, q.weight(i)))
		}
	}
	return b.pos
}
