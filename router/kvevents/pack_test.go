package kvevents

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/radix"
)

var testHasher = radix.NewHasher([]byte("test secret"))

func mustPacker(t testing.TB, e Engine, grid int) *Packer {
	t.Helper()
	p, err := NewPacker(PackConfig{Engine: e, Grid: grid, Hasher: testHasher})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// packOne decodes and packs one payload.
func packOne(t testing.TB, e Engine, grid int, payload []byte) (crdt.Slot, Packed) {
	t.Helper()
	var d Decoder
	b, err := d.Decode(payload)
	if err != nil {
		t.Fatal(err)
	}
	if b.Dropped > 0 {
		t.Fatal(b.FirstFault)
	}
	s, p, err := mustPacker(t, e, grid).Pack(7, b)
	if err != nil {
		t.Fatal(err)
	}
	return s, p
}

// opsOf unpacks a slot.
func opsOf(t testing.TB, s crdt.Slot) []crdt.Op {
	t.Helper()
	var out []crdt.Op
	if err := s.Ops(func(op *crdt.Op) bool { out = append(out, *op); return true }); err != nil {
		t.Fatal(err)
	}
	return out
}

// keysOf chains a store op's hashes from a parent key.
func keysOf(op *crdt.Op, parent radix.Key) []radix.Key {
	var out []radix.Key
	for i := range op.Hashes.Len() {
		parent = testHasher.Chain(parent, radix.TokenHash(op.Hashes.At(i)))
		out = append(out, parent)
	}
	return out
}

func TestPackMatchesRouterKeys(t *testing.T) {
	for _, tc := range []struct {
		name       string
		run        run
		engine     Engine
		lora, salt string
	}{
		{"plain", run{first: 10, blocks: 3, size: 16, token: 5}, VLLM, "", ""},
		{"page of four grid blocks", run{first: 10, blocks: 2, size: 64, token: 5}, VLLM, "", ""},
		{"adapter and salt", run{first: 10, blocks: 3, size: 16, token: 5, lora: "ad", salt: "tenant"}, VLLM, "ad", "tenant"},
		{"sglang salt", run{first: 10, blocks: 3, size: 16, token: 5, salt: "tenant", sglang: true}, SGLang, "", "tenant"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, n := packOne(t, tc.engine, 16, encodeRuns(1.5, tc.run))
			ops := opsOf(t, s)
			if s.Seq != 7 || s.TS != 1_500_000 || len(ops) != 1 || n.Stored != tc.run.blocks {
				t.Fatalf("slot %d at %d, %d ops, %+v", s.Seq, s.TS, len(ops), n)
			}
			op := &ops[0]
			root := Root(testHasher, tc.lora, tc.salt)
			want := testHasher.AppendKeys(nil, root, 16, tc.run.tokens())
			if op.HasParent || op.Root != uint64(root) || !op.Main || op.Tier != crdt.TierGPU || op.Mode != tc.engine.Mode() {
				t.Fatalf("op %+v", op)
			}
			if got := keysOf(op, root); !slices.Equal(got, want) {
				t.Fatalf("keys %x, want %x", got, want)
			}
			space := uint64(0)
			if tc.engine == SGLang {
				space = Space(testHasher, tc.lora, tc.salt)
			}
			if op.Space != space || op.Handles.At(0) != 10 || op.PerPage != tc.run.size/16 {
				t.Fatalf("space %x handle %d per page %d", op.Space, op.Handles.At(0), op.PerPage)
			}
		})
	}
}

func TestPackIsPure(t *testing.T) {
	payload := encodeRuns(2, run{first: 1, blocks: 5, size: 16}, run{first: 90, parent: 5, blocks: 2, size: 16, token: 80})
	a, _ := packOne(t, VLLM, 16, payload)
	p := mustPacker(t, VLLM, 16)
	var d Decoder
	for range 3 { // whatever it did before
		b, err := d.Decode(encodeRuns(9, run{first: 3, blocks: 2, size: 16, salt: "x"}))
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := p.Pack(1, b); err != nil {
			t.Fatal(err)
		}
	}
	b, err := d.Decode(payload)
	if err != nil {
		t.Fatal(err)
	}
	c, _, err := p.Pack(7, b)
	if err != nil || !bytes.Equal(a.Body, c.Body) || a.TS != c.TS {
		t.Fatalf("I1: the same bytes gave two slots (%v)", err)
	}
}

