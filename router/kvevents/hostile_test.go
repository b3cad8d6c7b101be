package kvevents

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/banyan-llm/banyan/router/kvevents/zmtp"
)

// bombs are payloads that claim or nest more than a decoder should follow.
func bombs() map[string][]byte {
	batch := func(events ...byte) []byte { return append(new(pack).array(3).float(1).array(1).b, events...) }
	out := map[string][]byte{
		"an array of 4 G":            {0xdd, 0xff, 0xff, 0xff, 0xff},
		"a map of 4 G":               {0xdf, 0xff, 0xff, 0xff, 0xff},
		"4 G events":                 append(new(pack).array(3).float(1).b, 0xdd, 0xff, 0xff, 0xff, 0xff),
		"a string of 4 G":            batch(0x91, 0xdb, 0xff, 0xff, 0xff, 0xff),
		"bytes of 4 G":               batch(0x92, 0xab, 'B', 'l', 'o', 'c', 'k', 'S', 't', 'o', 'r', 'e', 'd', 0x91, 0xc6, 0xff, 0xff, 0xff, 0xff),
		"an extension of 4 G":        batch(0xc9, 0xff, 0xff, 0xff, 0xff, 1),
		"nested arrays":              bytes.Repeat([]byte{0x91}, 1<<20),
		"nested maps":                bytes.Repeat([]byte{0x81, 0x01}, 1<<20),
		"arrays nested in an event":  batch(bytes.Repeat([]byte{0x91}, 1<<20)...),
		"maps nested in a field":     batch(append(new(pack).mapping(1).str("session").b, bytes.Repeat([]byte{0x81, 0xc0}, 1<<20)...)...),
		"events that are no events":  append(new(pack).array(3).float(1).array(math.MaxUint16).b, bytes.Repeat([]byte{0xc1}, math.MaxUint16)...),
		"a time of not a number":     new(pack).array(3).float(math.NaN()).array(0).null().b,
		"a time of endless seconds":  new(pack).array(3).float(math.Inf(1)).array(0).null().b,
		"a rank below zero":          append(new(pack).array(3).float(1).array(0).b, 0xff),
		"nothing":                    {},
		"a batch cut in its middle":  encodeRuns(1, run{first: 1, blocks: 4, size: 16})[:60],
		"hashes nested, tokens long": append(new(pack).array(3).float(1).array(1).mapping(2).str("type").str("BlockStored").str("block_hashes").b, bytes.Repeat([]byte{0x91}, 1<<16)...),
	}
	return out
}

