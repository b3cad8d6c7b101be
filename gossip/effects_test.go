package gossip_test

import (
	"errors"
	"fmt"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/gossip"
)

var errJoin = errors.New("join refused by the test")

// effect does what a core wants done. Nothing is done at once: everything a
// core causes comes back to some core as a later event.
func (n *Net) effect(x *Node, e gossip.Effect) {
	n.traceEffect(x, e)
	switch e := e.(type) {
	case gossip.Send:
		n.send(x, e)
	case gossip.Dial:
		n.dial(x, e)
	case gossip.Hangup:
		x.Hangups = append(x.Hangups, e.Reason)
		n.hangup(x, e.Conn)
	case gossip.CutSnapshot:
		n.after(n.cfg.CutMs, func() {
			n.step(x, gossip.SnapshotCut{Stream: e.Stream, Snapshot: x.State.Cut(e.Stream)})
		})
	case gossip.JoinSnapshot:
		n.after(n.cfg.CutMs, func() { n.join(x, e.Snapshot) })
	case gossip.Refused:
		x.Refused = append(x.Refused, e)
	case gossip.Missing:
		x.Missing = append(x.Missing, e)
	case gossip.Observed:
		x.Observed = append(x.Observed, e.DelayMs)
	case gossip.Caught:
		x.Ready, x.Reason = e.Ready, e.Reason
	case gossip.Log:
		x.Logs = append(x.Logs, e)
	}
}

func (n *Net) join(x *Node, s *crdt.Snapshot) {
	if !x.Alive {
		return
	}
	var err error
	if x.Fails > 0 {
		x.Fails--
		err = errJoin
	} else if err = x.State.Join(s, n.now); err == nil {
		x.Snaps++
	}
	n.step(x, gossip.SnapshotJoined{Stream: s.Stream, Err: err})
}

// dial connects two nodes if frames pass both ways.
func (n *Net) dial(x *Node, d gossip.Dial) {
	var y *Node
	for _, z := range n.nodes {
		if z.ID == d.Peer {
			y = z
		}
	}
	if y == nil {
		return
	}
	n.after(2*n.Link(x, y).DelayMs, func() {
		if x.Alive && y.Alive && !n.Link(x, y).Cut && !n.Link(y, x).Cut {
			n.Connect(x, y, d.Class, y.ID)
		}
	})
}

// Connect opens a connection dialed by x, who expects a peer (zero: anybody).
func (n *Net) Connect(x, y *Node, class gossip.Class, expect crdt.PeerID) {
	p := &pipe{class: class, open: true}
	for i, z := range []*Node{x, y} {
		n.conns++
		p.ends[i] = &end{node: z, conn: n.conns, pipe: p}
		z.pipes[n.conns] = p.ends[i]
	}
	p.ends[0].other, p.ends[1].other = p.ends[1], p.ends[0]
	n.pipes = append(n.pipes, p)
	n.step(x, gossip.Connected{Conn: p.ends[0].conn, Class: class, Dialed: true, Expect: expect})
	n.step(y, gossip.Connected{Conn: p.ends[1].conn, Class: class})
}

// send schedules a frame's arrival: after the frames before it, the link's
// delay and the time its bytes take.
func (n *Net) send(x *Node, s gossip.Send) {
	e := x.pipes[s.Conn]
	if e == nil || !e.pipe.open {
		return
	}
	y := e.other.node
	data := s.Data
	if n.cfg.Mangle != nil {
		data = n.cfg.Mangle(x, y, data)
	}
	n.deliver(e, len(data), func() {
		n.step(y, gossip.Received{Conn: e.other.conn, Data: data})
		if e.pipe.open && e.pipe.class == gossip.Bulk {
			n.after(0, func() { n.step(x, gossip.Writable{Conn: e.conn}) })
		}
	})
}

func (n *Net) deliver(e *end, bytes int, do func()) {
	l := n.Link(e.node, e.other.node)
	arrive := func() {
		if e.pipe.open {
			do()
		}
	}
	if l.Cut || len(e.held) > 0 {
		e.held = append(e.held, func() { n.deliver(e, bytes, do) })
		return
	}
	at := n.now + l.DelayMs
	if e.pipe.class == gossip.Bulk {
		at += l.BulkMs
	}
	if n.cfg.JitterMs > 0 {
		at += n.rng.Int64N(n.cfg.JitterMs + 1)
	}
	at = max(at, e.lastAt)
	if l.BytesPer > 0 {
		at = max(at, e.lastAt+int64(bytes/l.BytesPer))
	}
	e.lastAt = at
	n.after(at-n.now, arrive)
}