func TestPackExtraTellsBlocksApart(t *testing.T) {
	store := func(extra func(*pack)) []byte {
		p := new(pack).array(2).float(1).array(1).mapping(6)
		p.str("type").str("BlockStored").str("block_hashes").nums(1, 2).str("parent_block_hash").num(9)
		p.str("token_ids").array(32)
		for i := range 32 {
			p.num(uint64(i))
		}
		p.str("block_size").num(16).str("extra_keys")
		extra(p)
		return p.b
	}
	plain, _ := packOne(t, VLLM, 16, store(func(p *pack) { p.null() }))
	image, _ := packOne(t, VLLM, 16, store(func(p *pack) { p.array(2).null().array(1).array(2).str("hash").num(3) }))
	wide, _ := packOne(t, VLLM, 16, store(func(p *pack) {
		p.array(2).null().array(1).array(2)
		p.b = append(p.b, 0xdb, 0, 0, 0, 4, 'h', 'a', 's', 'h', 0xcd, 0, 3) // the same in longer forms
	}))
	a, b := opsOf(t, plain)[0], opsOf(t, image)[0]
	if a.Hashes.At(0) != b.Hashes.At(0) || a.Hashes.At(1) == b.Hashes.At(1) {
		t.Fatal("only the block with an image must differ")
	}
	if !bytes.Equal(image.Body, wide.Body) {
		t.Fatal("the length of an encoding must not matter")
	}
}

func TestPackRemovals(t *testing.T) {
	remove := func(medium string) []byte {
		p := new(pack).array(2).float(1).array(1).mapping(3).str("type").str("BlockRemoved").str("block_hashes").nums(4, 5)
		return p.str("medium").str(medium).b
	}
	s, n := packOne(t, SGLang, 16, remove("CPU_PINNED"))
	op := opsOf(t, s)[0]
	if op.Kind != crdt.OpRemove || !op.AnySpace || op.Tier != crdt.TierCPU || op.Mode != crdt.Flagged || n.Removed != 2 {
		t.Fatalf("op %+v, %+v", op, n)
	}
	if s, n = packOne(t, VLLM, 16, remove("MARS")); len(opsOf(t, s)) != 0 || n.Foreign != 1 || n.Removed != 0 {
		t.Fatalf("an unknown medium must not be taken for GPU: %+v", n)
	}
}

func TestPackMisfit(t *testing.T) {
	s, n := packOne(t, SGLang, 16, encodeRuns(1, run{first: 1, blocks: 4, size: 24}))
	if len(opsOf(t, s)) != 0 || n.Misfits != 1 || n.Misfit != 24 || n.Fits != 0 {
		t.Fatalf("%+v", n)
	}
	cfg := PackConfig{Engine: SGLang, Grid: 16}
	if c := cfg.Cure(24); !strings.Contains(c, "--page-size 16") {
		t.Fatalf("no cure in %q", c)
	}
}

func TestPackOffloadIsOneMoreTier(t *testing.T) {
	p := new(pack).array(2).float(1).array(1).mapping(6).str("type").str("BlockStored").str("block_hashes").nums(4)
	p.str("parent_block_hash").null().str("token_ids").array(0).str("block_size").num(0).str("medium").str("CPU")
	s, _ := packOne(t, VLLM, 16, p.b)
	op := opsOf(t, s)[0]
	if op.PerPage != 0 || op.Tier != crdt.TierCPU || op.Handles.At(0) != 4 || !op.Main {
		t.Fatalf("op %+v", op)
	}
}

func TestPackSideGroupIsNotMain(t *testing.T) {
	p := new(pack).array(2).float(1).array(1).mapping(7).str("type").str("BlockStored").str("block_hashes").nums(4)
	p.str("parent_block_hash").null().str("token_ids").nums(1, 2).str("block_size").num(16)
	p.str("group_idx").num(1).str("kv_cache_spec_kind").str("sliding_window")
	s, _ := packOne(t, VLLM, 16, p.b)
	if op := opsOf(t, s)[0]; op.Main || op.Group != 1 || op.PerPage != 0 {
		t.Fatalf("op %+v", op)
	}
}

// A medium nobody told us about, and storage that is not the replica's own,
// are no facts about it.
func TestTiersOfMedia(t *testing.T) {
	for medium, want := range map[[2]string]string{
		{"GPU", ""}: "gpu", {"", ""}: "gpu", {"GPU", "REMOTE"}: "gpu", {"CPU", ""}: "cpu", {"CPU_PINNED", ""}: "cpu", {"CPU_TIER2", "LOCAL"}: "cpu",
		{"STORAGE", "LOCAL"}: "disk", {"FS", "LOCAL"}: "disk",
		{"STORAGE", "REMOTE"}: "", {"STORAGE", ""}: "", {"FS", ""}: "", {"OBJ", "LOCAL"}: "", {"EXTERNAL", ""}: "", {"HBM9", ""}: "", {"gpu", ""}: "",
	} {
		got := ""
		if tier, own := tierOf(medium[0], medium[1]); own {
			got = map[crdt.Tier]string{crdt.TierGPU: "gpu", crdt.TierCPU: "cpu", crdt.TierDisk: "disk"}[tier]
		}
		if got != want {
			t.Errorf("%q, %q is tier %q, want %q", medium[0], medium[1], got, want)
		}
	}
}
