package gossip

import (
	"encoding/binary"
	"errors"

	"github.com/banyan-llm/banyan/crdt"
)

// Bounds of the names one direction of a connection remembers. Both sides
// count alike, so that they agree which names have a number.
const (
	maxNames  = 1 << 16
	nameBytes = 4 << 20
)

var errNames = errors.New("number of a name that was never told")

// named is a stream that was named on a connection, and what its last section
// was about.
type named struct {
	number        uint64 // from 1; 0: not remembered
	stream        crdt.StreamID
	epoch, anchor uint64
}

// naming is what one direction of a connection has named so far. The name goes
// with its first use, a number ever after.
type naming struct {
	byName map[crdt.StreamID]*named // the sender's side
	list   []*named
	bytes  int
}

// enter remembers a name if there is room.
func (n *naming) enter(id crdt.StreamID) *named {
	x := &named{stream: id}
	if len(n.list) < maxNames && n.bytes+len(id) <= nameBytes {
		n.list = append(n.list, x)
		n.bytes += len(id)
		x.number = uint64(len(n.list))
	}
	return x
}

// put appends a stream's number, or 0 and its name.
func (n *naming) put(b []byte, id crdt.StreamID) ([]byte, *named) {
	if x := n.byName[id]; x != nil {
		return binary.AppendUvarint(b, x.number), x
	}
	x := n.enter(id)
	if x.number != 0 {
		if n.byName == nil {
			n.byName = make(map[crdt.StreamID]*named)
		}
		n.byName[id] = x
	}
	return putString(append(b, 0), string(id)), x
}

// take reads what put wrote.
func (n *naming) take(r *reader) *named {
	switch i := r.uvarint(); {
	case r.err != nil:
	case i == 0:
		if id := r.stream(); r.err == nil {
			return n.enter(id)
		}
	case i <= uint64(len(n.list)):
		return n.list[i-1]
	default:
		r.fail(errNames)
	}
	return nil
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail(errShort)
		return 0
	}
	r.b = r.b[n:]
	return v
}
