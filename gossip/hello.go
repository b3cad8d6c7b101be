package gossip

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/banyan-llm/banyan/crdt"
)

// hello is the first frame of every connection, both ways.
type hello struct {
	class       Class
	min, max    uint8
	peer        crdt.PeerID
	fingerprint uint64
	link        uint64 // the sender's name for this connection
	label, name string
}

// refusal is a cause for not talking to a peer.
type refusal struct {
	peer   crdt.PeerID
	reason string
}

func (c *base) helloBody(cn *conn) []byte {
	b := c.newBody(64 + len(c.cfg.Label) + len(c.cfg.Name))
	b = append(b, byte(cn.class), c.cfg.MinVersion, c.cfg.MaxVersion)
	b = append(b, c.cfg.Self[:]...)
	b = binary.LittleEndian.AppendUint64(b, c.cfg.Fingerprint)
	b = binary.LittleEndian.AppendUint64(b, uint64(cn.id))
	b = putString(b, c.cfg.Label)
	return putString(b, c.cfg.Name)
}

func decodeHello(r *reader) (h hello, err error) {
	h.class, h.min, h.max = Class(r.u8()), r.u8(), r.u8()
	h.peer, h.fingerprint, h.link = r.peer(), r.u64(), r.u64()
	h.label, h.name = r.str(), r.str()
	switch {
	case r.err != nil:
	case h.class >= Classes, h.min > h.max, len(h.label) > maxNameBytes, len(h.name) > maxNameBytes:
		r.fail(errors.New("hello out of range"))
	}
	return h, r.err
}

// hello decides whether to talk to whoever is at the other end.
func (c *neighbours) hello(cn *conn, r *reader) error {
	h, err := decodeHello(r)
	if err != nil {
		return err
	}
	if cn.peer != nil {
		return errors.New("second hello")
	}
	if reason := c.objection(h); reason != "" {
		detail := ""
		switch {
		case reason == otherPrint && c.cfg.Differs != nil:
			detail = c.cfg.Differs(h.fingerprint)
		case reason == otherVersion:
			detail = fmt.Sprintf("it speaks protocol %d to %d, this peer %d to %d: run one version of banyan on all peers", h.min, h.max, c.cfg.MinVersion, c.cfg.MaxVersion)
		}
		c.refuse(cn, h.peer, reason, detail)
		return nil
	}
	g, down := c.gone[h.peer]
	switch {
	case h.peer == c.cfg.Self:
		c.hangup(cn, "connected to itself")
		return nil
	case h.class != cn.class:
		return errors.New("hello of another class")
	case cn.dialed && cn.expect != crdt.PeerID{} && cn.expect != h.peer:
		c.hangup(cn, "another peer answered")
		return nil
	case down:
		g.knocked = true
		c.gone[h.peer] = g
		c.hangup(cn, "member down")
		return nil
	}
	p := c.peerFor(h.peer)
	if p == nil {
		c.hangup(cn, "too many peers")
		return nil
	}
	cn.remote, cn.version, p.refused = h.link, min(c.cfg.MaxVersion, h.max), ""
	if p.name == "" {
		p.name = h.name
	}
	if c.attach(cn, p) {
		c.greeted(cn, p)
	}
	return nil
}

// otherVersion is the objection to a peer of another age, otherPrint to one that
// was configured otherwise, otherLabel to one of another cluster.
const (
	otherVersion = "no common protocol version"
	otherPrint   = "another fingerprint of hash, grid and secret"
	otherLabel   = "another cluster label"
)

var objections = []string{otherLabel, otherPrint, otherVersion}

// objection names the reason to refuse a hello, if any.
func (c *neighbours) objection(h hello) string {
	switch {
	case h.label != c.cfg.Label:
		return otherLabel
	case h.fingerprint != c.cfg.Fingerprint:
		return otherPrint
	case h.min > c.cfg.MaxVersion || h.max < c.cfg.MinVersion:
		return otherVersion
	}
	return ""
}

// refuse hangs up and says so, once per peer and cause.
func (c *neighbours) refuse(cn *conn, id crdt.PeerID, reason, detail string) {
	c.stats.Refused[reason]++
	k := refusal{peer: id, reason: reason}
	words := cmp.Or(detail, reason)
	if c.refused[k] == "" && len(c.refused) < c.lim.Peers {
		c.refused[k] = words
		c.emit(Refused{Peer: id, Conn: cn.id, Reason: reason, Detail: detail})
	}
	c.hangup(cn, reason)
	if p := c.peers[id]; p != nil {
		p.refused = words
		for class := range p.dialAt {
			if p.dialAt[class] != 0 {
				p.dialAt[class] = c.now + refusedMs
			}
		}
	}
}

// greeted starts the exchange on a connection whose peer is known: the whole
// load table, operator intent and a digest on the fast one, with whole tables,
// so that nothing that was told on an earlier one is missed; what is owed on the
// bulk one.
func (c *neighbours) greeted(cn *conn, p *peer) {
	if cn.class == Fast {
		c.loads.sendFullLoads(p)
		c.intents.sendIntents(p, c.state.Intents())
		c.digests.sendDigest(p)
	} else {
		cn.ackDue = c.now // wants wait for it
	}
	c.cursor.pump(p)
	c.wake(c.now)
}
