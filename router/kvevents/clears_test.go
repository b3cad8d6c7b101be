package kvevents

import (
	"fmt"
	"testing"
	"time"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/router/index"
)

// indexSink folds what it records, as a peer does.
type indexSink struct {
	*recordSink
	index *index.Index
}

func (s indexSink) Deliver(d Delivery) {
	s.index.Apply(&crdt.Delta{Stream: d.Stream, Epoch: d.Epoch, Anchor: d.Anchor, Slots: d.Slots}, 1000)
	s.recordSink.Deliver(d)
}

// TestInteropClears has an engine publish clears by the ten thousand in a
// batch, as one that resets its cache in a loop does, and listens twice: live
// and, after a start, out of the replay.
func TestInteropClears(t *testing.T) {
	e := startLibEngine(t, "bind", "tcp://127.0.0.1:*", "tcp://127.0.0.1:*", "5", 1000)
	e.do("emit", 20)
	const clears, last = 65_536, 24
	for range 4 {
		e.do("clears", clears)
	}
	for _, how := range []string{"a first start", "another start"} {
		x := index.New(index.Config{Hasher: testHasher, RingBytes: 1 << 20})
		sink := indexSink{newRecordSink(), x}
		s, err := NewSubscriber(Config{
			Stream: "s", Events: e.Events, Replay: e.Replay, Topic: "kv@",
			Grid: 16, Hasher: testHasher, Sink: sink, ZMTP: quickZMTP,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Run(how, func(t *testing.T) {
			t.Cleanup(x.Close)
			runUntilEnd(t, s.Run)
			emitUntilSeen(t, e, sink.recordSink, 1_000_000, last+1)
			waitFor(t, func() string { return fmt.Sprint(len(x.Holes("s"))) }, "0")
			before, _ := x.Digest("s")
			e.do("clears", clears)
			e.do("emit", 3)
			waitFor(t, func() string {
				d, _ := x.Digest("s")
				return fmt.Sprint(d.Context.Floor >= before.Context.Floor+4, d.Base.Count)
			}, "true 3")
			for x.Maintain(time.Now().UnixMilli(), 4096) {
			}
			if st := x.Stats(); st.Holders != 1 || s.Status().Counters.Undecodable != 0 {
				t.Errorf("%d holders, status %+v", st.Holders, s.Status())
			}
		})
	}
}

// TestAPageLongerThanTheTreeTakes comes of hybrid models, whose attention pages
// are as large as their recurrent state: 528 tokens and more.
func TestAPageLongerThanTheTreeTakes(t *testing.T) {
	p, err := NewPacker(PackConfig{Engine: VLLM, Grid: 16, Hasher: testHasher})
	if err != nil {
		t.Fatal(err)
	}
	for size, fits := range map[int]int{16 * crdt.MaxPerPage: 1, 528: 0} {
		e := Event{Type: Stored, BlockSize: size, Hashes: []uint64{1}, Tokens: make([]uint32, size)}
		s, count, err := p.Pack(1, &Batch{Events: []Event{e}})
		if err != nil || s.Validate() != nil || count.Fits != fits || count.Fits+count.Misfits != 1 {
			t.Errorf("%d tokens: %+v, %v, %v", size, count, err, s.Validate())
		}
	}
}
