package gossip

import (
	"bytes"
	"encoding/hex"
	"math"
	"slices"
	"testing"

	"github.com/vmihailenco/msgpack/v5"
	"pgregory.net/rapid"
)

func TestFrameGolden(t *testing.T) {
	const want = "940103cd0102c403616263"
	got := encodeFrame(1, kindSlots, 258, []byte("abc"))
	if hex.EncodeToString(got) != want {
		t.Errorf("frame %x, want %s", got, want)
	}
}

func TestFrameRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		payload := rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "payload")
		number := rapid.Uint64().Draw(t, "number")
		data := encodeFrame(3, kindDigest, number, payload)
		f, err := decodeFrame(data)
		if err != nil || f.version != 3 || f.kind != kindDigest || f.number != number || !bytes.Equal(f.payload, payload) {
			t.Fatalf("frame %+v, %v", f, err)
		}
		for n := range data {
			if _, err := decodeFrame(data[:n]); err == nil {
				t.Fatalf("%d of %d bytes decoded", n, len(data))
			}
		}
	})
}

// Any msgpack library can read our frames, and we read what it writes.
func TestFrameIsMsgpack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		payload := rapid.SliceOfN(rapid.Byte(), 0, 70_000).Draw(t, "payload")
		number := rapid.Uint64().Draw(t, "number")
		var got []any
		if err := msgpack.Unmarshal(encodeFrame(1, kindLoad, number, payload), &got); err != nil || len(got) != 4 {
			t.Fatalf("library reads %v, %v", got, err)
		}
		if !bytes.Equal(got[3].([]byte), payload) {
			t.Fatal("library reads another payload")
		}
		data, err := msgpack.Marshal([]any{uint8(7), uint16(2), number, payload, "a later element", map[string]int{"x": 1}})
		if err != nil {
			t.Fatal(err)
		}
		f, err := decodeFrame(data)
		if err != nil || f.version != 7 || f.kind != kindLoad || f.number != number || !bytes.Equal(f.payload, payload) {
			t.Fatalf("we read %+v, %v", f, err)
		}
	})
}

func TestScanAgreesWithLibrary(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var draw func(depth int) any
		draw = func(depth int) any {
			n := 8
			if depth == 0 {
				n = 6
			}
			switch rapid.IntRange(0, n).Draw(t, "type") {
			case 0:
				return nil
			case 1:
				return rapid.Bool().Draw(t, "bool")
			case 2:
				return rapid.Int64().Draw(t, "int")
			case 3:
				return rapid.Uint64().Draw(t, "uint")
			case 4:
				return rapid.Float64().Draw(t, "float")
			case 5:
				return rapid.StringN(0, 40, 300).Draw(t, "string")
			case 6:
				return rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "bytes")
			case 7:
				list := make([]any, rapid.IntRange(0, 20).Draw(t, "len"))
				for i := range list {
					list[i] = draw(depth - 1)
				}
				return list
			}
			m := make(map[string]any)
			for range rapid.IntRange(0, 4).Draw(t, "size") {
				m[rapid.StringN(0, 3, 9).Draw(t, "key")] = draw(depth - 1)
			}
			return m
		}
		data, err := msgpack.Marshal(draw(3))
		if err != nil {
			t.Fatal(err)
		}
		if err := scan(data); err != nil {
			t.Fatalf("%x: %v", data, err)
		}
		if scan(append(data, 0xc0)) == nil {
			t.Fatal("two values accepted as one")
		}
	})
}

func TestScanBoundsDepthAndCounts(t *testing.T) {
	for name, data := range map[string][]byte{
		"deep":        append(bytes.Repeat([]byte{0x91}, maxDepth+1), 0xc0),
		"array count": {0xdd, 0xff, 0xff, 0xff, 0xff, 0xc0},
		"map count":   {0xdf, 0xff, 0xff, 0xff, 0xff, 0xc0},
		"bin length":  {0xc6, 0xff, 0xff, 0xff, 0xff, 0x00},
		"ext length":  {0xc9, 0xff, 0xff, 0xff, 0xff, 0x00},
		"reserved":    {0xc1},
		"empty":       {},
	} {
		if scan(data) == nil {
			t.Errorf("%s accepted", name)
		}
	}
	if err := scan(append(bytes.Repeat([]byte{0x91}, maxDepth), 0xc0)); err != nil {
		t.Errorf("depth %d: %v", maxDepth, err)
	}
}

func FuzzDecodeFrame(f *testing.F) {
	f.Add(encodeFrame(1, kindHello, 1, []byte("payload")))
	f.Add([]byte{0x94, 1, 3, 9, 0xc4, 0})
	f.Add([]byte{0x94, 0xcc, 1, 0xcd, 0, 3, 9, 0xc5, 0, 1, 7, 0xc0})
	f.Fuzz(func(t *testing.T, data []byte) {
		fr, err := decodeFrame(data)
		if err == nil && len(fr.payload) > len(data) {
			t.Fatal("payload longer than the frame")
		}
		_ = Describe(data)
		if !slices.Contains(FrameNames(), FrameName(data)) {
			t.Fatalf("%q is no label of metrics", FrameName(data))
		}
	})
}

func TestAFragmentCountsAsWhatItIsAPieceOf(t *testing.T) {
	for k := range kinds {
		data := encodeFrame(Version, k, 1, make([]byte, 16))
		if k == kindFragment {
			data = encodeFrame(Version, k, 1, append(make([]byte, clockBytes), byte(kindSlots), 0, 0, 1, 0))
			k = kindSlots
		}
		if got := FrameName(data); got != k.String() {
			t.Errorf("kind %d counts as %q, want %q", k, got, k.String())
		}
	}
	data := encodeFrame(Version, kindSlots, 1, nil)
	if n := testing.AllocsPerRun(10, func() { FrameName(data) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestFrameSizeIsWhatIsSent(t *testing.T) {
	for _, number := range []uint64{1, 127, 128, 255, 256, 1 << 16, 1 << 40} {
		for _, n := range []int{0, 255, 256, math.MaxUint16, math.MaxUint16 + 1} {
			if got, want := FrameSize(number, n), len(encodeFrame(Version, kindSlots, number, make([]byte, n))); got != want {
				t.Errorf("frame %d with %d bytes: %d, sent %d", number, n, got, want)
			}
		}
	}
}
