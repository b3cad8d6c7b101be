package kvevents

import (
	"encoding/hex"
	"slices"
	"testing"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/radix"
	"github.com/banyan-llm/banyan/router/index"
)

// follower packs batches and folds them into an index, as a router does.
type follower struct {
	t       *testing.T
	packer  *Packer
	decoder Decoder
	index   *index.Index
	seq     uint64
}

func newFollower(t *testing.T, e Engine) *follower {
	x := index.New(index.Config{Hasher: testHasher, Grid: 16, RingBytes: 1 << 20})
	t.Cleanup(x.Close)
	return &follower{t: t, packer: mustPacker(t, e, 16), index: x}
}

// take folds one batch and returns what could not be used of it.
func (f *follower) take(payload []byte) Packed {
	f.t.Helper()
	b, err := f.decoder.Decode(payload)
	if err != nil || b.Dropped > 0 {
		f.t.Fatal(err, b.FirstFault)
	}
	f.seq++
	s, p, err := f.packer.Pack(f.seq, b)
	if err != nil {
		f.t.Fatal(err)
	}
	f.index.Apply(&crdt.Delta{Stream: "s", Epoch: 1, Anchor: 1, Slots: []crdt.Slot{s}}, 1)
	return p
}

// cached is how many grid blocks of a prompt the replica holds on the GPU.
func (f *follower) cached(tokens []uint32, lora, salt string) int {
	var v index.View
	f.index.Match(testHasher.AppendKeys(nil, Root(testHasher, lora, salt), 16, tokens), &v)
	return v.Depth(f.index.Ref("s")).GPU
}

// encodeRemoved writes a removal of consecutive hashes.
func encodeRemoved(first, n uint64, medium string) []byte {
	p := new(pack).array(3).float(1).array(1).mapping(3).str("type").str("BlockRemoved").str("block_hashes").array(int(n))
	for i := range n {
		p.num(first + i)
	}
	return p.str("medium").str(medium).null().b
}

// TestPagesOfOneToken is SGLang as people start it: a page is one token, and
// sixteen in a row are a block.
func TestPagesOfOneToken(t *testing.T) {
	f := newFollower(t, SGLang)
	whole := run{first: 1, blocks: 40, size: 1, token: 500, sglang: true}
	prompt := append(whole.tokens(), make([]uint32, 24)...)
	if p := f.take(encodeRuns(1, run{first: 1, blocks: 20, size: 1, token: 500, sglang: true})); p.Misfits > 0 || p.Stored != 20 {
		t.Fatalf("%+v", p)
	}
	if n := f.cached(prompt, "", ""); n != 1 {
		t.Errorf("20 pages are %d blocks", n)
	}
	// A run that goes on in the middle of a block completes it.
	f.take(encodeRuns(2, run{first: 21, parent: 20, blocks: 20, size: 1, token: 520, sglang: true}))
	if n := f.cached(prompt, "", ""); n != 2 {
		t.Errorf("40 pages are %d blocks", n)
	}
	// A removal inside a block takes that block; the rest is held.
	f.take(encodeRemoved(20, 1, "GPU"))
	if n := f.cached(prompt, "", ""); n != 1 {
		t.Errorf("without page 20: %d blocks", n)
	}
	f.take(encodeRuns(3, run{first: 20, parent: 19, blocks: 1, size: 1, token: 519, sglang: true}))
	if n := f.cached(prompt, "", ""); n != 2 {
		t.Errorf("with page 20 again: %d blocks", n)
	}
	// Backup to the host keeps the depth on any tier.
	f.take(encodeRemoved(1, 40, "GPU"))
	if n := f.cached(prompt, "", ""); n != 0 {
		t.Errorf("after all are removed: %d blocks", n)
	}
	if d, _ := f.index.Digest("s"); d.Base.Count != 0 {
		t.Errorf("%d facts are left", d.Base.Count)
	}
}

// TestPagesBelowABlockMakeItUp holds that every page length that divides the
// grid, one event a page or all in one, gives the keys of the router.
func TestPagesBelowABlockMakeItUp(t *testing.T) {
	for _, size := range []int{1, 2, 4, 8, 16} {
		for _, apart := range []bool{false, true} {
			for _, lora := range []string{"", "adapter"} {
				f := newFollower(t, SGLang)
				whole := run{first: 1, blocks: 160 / size, size: size, token: 900, lora: lora, salt: "tenant", sglang: true}
				if !apart {
					f.take(encodeRuns(1, whole))
				}
				for i := 0; apart && i < whole.blocks; i++ {
					one := run{first: uint64(i + 1), parent: uint64(i), blocks: 1, size: size, token: 900 + uint64(i*size), lora: lora, salt: "tenant", sglang: true}
					f.take(encodeRuns(1, one))
				}
				if n := f.cached(whole.tokens(), lora, "tenant"); n != 10 {
					t.Errorf("pages of %d, apart %v, %q: %d of 10 blocks", size, apart, lora, n)
				}
				if n := f.cached(whole.tokens(), lora, ""); n != 0 {
					t.Errorf("pages of %d: another tenant finds %d blocks", size, n)
				}
			}
		}
	}
}

