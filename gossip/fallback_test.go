package gossip

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"github.com/banyan-llm/banyan/crdt"
)

// lab is a state whose answers a test sets.
type lab struct {
	ear
	own     []crdt.LoadEntry
	scrapes map[crdt.StreamID]crdt.Scrape
	ctx     crdt.Context // of every stream
	outcome crdt.Outcome // of every delta
}

func newLab() *lab { return &lab{ear: ear{heard: make(map[crdt.PeerID]int)}} }

func (l *lab) OwnLoads(dst []crdt.LoadEntry, _ bool) []crdt.LoadEntry { return append(dst, l.own...) }

func (l *lab) Digest(crdt.StreamID) (crdt.Digest, bool) {
	return crdt.Digest{Context: l.ctx}, l.ctx.Epoch != 0
}
func (l *lab) SumAt(crdt.StreamID, uint64, uint64) (crdt.Sum, bool) { return crdt.Sum{}, false }
func (l *lab) Apply(*crdt.Delta, int64) crdt.Outcome                { return l.outcome }
func (l *lab) Slots(_ crdt.StreamID, _ uint64, want []crdt.Span, _ int) (out []crdt.Slot) {
	for _, s := range want {
		out = append(out, crdt.Slot{Seq: s.From})
	}
	return out
}
func (l *lab) Scrapes() map[crdt.StreamID]crdt.Scrape         { return l.scrapes }
func (l *lab) JoinScrapes(map[crdt.StreamID]crdt.Scrape)      {}
func (l *lab) JoinVitals(map[crdt.PeerID]crdt.Vitals)         {}
func (l *lab) JoinIntents(map[crdt.StreamID]crdt.Intent) bool { return false }

// sends are the frames of a kind among effects.
func sends(effects []Effect, kind string) (out []Send) {
	for _, e := range effects {
		if s, ok := e.(Send); ok && s.Kind == kind {
			out = append(out, s)
		}
	}
	return out
}

// ackAll acknowledges all that was sent on a connection.
func ackAll(c *Core, now int64, conn Conn, number uint64) []Effect {
	b := binary.LittleEndian.AppendUint64(nil, uint64(now))
	b = binary.LittleEndian.AppendUint64(append(b, 1), uint64(conn))
	b = binary.LittleEndian.AppendUint64(b, c.SentFrames(conn))
	return c.Step(now, Received{Conn: 1, Data: encodeFrame(Version, kindAck, number, b)})
}

// Registers that were left out for a slow peer are told as soon as it keeps up,
// though nothing changes any more.
func TestASlowPeerIsToldTheLoadItMissed(t *testing.T) {
	l := newLab()
	c := among(t, l, 1, Version)
	ackAll(c, 1_000, 1, 2)
	c.lim.BurstBytes = 500
	now, told := int64(1_000), 0
	for v := range uint64(100) {
		now += 2
		l.own = []crdt.LoadEntry{{Replica: "r#0", Load: crdt.Load{Version: v + 1}}}
		told += len(sends(c.Step(now, LoadChanged{Urgent: true}), "load"))
	}
	if told == 0 || told == 100 {
		t.Fatalf("%d of 100 changes were sent to a peer that acknowledges nothing", told)
	}
	last := uint64(0)
	for _, s := range sends(ackAll(c, now+1, 1, 3), "load") {
		_, payload := Payload(s.Data)
		loads, _, err := crdt.DecodeLoads(payload[9:])
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range loads {
			last = max(last, x.Load.Version)
		}
	}
	if last != 100 {
		t.Errorf("a peer that keeps up again is told version %d, want 100", last)
	}
}

// Of two connections that the other side dialed the later one stays, though the
// earlier one stands here still: the other side knows nothing of it any more.
func TestTheLaterOfTwoAcceptedConnectionsStays(t *testing.T) {
	c := among(t, newLab(), 1, Version)
	p := c.order[0]
	accept := func(id Conn, link Conn) []Effect {
		other := assemble(&base{cfg: Config{Self: p.id, MinVersion: 1, MaxVersion: Version}})
		c.Step(1_500, Connected{Conn: id, Class: Fast})
		return slices.Clone(c.Step(1_500, Received{Conn: id, Data: encodeFrame(1, kindHello, 1, other.helloBody(&conn{id: link, class: Fast}))}))
	}
	hung := func(effects []Effect) (ids []Conn) {
		for _, e := range effects {
			if h, ok := e.(Hangup); ok {
				ids = append(ids, h.Conn)
			}
		}
		return ids
	}
	if got := hung(accept(7, 20)); !slices.Equal(got, []Conn{1}) || p.conns[Fast].id != 7 {
		t.Errorf("a later connection came: %v hung up, %d stands", got, p.conns[Fast].id)
	}
	if got := hung(accept(8, 10)); !slices.Equal(got, []Conn{8}) || p.conns[Fast].id != 7 {
		t.Errorf("an earlier connection came late: %v hung up, %d stands", got, p.conns[Fast].id)
	}
}

