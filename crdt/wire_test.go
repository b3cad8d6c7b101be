package crdt_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/banyan-llm/banyan/crdt"
)

var rewrite = flag.Bool("rewrite", false, "write golden files")

// codec is one pair of functions of the wire, made uniform.
type codec struct {
	name   string
	draw   func(*rapid.T) any
	append func([]byte, any) []byte
	decode func([]byte) (any, []byte, error)
}

// of makes a codec of a typed pair.
func of[T any](name string, draw func(*rapid.T) T, app func([]byte, T) []byte, dec func([]byte) (T, []byte, error)) codec {
	return codec{
		name: name,
		draw: func(t *rapid.T) any { return draw(t) },
		append: func(b []byte, v any) []byte {
			return app(b, v.(T))
		},
		decode: func(b []byte) (any, []byte, error) { return dec(b) },
	}
}

// byPointer adapts an Append function that takes a pointer.
func byPointer[T any](f func([]byte, *T) []byte) func([]byte, T) []byte {
	return func(b []byte, v T) []byte { return f(b, &v) }
}

func codecs() []codec {
	return []codec{
		of("spans", func(t *rapid.T) []crdt.Span { return drawSpans(t, 1) }, crdt.AppendSpans, crdt.DecodeSpans),
		of("slots", drawSlots, crdt.AppendSlots, func(b []byte) ([]crdt.Slot, []byte, error) { return crdt.DecodeSlots(b, 0) }),
		of("context", drawContext, byPointer(crdt.AppendContext), crdt.DecodeContext),
		of("digest", func(t *rapid.T) crdt.Digest { return crdt.Digest{Context: drawContext(t), Base: drawSum(t)} }, byPointer(crdt.AppendDigest), crdt.DecodeDigest),
		of("delta", drawDelta, byPointer(crdt.AppendDelta), crdt.DecodeDelta),
		of("packed", drawPacked, func(b []byte, p packed) []byte { return crdt.AppendPacked(b, p.slots, p.lost, packedNow) }, decodePacked),
		of("packed_digest", func(t *rapid.T) crdt.Digest { return crdt.Digest{Context: drawContext(t), Base: drawSum(t)} },
			func(b []byte, d crdt.Digest) []byte { return crdt.AppendPackedDigest(b, &d, packedNow) },
			func(b []byte) (crdt.Digest, []byte, error) { return crdt.DecodePackedDigest(b, packedNow) }),
		of("rows", drawRows, byPointer(crdt.AppendRows), crdt.DecodeRows),
		of("snapshot", drawSnapshot, byPointer(crdt.AppendSnapshot), crdt.DecodeSnapshot),
		of("loads", drawLoadEntries, crdt.AppendLoads, crdt.DecodeLoads),
		of("scrapes", drawScrapes, crdt.AppendScrapes, crdt.DecodeScrapes),
		of("vitals", drawVitals, crdt.AppendVitals, crdt.DecodeVitals),
		of("intents", drawIntents, crdt.AppendIntents, crdt.DecodeIntents),
		of("predictions", drawPredictions, crdt.AppendPredictions, crdt.DecodePredictions),
		of("sums", drawSums, crdt.AppendPredictionSums, crdt.DecodePredictionSums),
	}
}

// TestCodec round-trips every column, leaves what follows alone, gives one
// encoding per value, and refuses every truncation.
func TestCodec(t *testing.T) {
	for _, c := range codecs() {
		t.Run(c.name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				v := c.draw(t)
				b := c.append(nil, v)
				back, rest, err := c.decode(append(slices.Clone(b), 0xee))
				if err != nil || !bytes.Equal(rest, []byte{0xee}) {
					t.Fatalf("%+v: rest %x, %v", v, rest, err)
				}
				if !reflect.DeepEqual(back, v) {
					t.Fatalf("came back as %+v, was %+v", back, v)
				}
				if again := c.append([]byte{1}, back); !bytes.Equal(again[1:], b) {
					t.Fatalf("two encodings of %+v", v)
				}
				cut := rapid.IntRange(0, len(b)-1).Draw(t, "cut")
				if _, _, err := c.decode(b[:cut]); !errors.Is(err, crdt.ErrCorrupt) {
					t.Fatalf("%d of %d bytes: error %v", cut, len(b), err)
				}
			})
		})
	}
}

// TestDecodedIsACopy holds that nothing decoded changes with the buffer.
func TestDecodedIsACopy(t *testing.T) {
	for _, c := range codecs() {
		rapid.Check(t, func(t *rapid.T) {
			v := c.draw(t)
			b := c.append(nil, v)
			back, _, err := c.decode(b)
			for i := range b {
				b[i] = 0xff
			}
			if err != nil || !reflect.DeepEqual(back, v) {
				t.Fatalf("%s aliases its buffer: %+v, was %+v", c.name, back, v)
			}
		})
	}
}

