package standin

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"slices"
	"testing"

	"github.com/vmihailenco/msgpack/v5"
)

// Golden payloads: what the real msgspec encoder wrote over the engines'
// field lists (a live capture's shape for vLLM 0.26, mirrors for the others).
func TestPayloadsAreThoseOfTheEngines(t *testing.T) {
	const ts = 1700000000.25
	tokens := []uint32{1, 2, 3, 4, 5, 6, 7, 8}
	for _, c := range []struct {
		name   string
		w      wire
		ts     float64
		events []event
		hex    string
	}{
		{
			"vllm map store (0.26)",
			wire{engine: VLLM, layout: LayoutMap, page: 16},
			1789095808.8378847,
			[]event{{kind: blockStored, root: true, hashes: []uint64{15760518052499183552}, tokens: []uint32{
				151644, 872, 198, 9064, 374, 279, 6722, 315, 5616, 30, 151645, 198, 151644, 77091, 198, 151667,
			}}},
			"93cb41daa8dbe0359fe7918ba474797065ab426c6f636b53746f726564ac626c6f636b5f68617368657391cfdab89baa7b5857c0b1706172656e745f626c6f636b5f68617368c0a9746f6b656e5f696473dc0010ce0002505ccd0368ccc6cd2368cd0176cd0117cd1a42cd013bcd15f01ece0002505dccc6ce0002505cce00012d23ccc6ce00025073aa626c6f636b5f73697a6510a76c6f72615f6964c0a66d656469756da3475055a96c6f72615f6e616d65c0aa65787472615f6b65797391c0a967726f75705f69647800b26b765f63616368655f737065635f6b696e64ae66756c6c5f617474656e74696f6e00",
		},
		{
			"sglang map store, two pages, rank 1",
			wire{engine: SGLang, layout: LayoutMap, page: 4, rank: 1},
			ts,
			[]event{{kind: blockStored, root: true, hashes: []uint64{negative(-3488128144981237669), 5674439469042975057}, tokens: tokens}},
			"93cb41d954fc401000009187a474797065ab426c6f636b53746f726564ac626c6f636b5f68617368657392d3cf97adeedb59e05bcf4ebfa8a1f3c34151b1706172656e745f626c6f636b5f68617368c0a9746f6b656e5f696473980102030405060708aa626c6f636b5f73697a6504a76c6f72615f6964c0a66d656469756da347505501",
		},
		{
			"vllm array clear",
			wire{engine: VLLM, layout: LayoutArray, page: 16},
			ts,
			[]event{{kind: allCleared}},
			"93cb41d954fc401000009191b0416c6c426c6f636b73436c656172656400",
		},
		{
			"sglang map clear",
			wire{engine: SGLang, layout: LayoutMap, page: 16},
			ts,
			[]event{{kind: allCleared}},
			"93cb41d954fc401000009181a474797065b0416c6c426c6f636b73436c656172656400",
		},
	} {
		want, err := hex.DecodeString(c.hex)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.w.batch(c.ts, c.events); !bytes.Equal(got, want) {
			t.Errorf("%s:\n%x\nwant\n%x", c.name, got, want)
		}
	}
}

func negative(v int64) uint64 { return uint64(v) }

// Array forms by position, read with a general decoder.
func TestArrayLayoutPutsFieldsInTheirPlaces(t *testing.T) {
	e := []event{
		{kind: blockStored, hashes: []uint64{7, 8}, parent: 6, tokens: []uint32{1, 2}, lora: "ad", salt: "s"},
		{kind: blockStored, hashes: []uint64{9, 10}, root: true, tokens: []uint32{3, 4}, lora: "ad", salt: "s"},
		{kind: blockRemoved, hashes: []uint64{7}},
	}
	got := decoded(t, wire{engine: VLLM, layout: LayoutArray, page: 1, rank: 2}.batch(1.5, e))
	want := "[1.5 [" +
		"[BlockStored [7 8] 6 [1 2] 1 1 GPU ad [[ad] [ad]] 0 full_attention <nil>] " +
		"[BlockStored [9 10] <nil> [3 4] 1 1 GPU ad [[ad s] [ad]] 0 full_attention <nil>] " +
		"[BlockRemoved [7] GPU 0]] 2]"
	if fmt.Sprint(got) != want {
		t.Errorf("vllm %v\nwant %s", got, want)
	}
	got = decoded(t, wire{engine: SGLang, layout: LayoutArray, page: 1}.batch(1.5, e[1:]))
	want = "[1.5 [[BlockStored [9 10] <nil> [3 4] 1 <nil> GPU map[cache_salt:s]] [BlockRemoved [7] GPU]] 0]"
	if fmt.Sprint(got) != want {
		t.Errorf("sglang %v\nwant %s", got, want)
	}
	got = decoded(t, wire{engine: VLLM, layout: LayoutMap, bytes: true, page: 1}.batch(1.5, e[2:]))
	hash := got.([]any)[1].([]any)[0].(map[string]any)["block_hashes"]
	if len(hash.([]any)[0].(string)) != 32 || !slices.Equal(numbers(hash), []uint64{7}) {
		t.Errorf("bytes hash %x", hash)
	}
}

func decoded(t testing.TB, b []byte) any {
	t.Helper()
	var v any
	d := msgpack.NewDecoder(bytes.NewReader(b))
	d.UseLooseInterfaceDecoding(true)
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v in %x", err, b)
	}
	return v
}