// A peer that told of a stream and has nothing of it any more is no donor: who
// joins would wait for it for ever.
func TestADonorThatForgotTheStreamIsNone(t *testing.T) {
	c := among(t, newLab(), 1, Version)
	p := c.order[0]
	c.Step(1_001, Disconnected{Conn: 2}) // it cannot be asked either
	c.repair.need(p, "r#0", donor{ctx: crdt.Context{Epoch: 1, Anchor: 1, Floor: 5}}, true)
	c.Step(1_100, Tick{})
	if c.readiness.lacking() != 1 {
		t.Fatal("nothing is lacking")
	}
	b := binary.AppendUvarint((&base{now: 1_200}).newBody(64), 1) // a summary of one bucket, as empty as ours
	b = append(binary.LittleEndian.AppendUint64(b, 0), 0, 0)
	b = crdt.AppendIntents(crdt.AppendVitals(crdt.AppendScrapes(b, nil), nil), nil)
	c.Step(1_200, Received{Conn: 1, Data: encodeFrame(Version, kindSummary, 2, b)})
	if n := c.Stats().Rejected["payload"]; n != 0 {
		t.Fatal("the tally was rejected")
	}
	if c.readiness.lacking() != 0 {
		t.Error("still waits for what nobody has any more")
	}
}

// An incarnation that the state refused has not arrived: what this peer ingests
// of the one it holds is told to the others.
func TestARefusedIncarnationHoldsBackNothing(t *testing.T) {
	l := newLab()
	l.ctx = crdt.Context{Epoch: 5, Anchor: 1, Floor: 3}
	c := among(t, l, 1, Version)
	l.outcome = crdt.Outcome{Quarantined: true}
	d := crdt.Delta{Stream: "r#0", Epoch: 9, Anchor: 1, Slots: []crdt.Slot{{Seq: 1}}}
	c.Step(1_010, Received{Conn: 2, Data: encodeFrame(Version, kindSlots, 2, c.cursor.slotsBody(&d, 0, 0))})
	if n := c.Stats().Rejected["payload"]; n != 0 {
		t.Fatal("the slots were rejected")
	}
	effects := c.Step(1_020, Ingested{Stream: "r#0", Epoch: 5, Slots: crdt.Spans{{From: 4, To: 4}}, ReceivedAt: 1_020, First: true})
	if len(sends(effects, "slots")) != 1 {
		t.Error("own slots are not told after an incarnation was refused")
	}
}

// asked are the wants among effects: to which peer's fast connection, of which
// stream, in which mode.
func asked(effects []Effect) (out []string) {
	for _, s := range sends(effects, "want") {
		_, payload := Payload(s.Data)
		r := &reader{b: payload[8:]}
		mode, stream := r.u8(), r.stream()
		out = append(out, fmt.Sprintf("%d %s %d", s.Conn, stream, mode))
	}
	return out
}

// until steps a core until there are wants, for ms at most.
func until(c *Core, now, ms int64) (wants []string, at int64) {
	for end := now + ms; now < end; now++ {
		if wants = asked(c.Step(now, Tick{})); len(wants) > 0 {
			return wants, now
		}
	}
	return nil, now
}

func TestADeltaThatBroughtNothingIsFollowedByASnapshot(t *testing.T) {
	l := newLab()
	l.ctx = crdt.Context{Epoch: 1, Anchor: 1, Floor: 3}
	c := among(t, l, 1, Version)
	c.order[0].conns[Bulk].met = true
	c.repair.need(c.order[0], "r#0", donor{ctx: crdt.Context{Epoch: 1, Anchor: 1, Floor: 9}}, true)
	wants, now := until(c, 1_001, 50)
	if !slices.Equal(wants, []string{"1 r#0 0"}) {
		t.Fatalf("asked %v, want a delta", wants)
	}
	c.Step(now+5, Received{Conn: 2, Data: encodeFrame(Version, kindSlots, 2, c.cursor.slotsBody(&crdt.Delta{Stream: "r#0"}, flagAnswer, 0))})
	if wants, _ = until(c, now+6, 2_000); !slices.Equal(wants, []string{"1 r#0 1"}) {
		t.Errorf("after an answer that brought nothing asked %v, want a snapshot", wants)
	}
}

