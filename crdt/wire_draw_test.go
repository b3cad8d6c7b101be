package crdt_test

import (
	"strings"

	"pgregory.net/rapid"

	"github.com/banyan-llm/banyan/crdt"
)

func drawSpans(t *rapid.T, from uint64) (out []crdt.Span) {
	for range rapid.IntRange(0, 4).Draw(t, "spans") {
		from += rapid.Uint64Range(1, 5).Draw(t, "gap")
		to := from + rapid.Uint64Range(0, 5).Draw(t, "len")
		out = append(out, crdt.Span{From: from, To: to})
		from = to + 1
	}
	return out
}

func drawSlots(t *rapid.T) []crdt.Slot {
	l := drawLog(t, rapid.Uint64Range(0, 9).Draw(t, "epoch"), rapid.IntRange(0, 4).Draw(t, "n"), true)
	return l.slots
}

func drawContext(t *rapid.T) crdt.Context {
	c := crdt.Context{Epoch: rapid.Uint64Range(0, 9).Draw(t, "epoch"), LastTS: rapid.Int64().Draw(t, "ts")}
	if c.Epoch == 0 {
		return c
	}
	c.Anchor = rapid.Uint64Range(1, 5).Draw(t, "anchor")
	c.Voids = drawSpans(t, c.Anchor)
	c.Floor = c.Anchor - 1
	if n := len(c.Voids); n > 0 {
		c.Floor = c.Voids[n-1].To + rapid.Uint64Range(0, 3).Draw(t, "floor")
	}
	for i, s := range drawSpans(t, c.Floor+1) {
		if i%2 == 0 {
			c.Above = append(c.Above, s)
		} else {
			c.Lost = append(c.Lost, s)
		}
	}
	return c
}

func drawSum(t *rapid.T) crdt.Sum {
	return crdt.Sum{
		Count: rapid.Uint64().Draw(t, "count"), Facts: rapid.Uint64().Draw(t, "facts"),
		Linked: rapid.Uint64().Draw(t, "linked"), KeyXOR: rapid.Uint64().Draw(t, "keys"),
	}
}

func drawDelta(t *rapid.T) crdt.Delta {
	d := crdt.Delta{
		Stream: streamID, Epoch: rapid.Uint64().Draw(t, "epoch"), Anchor: rapid.Uint64Range(0, 9).Draw(t, "anchor"),
		Slots: drawSlots(t), Lost: drawSpans(t, 1),
	}
	for range rapid.IntRange(0, 2).Draw(t, "hints") {
		d.Hints = append(d.Hints, crdt.Hint{Handle: rapid.Uint64().Draw(t, "handle"), Key: rapid.Uint64().Draw(t, "key")})
	}
	return d
}

func drawRows(t *rapid.T) crdt.Rows {
	var r crdt.Rows
	for range rapid.IntRange(0, 4).Draw(t, "runs") {
		h := crdt.RunHead{
			Pages: rapid.IntRange(1, 5).Draw(t, "pages"), PerPage: rapid.IntRange(0, 3).Draw(t, "perPage"),
			Space: rapid.Uint64().Draw(t, "space"), Parent: rapid.Uint64().Draw(t, "parent"),
		}
		if h.PerPage > 0 && rapid.IntRange(0, 3).Draw(t, "small") == 0 {
			h.Small = 2*h.PerPage - rapid.IntRange(0, 1).Draw(t, "odd")
		}
		h.Linked = h.PerPage > 0 && rapid.Bool().Draw(t, "linked")
		r.Runs = append(r.Runs, h)
		for range h.Pages {
			r.Handle = append(r.Handle, rapid.Uint64().Draw(t, "handle"))
			r.Meta = append(r.Meta, crdt.Meta(rapid.Uint64().Draw(t, "meta")))
		}
		for range h.Pages * h.PerPage {
			r.Value = append(r.Value, rapid.Uint64().Draw(t, "value"))
		}
	}
	return r
}

func drawSnapshot(t *rapid.T) crdt.Snapshot {
	return crdt.Snapshot{Stream: streamID, Context: drawContext(t), Base: drawSum(t), Above: drawSlots(t)}
}