// TestGolden pins the bytes of every column.
func TestGolden(t *testing.T) {
	for _, c := range codecs() {
		v := rapid.Custom(c.draw).Example(7)
		got := hex.EncodeToString(c.append(nil, v)) + "\n"
		file := filepath.Join("testdata", "golden", c.name+".hex")
		if *rewrite {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := hex.DecodeString(strings.TrimSpace(string(want)))
		if err != nil {
			t.Fatal(err)
		}
		back, rest, err := c.decode(raw)
		if err != nil || len(rest) > 0 {
			t.Fatalf("%s: %v", c.name, err)
		}
		if again := hex.EncodeToString(c.append(nil, back)) + "\n"; again != string(want) {
			t.Errorf("%s: encoded as\n%swant\n%s", c.name, again, want)
		}
	}
}

// TestHashesArePinned pins what peers of one mesh must agree on.
func TestHashesArePinned(t *testing.T) {
	s := crdt.Slot{Seq: 3, TS: 4, Body: []byte("seventeen bytes!!")}
	for name, c := range map[string][2]uint64{
		"fact": {crdt.FactHash(1, 2, 3), wantFactHash}, "key": {crdt.KeyHash(1, 2), wantKeyHash}, "slot": {s.Hash(), wantSlotHash},
	} {
		if c[0] != c[1] {
			t.Errorf("%s hash is %#x, want %#x", name, c[0], c[1])
		}
	}
	for _, other := range []crdt.Slot{{Seq: 2, TS: 4, Body: s.Body}, {Seq: 3, TS: 5, Body: s.Body}, {Seq: 3, TS: 4, Body: append(slices.Clone(s.Body), 0)}, {Seq: 3, TS: 4, Body: s.Body[:16]}} {
		if other.Hash() == s.Hash() {
			t.Errorf("slot hash does not see %+v", other)
		}
	}
}

const (
	wantFactHash = 0xf7b248e22c286c06
	wantKeyHash  = 0xc2740323a1f61b84
	wantSlotHash = 0x437ffacbcdfd9d6c
)

// TestWireCost holds the bytes a block costs in batches of 16.
func TestWireCost(t *testing.T) {
	col := make([]uint64, 16)
	for i := range col {
		col[i] = uint64(i) + 1
	}
	var slots, gone []crdt.Slot
	var b crdt.Builder
	for seq := uint64(1); seq <= 8; seq++ {
		b.Reset()
		b.Store(crdt.Op{Main: true, PerPage: 1, HasParent: true, Parent: 99}, col, col)
		s, _ := b.Slot(seq, 1)
		slots = append(slots, s)
		b.Reset()
		for i := range col { // an engine says one removal a block
			b.Remove(crdt.Op{Main: true}, col[i:i+1])
		}
		s, _ = b.Slot(seq, 1)
		gone = append(gone, s)
	}
	size := func(s []crdt.Slot) float64 {
		return float64(len(crdt.AppendDelta(nil, &crdt.Delta{Stream: streamID, Slots: s}))) / float64(16*len(s))
	}
	if got := size(slots); got > 20 {
		t.Errorf("%.1f bytes a stored block", got)
	}
	if got := size(gone); got > 12 {
		t.Errorf("%.1f bytes a removed block", got)
	}
	t.Logf("%.2f bytes a stored block, %.2f a removed one", size(slots), size(gone))
}

// TestBuilderJoinsRuns holds that a run told page by page is one op, and one
// that repeats a handle is not.
func TestBuilderJoinsRuns(t *testing.T) {
	var whole, parts crdt.Builder
	op := crdt.Op{Main: true, PerPage: 2, Root: 5, Mode: crdt.Flagged, Group: 2}
	whole.Store(op, []uint64{1, 2, 3}, []uint64{10, 11, 20, 21, 30, 31})
	parts.Store(op, []uint64{1}, []uint64{10, 11})
	op.HasParent, op.Parent, op.Root = true, 1, 0
	parts.Store(op, []uint64{2}, []uint64{20, 21})
	op.Parent = 2
	parts.Store(op, []uint64{3}, []uint64{30, 31})
	a, _ := whole.Bytes()
	b, _ := parts.Bytes()
	if !bytes.Equal(a, b) {
		t.Errorf("one run, two encodings:\n%x\n%x", a, b)
	}
	op.Parent = 3
	parts.Store(op, []uint64{1}, []uint64{10, 11}) // again, below itself
	op.Parent, op.Tier = 1, crdt.TierCPU
	parts.Store(op, []uint64{7}, []uint64{70, 71})
	s, _ := parts.Slot(1, 1)
	var pages []int
	_ = s.Ops(func(o *crdt.Op) bool { pages = append(pages, o.Handles.Len()); return true })
	if !slices.Equal(pages, []int{3, 1, 1}) {
		t.Errorf("ops of %v pages", pages)
	}
}

// TestPiecesSplitRuns holds that pieces are bounded and hold the same facts.
func TestPiecesSplitRuns(t *testing.T) {
	for _, linked := range []bool{false, true} {
		const pages, perPage = 9000, 3
		rows := crdt.Rows{Runs: []crdt.RunHead{{Pages: pages, PerPage: perPage, Linked: linked, Parent: 1}}}
		for i := range uint64(pages) {
			rows.Handle, rows.Meta = append(rows.Handle, 10+i), append(rows.Meta, crdt.NewMeta(1, 1, 0, 0))
			rows.Value = append(rows.Value, 3*i+100_000, 3*i+100_001, 3*i+100_002)
		}
		page, parent := uint64(0), uint64(1)
		for _, piece := range crdt.AppendPieces(nil, &rows) {
			if len(piece) > crdt.MaxPieceBytes {
				t.Fatalf("piece of %d bytes", len(piece))
			}
			part, _, err := crdt.DecodeRows(piece)
			if err != nil {
				t.Fatal(err)
			}
			if part.Runs[0].Parent != parent {
				t.Fatalf("page %d hangs below %d, want %d", page, part.Runs[0].Parent, parent)
			}
			for i, h := range part.Handle {
				if h != 10+page || part.Value[3*i] != 3*page+100_000 {
					t.Fatalf("page %d is %d", page, h)
				}
				if page++; linked {
					parent = part.Value[3*i+2]
				} else {
					parent = h
				}
			}
		}
		if page != pages {
			t.Fatalf("%d of %d pages", page, pages)
		}
	}
}

// TestBadSnapshots are refused whole: the stream stays as it was.
func TestBadSnapshots(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLog(t, 1000, 8, false)
		src, dst := wide(), wide()
		src.take(l, 1, 2, 3, 4, 5, 7)
		dst.take(l, 1)
		before := dst.Context()
		s := src.cutAll(t)
		switch rapid.IntRange(0, 4).Draw(t, "fault") {
		case 0:
			s.Base.Facts++
		case 1:
			s.Base.Count++
		case 2:
			s.Above = nil
		case 3:
			s.Context.Voids = []crdt.Span{{From: 9, To: 8}}
		default:
			s.Pieces = append([][]byte{{1, 2, 3}}, s.Pieces...)
		}
		j, err := dst.BeginJoin(s, 0)
		for done := false; err == nil && !done; {
			done, err = j.Next(0)
		}
		if err == nil {
			t.Fatal("a broken snapshot was joined")
		}
		if c := dst.Context(); !c.Equal(&before) {
			t.Fatalf("a broken snapshot left %+v", c)
		}
		world{1000: l}.checkPeer(t, "dst", dst)
		src.snapshotTo(t, dst, 0)
		checkEqual(t, []*peer{src, dst})
	})
}