func TestADonorThatDoesNotAnswerIsNotAskedAgain(t *testing.T) {
	l := newLab()
	l.ctx = crdt.Context{Epoch: 1, Anchor: 1, Floor: 3}
	for i := range 8 {
		c := among(t, l, 2, Version)
		id := crdt.StreamID(fmt.Sprintf("r%d#0", i))
		for range i {
			c.cfg.Rand.Uint64() // another draw between equals
		}
		for _, p := range c.order {
			p.conns[Bulk].met = true
			c.repair.need(p, id, donor{ctx: crdt.Context{Epoch: 1, Anchor: 1, Floor: 9}}, true)
		}
		first, now := until(c, 1_001, 50)
		second, _ := until(c, now+1, 8_000)
		if len(first) != 1 || len(second) != 1 || first[0] == second[0] {
			t.Errorf("asked %v, and after no answer %v", first, second)
		}
	}
}

// An answer of an incarnation that was outranked meanwhile says nothing of the
// new one: who has it is asked at once, not half a minute later.
func TestAnAnswerFromBeforeARestartSilencesNobody(t *testing.T) {
	l := newLab()
	l.ctx = crdt.Context{Epoch: 1, Anchor: 1, Floor: 3}
	c := among(t, l, 2, Version)
	for _, p := range c.order {
		p.conns[Bulk].met = true
	}
	old, restarted := c.order[0], c.order[1]
	c.repair.need(old, "r#0", donor{ctx: crdt.Context{Epoch: 1, Anchor: 1, Floor: 9}}, true)
	wants, now := until(c, 1_001, 50)
	if len(wants) != 1 {
		t.Fatalf("asked %v, want one peer", wants)
	}
	l.ctx, l.outcome = crdt.Context{Epoch: 2, Anchor: 1, Floor: 3}, crdt.Outcome{Stale: true}
	c.repair.need(restarted, "r#0", donor{ctx: crdt.Context{Epoch: 2, Anchor: 1, Floor: 9}}, true)
	conn := old.conns[Fast].id
	wants = asked(c.Step(now+5, Received{Conn: conn, Data: encodeFrame(Version, kindSlots, 2, c.cursor.slotsBody(&crdt.Delta{Stream: "r#0", Epoch: 1, Anchor: 1, Slots: []crdt.Slot{{Seq: 4}}}, flagAnswer, 0))}))
	if n := c.Stats().Rejected["payload"]; n != 0 {
		t.Fatal("the answer was rejected")
	}
	if want := []string{fmt.Sprintf("%d r#0 0", restarted.conns[Fast].id)}; !slices.Equal(wants, want) {
		t.Errorf("after an answer of an outranked incarnation asked %v, want the peer that has the new one", wants)
	}
}

// A scrape that was sent on a connection that broke is no more a thing of the
// past than any other: the next connection begins with all of them.
func TestScrapesUnderWayOnABrokenConnectionAreToldAgain(t *testing.T) {
	l := newLab()
	c := among(t, l, 1, Version)
	p := c.order[0]
	l.scrapes = map[crdt.StreamID]crdt.Scrape{"http://scraped#0": {Version: 5}}
	tells := func(effects []Effect) bool {
		return slices.ContainsFunc(sends(effects, "digest"), func(s Send) bool { return bytes.Contains(s.Data, []byte("scraped")) })
	}
	told := false
	for now := int64(1_001); now < 3_100 && !told; now++ {
		told = tells(c.Step(now, Tick{}))
	}
	if !told {
		t.Fatal("a round tells no scrape")
	}
	c.Step(3_100, Disconnected{Conn: 1})
	c.Step(3_110, Connected{Conn: 9, Class: Fast})
	other := assemble(&base{cfg: Config{Self: p.id, MinVersion: 1, MaxVersion: Version}})
	hello := Received{Conn: 9, Data: encodeFrame(1, kindHello, 1, other.helloBody(&conn{id: 9, class: Fast}))}
	if !tells(c.Step(3_120, hello)) {
		t.Error("a new connection does not begin with the scrapes")
	}
}

// Bases of one process that began at different batches, or without the same ones,
// differ rightly: only those of the same batches must be equal.
func TestBasesThatBeganApartAreNoDivergence(t *testing.T) {
	for name, theirs := range map[string]crdt.Context{
		"the same batches":   {Epoch: 1, Anchor: 1, Floor: 9},
		"a later first one":  {Epoch: 1, Anchor: 3, Floor: 9},
		"one is missing":     {Epoch: 1, Anchor: 1, Floor: 9, Voids: []crdt.Span{{From: 4, To: 4}}},
		"of another process": {Epoch: 2, Anchor: 1, Floor: 9},
	} {
		l := newLab()
		c := among(t, l, 1, Version)
		l.ctx = crdt.Context{Epoch: 1, Anchor: 1, Floor: 9}
		c.digests.compare(c.order[0], "r#0", &crdt.Digest{Context: theirs, Base: crdt.Sum{Count: 5}})
		if got, want := c.stats.Divergences, name == "the same batches"; (got == 1) != want || got > 1 {
			t.Errorf("%s: %d divergences", name, got)
		}
	}
}
