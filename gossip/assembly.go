package gossip

import (
	"fmt"

	"github.com/banyan-llm/banyan/crdt"
)

// assembly collects the pieces of one snapshot. Nothing of it is joined before it
// is whole (I7): joining piece by piece while slots arrive brings removed
// blocks back.
type assembly struct {
	transfer uint64
	next     int
	of       int
	heads    int
	total    int // bytes announced, and reserved in Core.assembled
	bytes    int
	head     []byte
	pieces   [][]byte
	movedAt  int64
	reason   string
}

const maxPieces = 1 << 20

// piece is a decoded snapshot frame; data aliases the frame.
type piece struct {
	stream       crdt.StreamID
	transfer     uint64
	i, of, heads int
	total        uint64
	data         []byte
}

func decodePiece(r *reader) (pc piece, err error) {
	pc.stream, pc.transfer = r.stream(), r.u64()
	pc.i, pc.of, pc.heads = int(r.u32()), int(r.u32()), int(r.u32())
	pc.total = r.u64()
	pc.data = r.bytes(int(r.u32()))
	if r.err == nil && (pc.of < 1 || pc.of > maxPieces || pc.i >= pc.of || pc.heads < 1 || pc.heads > pc.of) {
		r.fail(fmt.Errorf("piece %d of %d out of range", pc.i, pc.of))
	}
	return pc, r.err
}

// snapshotFrame adds one piece; one nobody waits for is dropped, as may
// happen after a time-out.
func (c *repair) snapshotFrame(cn *conn, r *reader) error {
	pc, err := decodePiece(r)
	if err != nil {
		return fmt.Errorf("snapshot: %w", err)
	}
	pl := c.pulls[pc.stream]
	if pl == nil || pl.asked != cn.peer || pl.joining || !c.wants(pc.stream) {
		c.stats.Dropped["piece"]++
		return nil
	}
	if pc.i == 0 && (pl.assembly == nil || pl.assembly.transfer != pc.transfer) {
		c.dropAssembly(pl) // the donor began anew
		c.beginStage(pl, &pc)
	}
	s := pl.assembly
	if s == nil || s.transfer != pc.transfer || s.next != pc.i {
		c.stats.Dropped["piece"]++
		return nil
	}
	if s.bytes += len(pc.data); s.bytes > s.total {
		return fmt.Errorf("snapshot: more than the %d bytes announced", s.total)
	}
	if pc.i < s.heads {
		s.head = append(s.head, pc.data...)
	} else {
		s.pieces = append(s.pieces, pc.data)
	}
	s.movedAt = c.now
	c.again(pl, assemblyMs)
	if s.next++; s.next < s.of {
		return nil
	}
	return c.join(pl)
}

// beginStage reserves room for a snapshot, or waits for some.
func (c *repair) beginStage(pl *pull, pc *piece) {
	if pc.total > uint64(c.lim.StagedBytes-c.assembled) {
		c.stats.Dropped["stage"]++
		c.unask(pl)
		pl.tries++
		c.again(pl, pl.backoff())
		return
	}
	mine := c.digestOf(pl.stream).Context
	pl.assembly = &assembly{
		transfer: pc.transfer, of: pc.of, heads: pc.heads, total: int(pc.total),
		movedAt: c.now, reason: pl.why(&mine),
	}
	c.assembled += pl.assembly.total
}

// why is the reason for a snapshot, of the closed list of metrics.
func (pl *pull) why(mine *crdt.Context) string {
	switch {
	case pl.heal:
		return "divergence"
	case mine.Epoch == 0:
		return "join"
	case len(holes(mine)) > 0:
		return "gap"
	}
	return "behind"
}

// join hands a whole snapshot over.
func (c *repair) join(pl *pull) error {
	s := pl.assembly
	snap, err := readSnapshotHead(&reader{b: s.head})
	if err != nil {
		return fmt.Errorf("snapshot: %w", err)
	}
	if snap.Stream != pl.stream {
		return fmt.Errorf("snapshot: of another stream")
	}
	snap.Pieces = s.pieces
	mine := c.digestOf(pl.stream).Context
	if pl.heal && mine.Epoch == snap.Context.Epoch && mine.Floor > snap.Context.Floor {
		// The longer base would win the join, and it is the wrong one.
		c.state.Forget(pl.stream)
	}
	pl.joining = true
	c.emit(JoinSnapshot{Snapshot: &snap})
	return nil
}

// snapshotJoined ends an assembled snapshot.
func (c *repair) snapshotJoined(ev SnapshotJoined) {
	pl := c.pulls[ev.Stream]
	if pl == nil || !pl.joining {
		return
	}
	p, reason := pl.asked, pl.assembly.reason
	c.unask(pl)
	pl.joining = false
	c.dropAssembly(pl)
	if ev.Err != nil {
		c.stats.Dropped["join"]++
		c.log("warn", "full copy of a replica's event state rejected; it will be fetched again", "stream", string(ev.Stream), "err", ev.Err)
		c.silence(pl)
		return
	}
	c.stats.Snapshots[reason]++
	if reason != "join" {
		c.readiness.noteSnapshot(c.cursor.localOf(ev.Stream), pl)
	}
	pl.whole, pl.heal = false, false
	if i := pl.donorIndex(p); p != nil && i >= 0 {
		pl.dropDonor(p) // its next digest says what is left
	}
	c.again(pl, 0)
}

// dropAssembly drops what was received of a snapshot.
func (c *repair) dropAssembly(pl *pull) {
	if pl.assembly != nil && !pl.joining {
		c.assembled -= pl.assembly.total
		pl.assembly = nil
	}
}