// hangup closes a connection; the other end hears of it in order.
func (n *Net) hangup(x *Node, id gossip.Conn) {
	e := x.pipes[id]
	if e == nil || !e.pipe.open {
		return
	}
	delete(x.pipes, id)
	n.deliver(e, 0, func() {
		e.pipe.open = false
		n.step(e.other.node, gossip.Disconnected{Conn: e.other.conn})
	})
	if l := n.Link(x, e.other.node); l.Cut {
		e.pipe.open = false // the other end finds out by silence
	}
}

// breakPipe loses a connection at both ends.
func (n *Net) breakPipe(p *pipe) {
	p.open = false
	for _, e := range p.ends {
		delete(e.node.pipes, e.conn)
		n.after(0, func() { n.step(e.node, gossip.Disconnected{Conn: e.conn}) })
	}
}

func (n *Net) trace(x *Node, ev gossip.Event) {
	if n.cfg.Trace == nil {
		return
	}
	if s := describeEvent(ev); s != "" {
		n.cfg.Trace(n.now, x, "< "+s)
	}
}

func (n *Net) traceEffect(x *Node, e gossip.Effect) {
	if n.cfg.Trace == nil {
		return
	}
	if s, ok := e.(gossip.Send); ok {
		to, words := "?", new(gossip.Describer)
		if end := x.pipes[s.Conn]; end != nil {
			to, words = end.other.node.Name, &end.words
		}
		n.cfg.Trace(n.now, x, "> "+to+" "+words.Describe(s.Data))
		return
	}
	n.cfg.Trace(n.now, x, "> "+describeEffect(e))
}

func describeEvent(ev gossip.Event) string {
	switch ev := ev.(type) {
	case gossip.Tick, gossip.Writable, gossip.Received:
		return ""
	case gossip.Ingested:
		return fmt.Sprintf("ingested %s epoch %d slots %d lost %v first %v", ev.Stream, ev.Epoch, ev.Slots.Size(), ev.Lost, ev.First)
	case gossip.SnapshotCut:
		return fmt.Sprintf("snapshot cut %s", ev.Stream)
	case gossip.MemberUp:
		return "member up " + ev.Name
	case gossip.MemberDown:
		return "member down"
	case gossip.Connected:
		return fmt.Sprintf("connected class %d dialed %v", ev.Class, ev.Dialed)
	case gossip.Disconnected:
		return "disconnected"
	}
	return fmt.Sprintf("%T", ev)
}

func describeEffect(e gossip.Effect) string {
	switch e := e.(type) {
	case gossip.Dial:
		return fmt.Sprintf("dial class %d", e.Class)
	case gossip.Hangup:
		return "hang up: " + e.Reason
	case gossip.Refused:
		return "refused: " + e.Reason
	case gossip.CutSnapshot:
		return fmt.Sprintf("cut snapshot %s", e.Stream)
	case gossip.JoinSnapshot:
		return fmt.Sprintf("join snapshot %s floor %d", e.Snapshot.Stream, e.Snapshot.Context.Floor)
	case gossip.Observed:
		return fmt.Sprintf("observed %v ms", e.DelayMs)
	case gossip.Missing:
		return fmt.Sprintf("missing %s %v", e.Stream, e.Spans)
	case gossip.Caught:
		return fmt.Sprintf("ready %v: %s", e.Ready, e.Reason)
	case gossip.Log:
		return fmt.Sprintf("log %s: %s", e.Level, e.Msg)
	}
	return fmt.Sprintf("%T", e)
}

// Open counts the connections that stand between two nodes.
func (n *Net) Open(x, y *Node) (open int) {
	for _, p := range n.pipes {
		a, b := p.ends[0].node, p.ends[1].node
		if p.open && (a == x && b == y || a == y && b == x) {
			open++
		}
	}
	return open
}
