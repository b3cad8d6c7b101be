package gossip

import (
	"slices"
	"strings"

	"github.com/banyan-llm/banyan/crdt"
)

// pull repairs one stream of which some peer knows more, or which has holes.
// The side that lacks asks: it alone knows what is on its way already.
type pull struct {
	stream crdt.StreamID
	since  int64 // when some peer first knew more
	due    int64 // when to look at it again
	donors []donor
	mute   int64 // until then nobody is asked: the state refused what it was given
	tries  int   // wants in a row that brought nothing
	whole  bool  // only a snapshot helps
	heal   bool  // because of a divergence

	waits   bool  // no donor could be asked when it was looked at last
	asked   *peer // one want at a time
	askedAt int64
	patient bool         // the donor said that a snapshot follows
	before  crdt.Context // own context when asked: did the answer help?

	holes  crdt.Spans           // what the round over all peers is about
	denied map[crdt.PeerID]bool // who answered that round without helping
	until  int64                // members that failed are waited for until then; 0: not since the last round

	assembly *assembly
	joining  bool
}

// donor is a peer that knows more of a stream.
type donor struct {
	peer  *peer
	ctx   crdt.Context
	blind bool  // it knows more, the context is not known
	at    int64 // when it said so
}

// maxStages bounds the streams being assembled at a time.
const maxStages = 4

// repair gets what this peer lacks: from whom, in which order, by slots or by
// snapshot, and puts snapshots together.
type repair struct {
	*base
	cursor    *cursor
	readiness *readiness
	pulls     map[crdt.StreamID]*pull
	pullOrder []*pull // by stream
	assembled int     // bytes of snapshots being received
}

// pullOf returns the pull of a stream, made if need be.
func (c *repair) pullOf(id crdt.StreamID, wait int64) *pull {
	if pl := c.pulls[id]; pl != nil {
		return pl
	}
	pl := &pull{stream: id, since: c.now, due: c.now + wait}
	i, _ := slices.BinarySearchFunc(c.pullOrder, pl, byStream)
	c.pullOrder = slices.Insert(c.pullOrder, i, pl)
	c.pulls[id] = pl
	c.wake(pl.due)
	return pl
}

func byStream(a, b *pull) int { return strings.Compare(string(a.stream), string(b.stream)) }

func (c *repair) endPull(pl *pull) {
	c.unask(pl)
	c.dropAssembly(pl)
	delete(c.pulls, pl.stream)
	if i, ok := slices.BinarySearchFunc(c.pullOrder, pl, byStream); ok {
		c.pullOrder = slices.Delete(c.pullOrder, i, i+1)
	}
}

// need notes that p knows more of a stream.
func (c *repair) need(p *peer, id crdt.StreamID, d donor, fresh bool) *pull {
	wait := int64(wantMs)
	if fresh {
		wait = 0 // nothing is on its way to a peer that never heard of it
	}
	pl := c.pullOf(id, wait)
	if c.now < pl.mute {
		return pl
	}
	d.peer, d.at = p, c.now
	if len(pl.donors) == 0 {
		pl.since = c.now
	}
	if i := pl.donorIndex(p); i >= 0 {
		pl.donors[i] = d
	} else {
		pl.donors = append(pl.donors, d)
	}
	return pl
}

func (pl *pull) donorIndex(p *peer) int {
	return slices.IndexFunc(pl.donors, func(d donor) bool { return d.peer == p })
}

func (pl *pull) dropDonor(p *peer) {
	pl.donors = slices.DeleteFunc(pl.donors, func(d donor) bool { return d.peer == p })
}

// dropDonor takes a peer out of all pulls. To one that joins, what such a donor
// told is then as unknown as if it had not been heard.
func (c *repair) dropDonor(p *peer) {
	for _, pl := range c.pullOrder {
		if pl.donorIndex(p) >= 0 {
			pl.dropDonor(p)
			p.digested = p.digested && c.readiness.ready.joined
			c.again(pl, 0)
		}
	}
}

// askAgain takes back what was asked of p when a connection of a class ended,
// so that it is asked at once of another donor, or of p over its next one. A
// snapshot that is coming comes on the bulk one.
func (c *repair) askAgain(p *peer, class Class) {
	for _, pl := range c.pullOrder {
		if pl.asked == p && (class == Bulk || pl.assembly == nil) {
			c.unask(pl)
			c.dropAssembly(pl)
			c.again(pl, 0)
		}
	}
}