// TestAShortLastPageIsHeld: SGLang before mid-2026 could store the last page of
// a prompt shorter than the others. One that divides the grid is held below the
// pages; another is left out. Neither makes the stream unusable.
func TestAShortLastPageIsHeld(t *testing.T) {
	for size, misfits := range map[int]int{1: 0, 4: 0, 5: 1, 15: 1} {
		f := newFollower(t, SGLang)
		p := f.take(encodeRuns(1, run{first: 1, blocks: 3, size: 16, token: 5, sglang: true},
			run{first: 9, parent: 3, blocks: 1, size: size, token: 53, sglang: true}))
		var fit fitness
		fit.add(p)
		if p.Misfits != misfits || fit.unusable() {
			t.Errorf("page of %d: %+v", size, p)
		}
		if n := f.cached(run{blocks: 4, size: 16, token: 5}.tokens(), "", ""); n != 3 {
			t.Errorf("page of %d: %d blocks", size, n)
		}
	}
}

// TestEAGLEPairsOfOnePage: with EAGLE a page of one token tells [t, t+1]. The
// first of each pair is the token, so sixteen pages are the block of the prompt.
// That the last pair needs one token more than the block to be reused is not
// told apart: at most one block is promised too much where a prompt ends there.
func TestEAGLEPairsOfOnePage(t *testing.T) {
	f := newFollower(t, SGLang)
	p := new(pack).array(3).float(1).array(1).mapping(7).str("type").str("BlockStored").str("block_hashes").array(16)
	for i := range uint64(16) {
		p.num(100 + i)
	}
	p.str("parent_block_hash").null().str("token_ids").array(16)
	for i := range uint64(16) {
		p.nums(i, i+1)
	}
	f.take(p.str("block_size").num(1).str("medium").str("GPU").str("lora_id").null().null().b)
	if n := f.cached(run{blocks: 1, size: 16}.tokens(), "", ""); n != 1 {
		t.Errorf("%d blocks", n)
	}
}

// TestVLLMPartialBlocksLeaveTheStreamUsable: on hybrid models vLLM announces
// entries below its page (cache_partial_block), block_size then is shorter.
func TestVLLMPartialBlocksLeaveTheStreamUsable(t *testing.T) {
	f := newFollower(t, VLLM)
	var fit fitness
	for i := range uint64(20) { // before any whole page came
		fit.add(f.take(encodeRuns(1, run{first: 1000 + 2*i, parent: 5000 + i, blocks: 1, size: 8, token: 8 * i})))
		fit.add(f.take(encodeRuns(1, run{first: 1001 + 2*i, parent: 6000 + i, blocks: 1, size: 16, token: 8 * i})))
	}
	if fit.unusable() {
		t.Errorf("%+v", fit)
	}
	f.take(encodeRuns(1, run{first: 1, blocks: 2, size: 64, token: 7}))
	if n := f.cached(run{blocks: 2, size: 64, token: 7}.tokens(), "", ""); n != 8 {
		t.Errorf("%d blocks", n)
	}
}

// TestSmallSlotBytes pins the wire form of small pages: a peer of another
// version must not take it for something else.
func TestSmallSlotBytes(t *testing.T) {
	s, _ := packOne(t, SGLang, 16, encodeRuns(1, run{first: 0x11, blocks: 2, size: 1, token: 5, sglang: true}))
	const want = "0105008102000000" + // store, flagged, main; pages of one token; two of them
		"ROOT" + "1100000000000000" + "1200000000000000" + "MASKMASK"
	op := opsOf(t, s)[0]
	if op.Small != 1 || op.PerPage != 1 || !slices.Equal(s.Body[:8], mustHex(t, want[:16])) || len(s.Body) != 8+8+16+16 {
		t.Fatalf("%x, want %s", s.Body, want)
	}
	for i := range 2 {
		if got := op.Hashes.At(i) ^ testHasher.Mask(op.Handles.At(i), 0); got != uint64(5+i) {
			t.Errorf("token %d reads %d", i, got)
		}
	}
	if op.Hashes.At(0) == 5 {
		t.Error("a token goes over the wire as it is")
	}
	other := radix.NewHasher([]byte("another secret"))
	if op.Hashes.At(0)^other.Mask(0x11, 0) == 5 {
		t.Error("another mesh reads the token")
	}
}

func mustHex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
