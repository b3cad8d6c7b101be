package kvevents

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/banyan-llm/banyan/router/kvevents/zmtp"
)

// Engines of one URL name themselves alike: the batch says whose it is.
func TestHubTellsRanksApart(t *testing.T) {
	h, err := ListenHub("tcp://127.0.0.1:*", quickZMTP)
	if err != nil {
		t.Fatal(err)
	}
	sinks := [2]*recordSink{newRecordSink(), newRecordSink()}
	for rank, sink := range sinks {
		s, err := NewSubscriber(Config{Stream: "s", Grid: 16, Hasher: testHasher, Sink: sink})
		if err != nil {
			t.Fatal(err)
		}
		h.Register("h", rank, s)
		runUntilEnd(t, s.Run)
	}
	runUntilEnd(t, h.Run)
	send := func(rank, seq uint64) {
		pub, err := zmtp.DialPub("tcp://"+h.Addr().String(), quickZMTP)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = pub.Close() })
		waitFor(t, func() string { return fmt.Sprint(pub.Subscribers()) }, "1")
		p := new(pack).array(3).float(3).array(1)
		run{first: 1 + seq, blocks: 1, size: 16}.appendTo(p)
		pub.Send([]byte("kv@h@m"), binary.BigEndian.AppendUint64(nil, seq), p.num(rank).b)
	}
	send(0, 0)
	send(1, 4)
	send(2, 8)
	waitFor(t, func() string { return sinks[0].have(3000) }, "1")
	waitFor(t, func() string { return sinks[1].have(3000) }, "5")
	waitFor(t, func() string { return fmt.Sprint(h.Unknown()) }, "1")
	h.Unregister("h", 0)
	send(0, 5) // an only stream takes whatever number its engine has
	waitFor(t, func() string { return sinks[1].have(3000) }, "5-6")
}

func TestRankOfABatch(t *testing.T) {
	for want, payload := range map[int][]byte{
		3:  new(pack).array(3).float(1).array(0).num(3).b,
		-1: new(pack).array(3).float(1).array(0).null().b,
		7:  new(pack).array(4).null().array(2).str("x").array(1).num(1).num(7).num(8).b,
	} {
		if got := rankOf(payload); got != want {
			t.Errorf("%x is of rank %d, want %d", payload, got, want)
		}
	}
	for _, bad := range [][]byte{nil, {0x93}, {0xdd, 0xff, 0xff, 0xff, 0xff}, new(pack).array(2).float(1).array(0).b, new(pack).array(3).null().null().num(1 << 40).b} {
		if got := rankOf(bad); got != -1 {
			t.Errorf("%x is of rank %d", bad, got)
		}
	}
}