// canAsk looks again at the pulls that wait for a donor to be asked.
func (c *repair) canAsk() {
	for _, pl := range c.pullOrder {
		if pl.waits {
			c.again(pl, 0)
		}
	}
}

// again looks at a pull after wait ms.
func (c *repair) again(pl *pull, wait int64) {
	pl.due, pl.waits = c.now+wait, false
	c.wake(pl.due)
}

// backoff is the wait after tries wants that brought nothing.
func (pl *pull) backoff() int64 { return min(int64(retryMs)<<min(pl.tries, 10), maxRetryMs) }

func (c *repair) unask(pl *pull) {
	if pl.asked != nil {
		pl.asked.wants = max(0, pl.asked.wants-1)
		pl.asked, pl.patient = nil, false
	}
}

// noteHoles starts a pull for the holes of a context.
func (c *repair) noteHoles(id crdt.StreamID, ctx *crdt.Context) {
	if len(holes(ctx)) > 0 {
		c.pullOf(id, wantMs)
	}
}

// work moves every pull that is due.
func (c *repair) work() {
	for i := 0; i < len(c.pullOrder); {
		pl := c.pullOrder[i]
		if pl.due <= c.now {
			c.workOn(pl)
		}
		if c.pulls[pl.stream] == pl {
			c.wake(max(pl.due, c.now+1))
			i++
		}
	}
}

// workOn decides the next move of one pull.
func (c *repair) workOn(pl *pull) {
	if c.waiting(pl) {
		return
	}
	if !c.wants(pl.stream) {
		c.endPull(pl)
		return
	}
	mine := c.digestOf(pl.stream).Context
	pl.donors = slices.DeleteFunc(pl.donors, func(d donor) bool {
		return !d.blind && !pl.heal && !lacks(&mine, &d.ctx)
	})
	if len(pl.donors) > 0 {
		c.askDonor(pl, &mine)
		return
	}
	pl.whole, pl.heal = false, false
	if h := holes(&mine); len(h) > 0 {
		c.askRound(pl, &mine, h)
		return
	}
	c.endPull(pl)
}

// waiting reports whether an answer, a snapshot or its join is still awaited,
// and gives up what takes too long.
func (c *repair) waiting(pl *pull) bool {
	switch {
	case pl.joining:
		c.again(pl, assemblyMs)
		return true
	case pl.assembly != nil:
		if left := pl.assembly.movedAt + assemblyMs - c.now; left > 0 {
			c.again(pl, left)
			return true
		}
		c.stats.Dropped["stage"]++
	case pl.asked != nil:
		limit := int64(wantTimeoutMs)
		if pl.patient {
			limit = 6 * wantTimeoutMs
		}
		if left := pl.askedAt + limit - c.now; left > 0 {
			c.again(pl, left)
			return true
		}
		c.stats.Dropped["want"]++
	default:
		return false
	}
	p := pl.asked
	c.unask(pl)
	c.dropAssembly(pl)
	pl.dropDonor(p)
	if pl.denied != nil {
		pl.denied[p.id] = true
	}
	pl.tries++
	c.again(pl, pl.backoff())
	return true
}

// askDonor asks the least busy donor, so that different streams come from
// different donors in parallel.
func (c *repair) askDonor(pl *pull, mine *crdt.Context) {
	var best *peer
	ties, wait := 0, int64(wantMs)
	for _, d := range pl.donors {
		p := d.peer
		switch {
		case !p.answers():
		case p.wants >= c.lim.Wants:
			wait = dirtyMs
		case best == nil || p.wants < best.wants:
			best, ties = p, 1
		case p.wants == best.wants:
			if ties++; c.cfg.Rand.IntN(ties) == 0 {
				best = p
			}
		}
	}
	switch {
	case best == nil:
		c.again(pl, wait)
		pl.waits = true
	case pl.whole && c.assemblies() >= maxStages:
		c.again(pl, dirtyMs)
	default:
		c.ask(pl, best, mine)
	}
}

func (c *repair) assemblies() (n int) {
	for _, pl := range c.pullOrder {
		if pl.assembly != nil || pl.whole && pl.asked != nil {
			n++
		}
	}
	return n
}

