package gossip

import (
	"fmt"
	"maps"
	"slices"

	"github.com/banyan-llm/banyan/crdt"
)

// Flags of a digest frame. A digest is one or more frames; the tables ride on
// the last.
const (
	_ = 1 << iota // asked for a reply, up to protocol version 3
	digestLast
	digestJoined // the sender is over its own cold join
)

const (
	digestsPerFrame = 1024
	loadBytes       = 128 // of one register, with a long name
)

// digests compares what this peer knows with what others do, one after the
// other.
type digests struct {
	*base
	cursor      *cursor
	intents     *intents
	keys        *keyRepair
	loads       *loads
	predictions *predictions
	readiness   *readiness
	repair      *repair
	summaries   *summaries
	divergent   map[crdt.StreamID]map[crdt.PeerID]bool // whose sums differ from ours
	digestDue   int64
}

// digestRound starts an exchange with a random peer.
func (c *digests) digestRound() {
	c.digestDue = c.now + c.jitter(digestMs)
	c.wake(c.digestDue)
	c.cursor.forgetUnwanted()
	var up []*peer
	for _, p := range c.order {
		if c.fastRoom(p.conns[Fast]) {
			up = append(up, p)
		}
	}
	if len(up) > 0 {
		c.stats.Rounds++
		c.summaries.sendSummary(up[c.cfg.Rand.IntN(len(up))])
	}
}

// sendDigest sends the contexts and sums of all streams and the small tables, as
// a new connection and a peer that joins want them whole.
func (c *digests) sendDigest(p *peer) {
	fast := p.conns[Fast]
	if !c.fastRoom(fast) {
		return
	}
	ids := c.state.Streams(nil)
	for {
		page := ids[:min(len(ids), digestsPerFrame)]
		ids = ids[len(page):]
		flags := byte(0)
		if len(ids) == 0 {
			flags |= digestLast
		}
		if c.readiness.ready.joined {
			flags |= digestJoined
		}
		b := c.digestPage(flags, page)
		if len(ids) == 0 {
			b = c.appendTables(b)
		}
		c.send(fast, kindDigest, b, sentFrame{})
		if len(ids) == 0 {
			return
		}
	}
}

func (c *digests) digestPage(flags byte, ids []crdt.StreamID) []byte {
	b := putU32(append(c.newBody(128*len(ids)), flags), uint32(len(ids)))
	for _, id := range ids {
		d := c.digestOf(id)
		b = crdt.AppendDigest(putString(b, string(id)), &d)
	}
	return b
}

// appendTables appends loads, scrapes, vitals, intents and prediction sums.
func (c *digests) appendTables(b []byte) []byte {
	b = c.loads.appendLoads(b, c.state.AllLoads(nil))
	b = crdt.AppendScrapes(b, c.state.Scrapes())
	b = crdt.AppendVitals(b, c.state.Vitals())
	b = crdt.AppendIntents(b, c.state.Intents())
	return crdt.AppendPredictionSums(b, c.predictions.closedSums())
}

// appendLoads appends registers by peer, as far as there is room.
func (c *loads) appendLoads(b []byte, all []crdt.PeerLoads) []byte {
	slices.SortFunc(all, func(a, b crdt.PeerLoads) int { return slices.Compare(a.Peer[:], b.Peer[:]) })
	b = putU32(b, uint32(len(all)))
	for _, l := range all {
		room := max(0, c.lim.MessageBytes/2-len(b)) / loadBytes
		b = append(b, l.Peer[:]...)
		b = crdt.AppendLoads(b, l.Loads[:min(len(l.Loads), room)])
	}
	return b
}

// digestFrame compares every stream and joins the tables.
func (c *digests) digestFrame(cn *conn, r *reader) error {
	p, flags := cn.peer, r.u8()
	if !p.inDigest {
		p.inDigest, p.digestAt = true, c.now
	}
	for range r.count(4) {
		id := r.stream()
		d, err := readDigest(r)
		if err != nil {
			return fmt.Errorf("digest: %w", err)
		}
		c.compare(p, id, &d)
	}
	if r.err != nil || flags&digestLast == 0 {
		return r.err
	}
	if err := c.joinTables(p, r); err != nil {
		return err
	}
	p.inDigest, p.digested = false, true
	p.joined = p.joined || flags&digestJoined != 0
	c.staleDonor(p)
	c.wake(c.now)
	return nil
}

// staleDonor takes p off the pulls of streams that its digest left out.
func (c *digests) staleDonor(p *peer) {
	for _, pl := range c.repair.pullOrder {
		if i := pl.donorIndex(p); i >= 0 && pl.donors[i].at < p.digestAt && pl.asked != p {
			pl.dropDonor(p)
			c.repair.again(pl, 0)
		}
	}
}

