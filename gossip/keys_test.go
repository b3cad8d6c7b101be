package gossip

import (
	"reflect"
	"testing"

	"github.com/banyan-llm/banyan/crdt"
)

// keyed is a watcher with one stream that knows hints.
type keyed struct {
	watcher
	digest crdt.Digest
	hints  []crdt.Hint
	got    []crdt.Hint
}

func (k *keyed) Streams(dst []crdt.StreamID) []crdt.StreamID    { return append(dst, "r#0") }
func (k *keyed) Digest(crdt.StreamID) (crdt.Digest, bool)       { return k.digest, true }
func (k *keyed) Hints(crdt.StreamID, uint64) []crdt.Hint        { return k.hints }
func (k *keyed) JoinScrapes(map[crdt.StreamID]crdt.Scrape)      {}
func (k *keyed) JoinVitals(map[crdt.PeerID]crdt.Vitals)         {}
func (k *keyed) JoinIntents(map[crdt.StreamID]crdt.Intent) bool { return false }
func (k *keyed) Apply(d *crdt.Delta, _ int64) (out crdt.Outcome) {
	k.got = append(k.got, d.Hints...)
	return out
}

// TestUnequalKeysAreTold lets two peers with equal facts compare digests: the
// one that linked more tells its hints, and only that one, and the other
// applies them.
func TestUnequalKeysAreTold(t *testing.T) {
	ctx := crdt.Context{Epoch: 5, Anchor: 1, Floor: 9}
	hints := []crdt.Hint{{Handle: 1, Key: 2}}
	more := &keyed{digest: crdt.Digest{Context: ctx, Base: crdt.Sum{Count: 3, Facts: 7, Linked: 3, KeyXOR: 1}}, hints: hints}
	less := &keyed{digest: crdt.Digest{Context: ctx, Base: crdt.Sum{Count: 3, Facts: 7, Linked: 1, KeyXOR: 8}}, hints: hints}
	same := &keyed{digest: more.digest, hints: hints}
	for _, x := range []struct {
		name     string
		at, from *keyed
		want     int
	}{{"links more", more, less, 1}, {"links less", less, more, 0}, {"links the same", more, same, 0}} {
		c, sender := keyedCore(t, x.at), keyedCore(t, x.from)
		var sent [][]byte
		payload := sender.digests.appendTables(sender.digests.digestPage(digestLast, []crdt.StreamID{"r#0"}))
		for _, e := range c.Step(1_001, Received{Conn: 1, Data: encodeFrame(1, kindDigest, 2, payload)}) {
			if s, ok := e.(Send); ok && s.Kind == "slots" {
				sent = append(sent, s.Data)
			}
		}
		if len(sent) != x.want || c.Stats().KeyMismatches != uint64(1) && x.from != same {
			t.Fatalf("who %s sent %d frames, %+v", x.name, len(sent), c.Stats().Rejected)
		}
		for _, data := range sent {
			f, err := decodeFrame(data)
			if err != nil {
				t.Fatal(err)
			}
			sender.Step(1_002, Received{Conn: 2, Data: encodeFrame(1, kindSlots, 2, f.payload)})
			if !reflect.DeepEqual(x.from.got, hints) {
				t.Errorf("applied %v", x.from.got)
			}
		}
	}
}

func keyedCore(t *testing.T, k *keyed) *Core {
	t.Helper()
	c := lone(t, &k.watcher)
	c.state = k
	return c
}

// TestUnequalKeysDifferInTheTally: keys alone make a bucket differ, and equal
// streams make no bucket differ, whatever the time of the last slot.
func TestUnequalKeysDifferInTheTally(t *testing.T) {
	base := crdt.Digest{Context: crdt.Context{Epoch: 5, Anchor: 1, Floor: 9, LastTS: 3}, Base: crdt.Sum{Count: 3, Facts: 7, Linked: 3, KeyXOR: 1}}
	summary := func(change func(*crdt.Digest)) uint64 {
		k := &keyed{digest: base}
		change(&k.digest)
		return keyedCore(t, k).summaries.summariseStreams(1).sums[0]
	}
	want := summary(func(*crdt.Digest) {})
	if summary(func(d *crdt.Digest) { d.Context.LastTS = 4 }) != want {
		t.Error("the time of the last slot counts")
	}
	for name, change := range map[string]func(*crdt.Digest){
		"linked": func(d *crdt.Digest) { d.Base.Linked = 2 },
		"keys":   func(d *crdt.Digest) { d.Base.KeyXOR = 2 },
		"facts":  func(d *crdt.Digest) { d.Base.Facts = 2 },
		"count":  func(d *crdt.Digest) { d.Base.Count = 2 },
		"floor":  func(d *crdt.Digest) { d.Context.Floor = 10 },
		"anchor": func(d *crdt.Digest) { d.Context.Anchor = 2 },
		"epoch":  func(d *crdt.Digest) { d.Context.Epoch = 6 },
		"voids":  func(d *crdt.Digest) { d.Context.Voids = []crdt.Span{{From: 2, To: 2}} },
		"above":  func(d *crdt.Digest) { d.Context.Above = []crdt.Span{{From: 12, To: 12}} },
		"lost":   func(d *crdt.Digest) { d.Context.Lost = []crdt.Span{{From: 11, To: 11}} },
	} {
		if summary(change) == want {
			t.Errorf("%s do not count", name)
		}
	}
}

// Keys frames are bounded and checked before they are believed.
func TestKeysFramesBeyondBoundsAreRejected(t *testing.T) {
	frame := func(mode byte, n uint32, rest int) []byte {
		c := keyedCore(t, &keyed{})
		b := c.keys.keysBody(mode, "r#0", 5, 0)
		return append(putU32(b[:len(b)-4], n), make([]byte, rest)...)
	}
	for name, x := range map[string]struct {
		payload  []byte
		rejected uint64
	}{
		"a question":                 {frame(keysAsk, 2, 16), 0},
		"a question without facts":   {frame(keysAsk, 0, 0), 0},
		"a question too short":       {frame(keysAsk, 2, 15), 1},
		"a question too long":        {frame(keysAsk, maxAskedKeys+1, 8*maxAskedKeys+8), 1},
		"an answer":                  {frame(keysTell, 2, 34), 0},
		"an answer too short":        {frame(keysTell, 2, 33), 1},
		"an answer too long":         {frame(keysTell, maxAskedKeys+1, 17*maxAskedKeys+17), 1},
		"an answer of a later kind":  {frame(2, 0, 0), 1},
		"an answer with more behind": {frame(keysTell, 1, 99), 0},
	} {
		c := keyedCore(t, &keyed{})
		c.Step(1_001, Received{Conn: 2, Data: encodeFrame(1, kindKeys, 2, x.payload)})
		if got := c.Stats().Rejected["payload"]; got != x.rejected {
			t.Errorf("%s: rejected %d times, want %d", name, got, x.rejected)
		}
	}
}
