package gossip_test

import (
	"container/heap"
	"encoding/binary"
	"fmt"
	"math/rand/v2"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/gossip"
	"github.com/banyan-llm/banyan/gossip/gossiptest"
)

// The network of these tests drives real cores with a virtual clock: delays,
// bandwidth, cuts in one or both directions, broken connections, dead peers.
// The frames of one connection arrive in order and unchanged or not at all;
// between connections there is no order. All randomness comes from Config.Seed,
// so one seed gives one transcript.

// Config describes a network. The zero value is a fast and faultless one.
type Config struct {
	Seed     uint64
	DelayMs  int64 // one way; default 1
	JitterMs int64 // added at random, per frame
	DetectMs int64 // from a peer's death to MemberDown at the others; default 2,000
	CutMs    int64 // time a snapshot takes to cut, and again to join
	Core     gossip.Config
	State    gossiptest.StateConfig
	// Tweak, if not nil, may change one node's configuration.
	Tweak func(i int, cfg *gossip.Config)
	// Trace, if not nil, is called for every event and effect.
	Trace func(at int64, n *Node, what string)
	// Mangle, if not nil, may change a frame on its way; nil drops nothing.
	Mangle func(from, to *Node, data []byte) []byte
}

// Start is the virtual time of the first event, ms since 1970.
const Start = 1_700_000_000_000

// Net is the network and its nodes.
type Net struct {
	cfg   Config
	now   int64
	rng   *rand.Rand
	nodes []*Node
	queue events
	seq   uint64
	conns gossip.Conn
	links map[[2]int]*Link
	pipes []*pipe
}

// Link is one direction between two nodes.
type Link struct {
	DelayMs  int64
	BulkMs   int64 // more of it for frames of bulk connections
	BytesPer int   // bytes a ms; 0 unlimited
	Cut      bool  // nothing arrives; what was sent waits until the connection ends
}

// Node is one peer.
type Node struct {
	Index int
	Name  string
	ID    crdt.PeerID
	Core  *gossip.Core
	State *gossiptest.State
	Alive bool
	Fails int // SnapshotJoined errors still to be returned

	net   *Net
	pipes map[gossip.Conn]*end
	wake  int64

	// What the core reported.
	Ready    bool
	Reason   string
	Refused  []gossip.Refused
	Missing  []gossip.Missing
	Observed []float64
	Logs     []gossip.Log
	Hangups  []string
	Snaps    int
}

// pipe is one connection, end by end.
type pipe struct {
	class gossip.Class
	ends  [2]*end
	open  bool
}

type end struct {
	node   *Node
	conn   gossip.Conn
	pipe   *pipe
	other  *end
	lastAt int64            // latest arrival scheduled at the other end
	words  gossip.Describer // of what this end sends
	held   []func()
}

// New makes a network without nodes.
func New(cfg Config) *Net {
	if cfg.DelayMs == 0 {
		cfg.DelayMs = 1
	}
	if cfg.DetectMs == 0 {
		cfg.DetectMs = 2_000
	}
	return &Net{
		cfg: cfg, now: Start, links: make(map[[2]int]*Link),
		rng: rand.New(rand.NewPCG(cfg.Seed, 1)),
	}
}

// Now is the virtual time, ms.
func (n *Net) Now() int64 { return n.now }

// Nodes are all nodes ever added, dead ones too.
func (n *Net) Nodes() []*Node { return n.nodes }

// Live are the nodes that are alive.
func (n *Net) Live() (live []*Node) {
	for _, x := range n.nodes {
		if x.Alive {
			live = append(live, x)
		}
	}
	return live
}

// Add starts one more peer and lets membership tell everybody.
func (n *Net) Add() *Node {
	x := n.AddSilent()
	for _, y := range n.nodes {
		if y != x && y.Alive {
			n.Introduce(x, y)
		}
	}
	return x
}

// AddSilent starts a peer that membership knows nothing of.
func (n *Net) AddSilent() *Node {
	i := len(n.nodes)
	x := &Node{Index: i, Name: string(rune('a' + i%26)), Alive: true, net: n, pipes: make(map[gossip.Conn]*end)}
	binary.BigEndian.PutUint64(x.ID[:], n.rng.Uint64())
	x.ID[15] = byte(i)
	x.State = gossiptest.NewState(x.ID, n.cfg.State)
	cfg := n.cfg.Core
	cfg.Self, cfg.Name, cfg.State = x.ID, x.Name, x.State
	cfg.Rand = rand.New(rand.NewPCG(n.cfg.Seed, uint64(i)+2))
	if i == 0 && cfg.JoinGrace == 0 {
		cfg.JoinGrace = 1 // it founds the mesh
	}
	if n.cfg.Tweak != nil {
		n.cfg.Tweak(i, &cfg)
	}
	core, err := gossip.New(cfg)
	if err != nil {
		panic(fmt.Sprintf("invariant: %v", err))
	}
	x.Core = core
	n.nodes = append(n.nodes, x)
	n.step(x, gossip.Tick{})
	return x
}