// TestBadContexts are refused by the decoder.
func TestBadContexts(t *testing.T) {
	one := []crdt.Span{{From: 7, To: 8}}
	for name, c := range map[string]crdt.Context{
		"slots without an epoch":  {Floor: 3},
		"spans without an epoch":  {Above: one},
		"no anchor":               {Epoch: 1, Floor: 3},
		"floor below the anchor":  {Epoch: 1, Anchor: 5, Floor: 3},
		"void above the floor":    {Epoch: 1, Anchor: 1, Floor: 6, Voids: one},
		"void below the anchor":   {Epoch: 1, Anchor: 8, Floor: 9, Voids: one},
		"known below the floor":   {Epoch: 1, Anchor: 1, Floor: 7, Above: one},
		"lost below the floor":    {Epoch: 1, Anchor: 1, Floor: 7, Lost: one},
		"known and lost":          {Epoch: 1, Anchor: 1, Above: one, Lost: []crdt.Span{{From: 8, To: 9}}},
		"floor out of range":      {Epoch: 1, Anchor: 1, Floor: crdt.MaxSeq + 1},
		"spans not ascending":     {Epoch: 1, Anchor: 1, Above: []crdt.Span{{From: 9, To: 9}, {From: 7, To: 7}}},
		"spans that touch":        {Epoch: 1, Anchor: 1, Above: []crdt.Span{{From: 7, To: 7}, {From: 8, To: 8}}},
		"a span that ends before": {Epoch: 1, Anchor: 1, Above: []crdt.Span{{From: 7, To: 6}}},
	} {
		if _, _, err := crdt.DecodeContext(crdt.AppendContext(nil, &c)); !errors.Is(err, crdt.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