func drawID(t *rapid.T) crdt.StreamID {
	return crdt.StreamID(rapid.SampledFrom([]string{"", "http://a#0", "http://b#7", strings.Repeat("x", 300)}).Draw(t, "id"))
}

func drawPeerID(t *rapid.T) (p crdt.PeerID) {
	copy(p[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "peer"))
	return p
}

func drawLoadEntries(t *rapid.T) (out []crdt.LoadEntry) {
	for range rapid.IntRange(0, 4).Draw(t, "n") {
		out = append(out, crdt.LoadEntry{Replica: drawID(t), Load: drawLoad(t)})
	}
	return out
}

func drawScrapes(t *rapid.T) map[crdt.StreamID]crdt.Scrape {
	out := map[crdt.StreamID]crdt.Scrape{}
	for range rapid.IntRange(0, 3).Draw(t, "n") {
		out[drawID(t)] = crdt.Scrape{
			Version: rapid.Uint64().Draw(t, "v"), Running: rapid.Int32().Draw(t, "r"), Waiting: rapid.Int32().Draw(t, "w"),
			KVUse: rapid.Float32Range(0, 1).Draw(t, "kv"), Capacity: rapid.Int64().Draw(t, "c"),
		}
	}
	return out
}

func drawVitals(t *rapid.T) map[crdt.PeerID]crdt.Vitals {
	out := map[crdt.PeerID]crdt.Vitals{}
	for range rapid.IntRange(0, 3).Draw(t, "n") {
		v := crdt.Vitals{
			Version: rapid.Uint64().Draw(t, "v"), Name: "n", HTTP: rapid.String().Draw(t, "http"), Build: "b",
			Rate: rapid.Float64Range(0, 1e6).Draw(t, "rate"), P99: rapid.Float64Range(0, 1e6).Draw(t, "p99"),
			Facts: rapid.Uint64().Draw(t, "facts"), Memory: rapid.Uint64().Draw(t, "memory"), Ready: rapid.Bool().Draw(t, "ready"), Draining: true,
		}
		for range rapid.IntRange(0, 2).Draw(t, "ages") {
			if v.Ages == nil {
				v.Ages = map[crdt.PeerID]int64{}
			}
			v.Ages[drawPeerID(t)] = rapid.Int64().Draw(t, "age")
		}
		out[drawPeerID(t)] = v
	}
	return out
}

func drawIntents(t *rapid.T) map[crdt.StreamID]crdt.Intent {
	out := map[crdt.StreamID]crdt.Intent{}
	for range rapid.IntRange(0, 3).Draw(t, "n") {
		out[drawID(t)] = crdt.Intent{
			Time: rapid.Int64().Draw(t, "time"), Peer: drawPeerID(t), Drain: rapid.Bool().Draw(t, "drain"), Weight: rapid.Float64Range(0, 9).Draw(t, "weight"),
		}
	}
	return out
}

func drawPredictions(t *rapid.T) (out []crdt.Prediction) {
	for range rapid.IntRange(0, 3).Draw(t, "n") {
		p := drawPrediction(t, 100_000)
		p.Space.Replica = drawID(t)
		out = append(out, p)
	}
	return out
}

func drawSums(t *rapid.T) (out []crdt.PredictionSum) {
	for range rapid.IntRange(0, 3).Draw(t, "n") {
		out = append(out, crdt.PredictionSum{
			Space:  crdt.PredictionSpace{Replica: drawID(t), Root: rapid.Uint64().Draw(t, "root")},
			Bucket: rapid.Int64().Draw(t, "bucket"), XOR: rapid.Uint64().Draw(t, "xor"), Count: rapid.Uint32().Draw(t, "count"),
		})
	}
	return out
}

// packed is what AppendPacked takes.
type packed struct {
	slots []crdt.Slot
	lost  []crdt.Span
}

const packedNow = 1_700_000_000_000_000

func drawPacked(t *rapid.T) packed { return packed{drawSlots(t), drawSpans(t, 1)} }

func decodePacked(b []byte) (p packed, rest []byte, err error) {
	p.slots, p.lost, rest, err = crdt.DecodePacked(b, packedNow)
	return p, rest, err
}