// compare asks for what p knows more of a stream, and proves the rest equal:
// equal contexts must have equal sums.
func (c *digests) compare(p *peer, id crdt.StreamID, theirs *crdt.Digest) {
	if !c.cursor.admits(id) {
		return
	}
	if c.cfg.Fits != nil && !c.cfg.Fits(id, theirs) {
		c.stats.Dropped["full"]++
		return
	}
	mine := c.digestOf(id)
	if lacks(&mine.Context, &theirs.Context) {
		c.repair.need(p, id, donor{ctx: theirs.Context}, mine.Context.Epoch != theirs.Context.Epoch)
	} else if pl := c.repair.pulls[id]; pl != nil && pl.asked != p && !pl.heal {
		pl.dropDonor(p)
	}
	ours, ok := c.sumAtFloor(id, &mine, theirs)
	if !ok {
		return
	}
	if ours.Count == theirs.Base.Count && ours.Facts == theirs.Base.Facts {
		c.converged(p, id)
		c.keys.compareKeys(p, id, &mine, theirs)
		return
	}
	c.diverged(p, id, ours, theirs)
}

// sumAtFloor is our sum at the peer's floor, if the bases there must be equal.
func (c *digests) sumAtFloor(id crdt.StreamID, mine, theirs *crdt.Digest) (crdt.Sum, bool) {
	f := theirs.Context.Floor
	switch {
	case f > mine.Context.Floor || !comparableAt(&mine.Context, &theirs.Context, f):
		return crdt.Sum{}, false
	case f == mine.Context.Floor:
		return mine.Base, true
	}
	return c.state.SumAt(id, mine.Context.Epoch, f)
}

func (c *digests) converged(p *peer, id crdt.StreamID) {
	if with := c.divergent[id]; with[p.id] {
		delete(with, p.id)
		if len(with) == 0 {
			delete(c.divergent, id)
		}
		c.log("info", "peers hold the same cached blocks again", "stream", string(id), "peer", p.id)
	}
}

// diverged counts, says so, and heals: the smaller (count, XOR) takes a
// snapshot of the larger.
func (c *digests) diverged(p *peer, id crdt.StreamID, ours crdt.Sum, theirs *crdt.Digest) {
	with := c.divergent[id]
	if with == nil {
		with = make(map[crdt.PeerID]bool)
		c.divergent[id] = with
	}
	if !with[p.id] {
		with[p.id] = true
		c.stats.Divergences++
		c.log("error", "peers hold different cached blocks after the same events: this repairs itself; report a bug, see /runbook#divergent", "stream", string(id), "peer", p.id, "floor", theirs.Context.Floor,
			"count", ours.Count, "theirs", theirs.Base.Count)
	}
	if ours.Count > theirs.Base.Count || ours.Count == theirs.Base.Count && ours.Facts > theirs.Base.Facts {
		return
	}
	pl := c.repair.need(p, id, donor{ctx: theirs.Context}, true)
	if pl.asked == nil {
		pl.whole, pl.heal = true, true
	}
}

// clearDivergence forgets a peer that is gone.
func (c *digests) clearDivergence(id crdt.PeerID) {
	for stream, with := range c.divergent {
		delete(with, id)
		if len(with) == 0 {
			delete(c.divergent, stream)
		}
	}
}

// joinTables joins what rides on the last frame of a digest.
func (c *digests) joinTables(p *peer, r *reader) error {
	if err := c.loads.takeLoads(p, r); err != nil {
		return err
	}
	scrapes, err := read(r, crdt.DecodeScrapes)
	if err != nil {
		return fmt.Errorf("digest: scrapes: %w", err)
	}
	vitals, err := read(r, crdt.DecodeVitals)
	if err != nil {
		return fmt.Errorf("digest: vitals: %w", err)
	}
	intents, err := readIntents(r)
	if err != nil {
		return fmt.Errorf("digest: intents: %w", err)
	}
	sums, err := read(r, crdt.DecodePredictionSums)
	if err != nil {
		return fmt.Errorf("digest: sums: %w", err)
	}
	c.state.JoinScrapes(scrapes)
	c.loads.takeVitals(p, vitals)
	c.intents.joinIntents(p, intents)
	c.predictions.comparePredictions(p, sums)
	return r.err
}

// takeLoads joins registers that somebody passes on.
func (c *loads) takeLoads(p *peer, r *reader) error {
	for range r.count(16) {
		id := r.peer()
		loads, err := readLoads(r)
		if err != nil {
			return fmt.Errorf("digest: loads: %w", err)
		}
		if c.living(p, id) {
			c.state.JoinLoads(id, loads)
		}
	}
	return r.err
}

// takeVitals joins what peers say of themselves, as somebody passes it on. It
// takes the map.
func (c *loads) takeVitals(p *peer, vitals map[crdt.PeerID]crdt.Vitals) {
	maps.DeleteFunc(vitals, func(id crdt.PeerID, _ crdt.Vitals) bool { return !c.living(p, id) })
	c.state.JoinVitals(vitals)
}

// living reports whether to take what p tells of a peer. Invariant I8: only
// peers that are alive here have registers and vitals here, so that a relayed
// table cannot bring a dead peer's back.
func (c *loads) living(p *peer, id crdt.PeerID) bool { return id == p.id || c.peers[id] != nil }