// Introduce lets membership of two peers see each other.
func (n *Net) Introduce(x, y *Node) {
	n.step(x, gossip.MemberUp{Peer: y.ID, Name: y.Name, Ready: y.Ready})
	n.step(y, gossip.MemberUp{Peer: x.ID, Name: x.Name, Ready: x.Ready})
}

// Kill ends a peer at once; the others hear of it DetectMs later.
func (n *Net) Kill(x *Node) {
	x.Alive = false
	for _, p := range n.pipes {
		if p.open && (p.ends[0].node == x || p.ends[1].node == x) {
			n.breakPipe(p)
		}
	}
	n.after(n.cfg.DetectMs, func() {
		for _, y := range n.Live() {
			n.step(y, gossip.MemberDown{Peer: x.ID})
		}
	})
}

// Link is the direction from x to y.
func (n *Net) Link(x, y *Node) *Link {
	k := [2]int{x.Index, y.Index}
	if n.links[k] == nil {
		n.links[k] = &Link{DelayMs: n.cfg.DelayMs}
	}
	return n.links[k]
}

// Cut stops the direction from x to y; frames wait.
func (n *Net) Cut(x, y *Node) { n.Link(x, y).Cut = true }

// Heal lets everything through again, between all nodes.
func (n *Net) Heal() {
	for _, l := range n.links {
		l.Cut, l.BytesPer = false, 0
	}
	for _, p := range n.pipes {
		for _, e := range p.ends {
			held := e.held
			e.held = nil
			for _, f := range held {
				f()
			}
		}
	}
}

// Break ends all connections between two nodes; what was on its way is lost.
func (n *Net) Break(x, y *Node) {
	for class := range gossip.Class(gossip.Classes) {
		n.BreakClass(x, y, class)
	}
}

// BreakClass is Break for the connections of one class.
func (n *Net) BreakClass(x, y *Node, class gossip.Class) {
	for _, p := range n.pipes {
		a, b := p.ends[0].node, p.ends[1].node
		if p.open && p.class == class && (a == x && b == y || a == y && b == x) {
			n.breakPipe(p)
		}
	}
}

// Post gives an event to a node now.
func (n *Net) Post(x *Node, ev gossip.Event) { n.step(x, ev) }

// Run moves time forward by ms.
func (n *Net) Run(ms int64) { n.RunUntil(ms, func() bool { return false }) }

// RunUntil moves time forward until done, for ms at most, and reports whether
// done was reached. It is asked every 10 ms of virtual time.
func (n *Net) RunUntil(ms int64, done func() bool) bool {
	end := n.now + ms
	check := n.now
	for n.now <= end {
		if n.now >= check {
			if done() {
				return true
			}
			check = n.now + 10
		}
		at := min(n.nextAt(), check)
		if at > end {
			break
		}
		n.now = max(n.now, at)
		n.turn()
	}
	n.now = max(n.now, end)
	return done()
}

// nextAt is when the next thing happens.
func (n *Net) nextAt() int64 {
	at := int64(1) << 62
	if len(n.queue) > 0 {
		at = n.queue[0].at
	}
	for _, x := range n.nodes {
		if x.Alive {
			at = min(at, x.wake)
		}
	}
	return max(at, n.now)
}

// turn does what is due at the present time.
func (n *Net) turn() {
	for len(n.queue) > 0 && n.queue[0].at <= n.now {
		heap.Pop(&n.queue).(*event).do()
	}
	for _, x := range n.nodes {
		if x.Alive && x.wake <= n.now {
			n.step(x, gossip.Tick{})
		}
	}
}

func (n *Net) step(x *Node, ev gossip.Event) {
	if !x.Alive {
		return
	}
	n.trace(x, ev)
	x.State.Tick(n.now)
	effects := x.Core.Step(n.now, ev)
	x.wake = max(x.Core.NextTick(), n.now+1)
	// Effects may step other nodes but never this one: the slice stays valid.
	for _, e := range effects {
		n.effect(x, e)
	}
}

// maxQueue bounds what is on its way for each node that ever was, beside some for
// all: a protocol that relays without end is stopped here.
const maxQueue = 20_000

func (n *Net) after(ms int64, do func()) {
	if len(n.queue) > maxQueue*max(1, len(n.nodes)/16) {
		panic("invariant: a storm of frames")
	}
	n.seq++
	heap.Push(&n.queue, &event{at: n.now + ms, seq: n.seq, do: do})
}

type event struct {
	at  int64
	seq uint64
	do  func()
}

type events []*event

func (q events) Len() int { return len(q) }
func (q events) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].seq < q[j].seq
}
func (q events) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *events) Push(x any)   { *q = append(*q, x.(*event)) }
func (q *events) Pop() any {
	old := *q
	e := old[len(old)-1]
	*q = old[:len(old)-1]
	return e
}