// askRound asks every live peer in turn for holes that no digest covers; when
// all of them answered, nobody has the slots.
func (c *repair) askRound(pl *pull, mine *crdt.Context, h crdt.Spans) {
	if pl.denied == nil || !h.In(pl.holes) {
		pl.denied = make(map[crdt.PeerID]bool)
	}
	pl.holes = h
	wait := false
	for _, p := range c.order {
		switch {
		case pl.denied[p.id]:
		case p.answers() && p.wants < c.lim.Wants:
			c.ask(pl, p, mine)
			return
		case p.both() || p.member && c.now-p.reachedAt < unreachMs:
			wait = true
		}
	}
	if wait || c.awaitsFailed(pl) {
		c.again(pl, wantMs)
		pl.waits = true
		return
	}
	c.emit(Missing{Stream: pl.stream, Spans: slices.Clone(h)})
	pl.denied, pl.until = nil, 0
	c.again(pl, missingMs)
}

// awaitsFailed reports whether a member that failed lately is waited for: it may
// live behind a cut and hold what nobody else has. A failure during the wait, or
// as long after it, makes it no longer: members that fail again and again would
// keep holes open until the stream is over its bounds.
func (c *repair) awaitsFailed(pl *pull) bool {
	if c.failedAt != 0 && c.now-pl.until >= failedMs {
		pl.until = c.failedAt + failedMs
	}
	return c.now < pl.until
}

// Modes of a want.
const (
	wantDelta = iota
	wantSnapshot
)

func (c *repair) ask(pl *pull, p *peer, mine *crdt.Context) {
	mode := byte(wantDelta)
	if pl.whole {
		mode = wantSnapshot
	}
	pl.asked, pl.askedAt, pl.patient, pl.before = p, c.now, false, *mine
	p.wants++
	c.stats.Wants++
	b := putString(append(c.newBody(96), mode), string(pl.stream))
	c.send(p.conns[Fast], kindWant, crdt.AppendContext(b, mine), sentFrame{})
	c.again(pl, wantTimeoutMs)
}

// learned follows up a slots frame: holes, forgotten streams, answers. Of the
// stream's pull it is one of these, in this order:
//
//  1. There is none, and the frame showed no reason for one: nothing.
//  2. The frame is no answer of the peer that was asked (a push, or a late
//     answer), or a snapshot is being put together: an idle pull with donors is
//     looked at soon, since it may be done; else nothing changes.
//  3. The donor answers that a snapshot follows: it is given longer.
//  4. The state does not take the stream: it is left alone for a while.
//  5. A complete answer from the ring: answered compares what is known now with
//     what was when it was asked.
//
// A pull is idle; or asked (patient after 3); or asked with an assembly, whose
// pieces come; or joining: the assembly is whole and the shell joins it, also
// where asked has hung up meanwhile.
func (c *repair) learned(p *peer, id crdt.StreamID, flags uint8, out *crdt.Outcome) {
	if out.Overflow {
		c.need(p, id, donor{blind: true}, true).whole = true
	}
	if len(out.Holes) > 0 {
		c.pullOf(id, wantMs)
	}
	pl := c.pulls[id]
	if pl == nil {
		return
	}
	if flags&flagAnswer == 0 || pl.asked != p || pl.assembly != nil {
		if pl.asked == nil && pl.assembly == nil && !pl.joining && len(pl.donors) > 0 {
			pl.due = min(pl.due, c.now+urgentMs) // perhaps it is done
			c.wake(pl.due)
		}
		return
	}
	switch {
	case flags&flagLater != 0:
		pl.patient = true
		return
	case out.Quarantined || out.Full:
		c.unask(pl)
		c.silence(pl)
		return
	}
	c.answered(pl, p)
}

// silence leaves a stream alone that the state does not take: too many epochs, or
// no room for it.
func (c *repair) silence(pl *pull) {
	pl.donors, pl.whole, pl.heal = nil, false, false
	pl.mute = c.now + brokenMs
	c.again(pl, brokenMs)
}

// answered judges a complete answer from the ring.
func (c *repair) answered(pl *pull, p *peer) {
	c.unask(pl)
	mine := c.digestOf(pl.stream).Context
	if !sameContext(&mine, &pl.before) {
		pl.tries = 0
		c.again(pl, 0)
		return
	}
	if pl.denied != nil {
		pl.denied[p.id] = true
	}
	if i := pl.donorIndex(p); i >= 0 {
		pl.tries++
		if pl.whole || pl.donors[i].blind {
			pl.dropDonor(p) // until its next digest
		}
		pl.whole = true
		c.again(pl, pl.backoff())
		return
	}
	c.again(pl, 0)
}

func sameContext(a, b *crdt.Context) bool {
	return a.Epoch == b.Epoch && a.Floor == b.Floor && sameSpans(a, b)
}