// I2: what a payload claims costs nothing; the message is refused.
func TestBombsAreRefusedCheaply(t *testing.T) {
	for name, payload := range bombs() {
		var d Decoder
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		b, err := d.Decode(payload)
		runtime.ReadMemStats(&after)
		if err == nil {
			t.Errorf("%s: accepted as %+v", name, b)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > 256<<10 {
			t.Errorf("%s: %d bytes were allocated for %d", name, used, len(payload))
		}
		if rank := rankOf(payload); rank < -1 || rank > maxRank {
			t.Errorf("%s: of rank %d", name, rank)
		}
		// The decoder is as good as new.
		if b, err := d.Decode(encodeRuns(1, run{first: 1, blocks: 1, size: 16})); err != nil || len(b.Events) != 1 {
			t.Errorf("after %s: %+v, %v", name, b, err)
		}
	}
}

func TestJSONBombsAreRefused(t *testing.T) {
	deep := strings.Repeat("[", 1<<20)
	for name, body := range map[string]string{
		"nested arrays":      deep,
		"nested in an event": `[{"event_id":1,"window_size":1,"data":` + deep,
		"nested and closed":  `[{"event_id":1,"data":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}]`,
		"an object":          `{"event_id":1}`,
		"a web page":         "<html><body>502</body></html>",
		"not text":           "\xff\xfe\x00",
		"too many elements":  "[" + strings.Repeat("{},", maxTRTEvents) + "{}]",
	} {
		if events, _, err := DecodeTRT([]byte(body)); err == nil {
			t.Errorf("%s: %d events", name, len(events))
		}
		var d Decoder
		if _, err := d.DecodeHTTP([]byte(body), "application/json"); err == nil {
			t.Errorf("%s: taken over HTTP", name)
		}
	}
	events, nameless, err := DecodeTRT([]byte(`[{"event_id":-1},{"event_id":1e30},{"data":{}},{"event_id":4,"attention_dp_rank":-3},{"event_id":5,"data":{"type":"stored","blocks":[{"block_hash":"zz"}]}}]`))
	if err == nil && (len(events) != 1 || events[0].Batch.Dropped != 1 || nameless == 0) {
		t.Errorf("%+v, %d without an id", events, nameless)
	}
}

// A topic is bytes to us: one that is no text names no stream, or is passed
// over where every topic is taken.
func TestTopicsThatAreNoText(t *testing.T) {
	for _, topic := range []string{"\xff\xfe\xfd", "kv@\xc3\x28@m", "kv@@", "@@@@", "kv@", strings.Repeat("\x80", 1<<16), "\x00"} {
		_ = TopicHost(topic)
		f, err := ParseLive([][]byte{[]byte(topic), binary.BigEndian.AppendUint64(nil, 4), {0x90}})
		if err != nil || f.Seq != 4 || string(f.Topic) != topic {
			t.Errorf("%.20q: %+v, %v", topic, f, err)
		}
	}
	h, err := ListenHub("tcp://127.0.0.1:*", quickZMTP)
	if err != nil {
		t.Fatal(err)
	}
	sink := newRecordSink()
	s, err := NewSubscriber(Config{Stream: "s", Grid: 16, Hasher: testHasher, Sink: sink})
	if err != nil {
		t.Fatal(err)
	}
	h.Register("\xff\xfe", 0, s)
	h.Register("h", 0, s)
	runUntilEnd(t, h.Run)
	runUntilEnd(t, s.Run)
	pub, err := zmtp.DialPub("tcp://"+h.Addr().String(), quickZMTP)
	if err != nil {
		t.Fatal(err)
	}
	defer pub.Close()
	waitFor(t, func() string { return fmt.Sprint(pub.Subscribers()) }, "1")
	for i, topic := range []string{"kv@\xc3\x28@m", "\x00\xff", "kv@h@\xff\xff"} {
		pub.Send([]byte(topic), binary.BigEndian.AppendUint64(nil, uint64(i)), encodeRuns(1+float64(i), run{first: 1, blocks: 1, size: 16}))
	}
	waitFor(t, func() string { return sink.have(1000) + sink.have(3000) }, "3")
	if n := h.Unknown(); n != 2 {
		t.Errorf("%d messages of unknown topics, want 2", n)
	}
}

// A publisher that lies about its numbers costs its own stream, for a while:
// nothing ends, nothing grows, what was heard before is ignored and counted, and
// after 16 such batches the connection is given up. Then the truth is heard again.
func TestSubscriberOutlivesAPublisherThatLies(t *testing.T) {
	e := startEngine(t, true)
	sink := newRecordSink()
	s := followEngine(t, e, sink, true)
	e.ready(t)
	e.emit(true)
	waitFor(t, func() string { return sink.have(1_000_000) }, "1")
	send := func(seq uint64, ts float64) {
		e.pub.Send([]byte("kv@"), binary.BigEndian.AppendUint64(nil, seq), encodeRuns(ts, run{first: 100 + seq, blocks: 1, size: 16}))
	}
	send(math.MaxUint64, 2000) // the replay's end marker
	send(1<<63, 2000)
	send(maxSeq+1, 2000)
	waitFor(t, func() string { return fmt.Sprint(s.Status().Counters.BadMessages) }, "3")
	send(1<<35, 2001)           // a hole of half a lifetime
	send(7, 1)                  // far behind, of another time
	send(1<<35, 2001)           // twice the same
	for i := range uint64(14) { // back to the start, again and again
		send(0, float64(3000+i))
	}
	waitFor(t, func() string { return fmt.Sprint(s.Status().Tracker.HangUps) }, "1")
	if st := s.Status().Tracker; st.Backward != 16 || st.Restarts != 0 {
		t.Errorf("%+v", st)
	}
	waitFor(t, func() string { return s.Status().State }, "following")
	waitFor(t, func() string { // PUB drops what comes before the subscription
		e.emit(true)
		return fmt.Sprint(s.Status().Tracker.Delivered > 3)
	}, "true")
}
