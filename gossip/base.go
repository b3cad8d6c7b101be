package gossip

import (
	"slices"

	"github.com/banyan-llm/banyan/crdt"
)

// base is what all parts of a Core share: the time, the peers and connections
// there are, what the State knows, and what is to be done.
type base struct {
	cfg   Config
	lim   Limits
	state State

	now     int64 // ms; never runs backwards (I2)
	ahead   int64 // ms: the wall clock's lead over now
	startAt int64 // time of the first Step
	due     int64 // when timers must run next
	effects []Effect

	failedAt int64 // when a member last went without a goodbye; 0: none did

	peers map[crdt.PeerID]*peer
	order []*peer // by id: everything that is sent walks this
	conns map[Conn]*conn
	links []*conn // conns in order of arrival, for walking

	stats   Stats
	in, out [kinds]Traffic // of all peers
}

func (c *base) emit(e Effect) { c.effects = append(c.effects, e) }

func (c *base) log(level, msg string, args ...any) {
	c.emit(Log{Level: level, Msg: msg, Args: args})
}

// wake makes timers run at t at the latest.
func (c *base) wake(t int64) { c.due = min(c.due, t) }

// jitter draws from [ms, 2*ms).
func (c *base) jitter(ms int64) int64 { return ms + c.cfg.Rand.Int64N(ms) }

// digestOf is the digest of a stream, empty if it is unknown here.
func (c *base) digestOf(id crdt.StreamID) crdt.Digest {
	d, ok := c.state.Digest(id)
	if !ok {
		return crdt.Digest{}
	}
	return d
}

// insertPeer keeps order sorted by id.
func (c *base) insertPeer(p *peer) {
	i, _ := slices.BinarySearchFunc(c.order, p, func(a, b *peer) int { return slices.Compare(a.id[:], b.id[:]) })
	c.order = slices.Insert(c.order, i, p)
	c.peers[p.id] = p
}
