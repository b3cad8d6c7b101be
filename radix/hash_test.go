package radix

import (
	"bytes"
	"flag"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the golden files in testdata")

// TestHashGolden pins the functions: a change of any line is a change of
// HashVersion.
func TestHashGolden(t *testing.T) {
	h := NewHasher([]byte("golden"))
	var out bytes.Buffer
	fmt.Fprintf(&out, "version %d fingerprint %016x\n", HashVersion, h.Fingerprint())
	for _, fields := range [][]string{nil, {""}, {"tokens", "", ""}, {"tokens", "adapter", "salt"}, {"ab"}, {"a", "b"}} {
		fmt.Fprintf(&out, "root %q %016x\n", fields, h.Root(fields...))
	}
	for _, n := range []int{0, 1, 2, 15, 16, 17, 32, 64} {
		tokens := make([]uint32, n)
		for i := range tokens {
			tokens[i] = uint32(100 + i)
		}
		fmt.Fprintf(&out, "block 100..+%d %016x\n", n, h.Block(tokens))
	}
	fmt.Fprintf(&out, "block huge %016x\n", h.Block([]uint32{1<<32 - 1, 1 << 31, 5}))
	for _, s := range []string{"", "a", "0123456789abcdef0123456789abcdef", "0123456789abcdef0123456789abcdefX"} {
		fmt.Fprintf(&out, "bytes %q %016x\n", s, h.Bytes([]byte(s)))
	}
	fmt.Fprintf(&out, "extra %016x\n", h.Extra(h.Block([]uint32{1}), []byte("image")))
	tokens := make([]uint32, 70)
	for i := range tokens {
		tokens[i] = uint32(i * i)
	}
	fmt.Fprintf(&out, "keys %016x\n", h.AppendKeys(nil, h.Root("tokens", "", ""), 16, tokens))
	compareGolden(t, "testdata/hash.golden", out.Bytes())
}

func compareGolden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *rewrite {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Fatalf("%s differs; got\n%s", path, got)
	}
}

func TestKeysChainBlocks(t *testing.T) {
	h := NewHasher([]byte("s"))
	rapid.Check(t, func(t *rapid.T) {
		grid := rapid.OneOf(rapid.Just(16), rapid.IntRange(1, 40)).Draw(t, "grid")
		small := rapid.Bool().Draw(t, "small") // ids below 2^31
		tokens := rapid.SliceOfN(rapid.Uint32(), 0, 200).Draw(t, "tokens")
		if small {
			for i := range tokens {
				tokens[i] &= 1<<31 - 1
			}
		}
		k := h.Root("n")
		var keys []Key
		var hashes []TokenHash
		for rest := tokens; len(rest) >= grid; rest = rest[grid:] {
			hashes = append(hashes, h.Block(rest[:grid]))
			k = h.Chain(k, hashes[len(hashes)-1])
			keys = append(keys, k)
		}
		if got := h.AppendKeys(nil, h.Root("n"), grid, tokens); !slices.Equal(got, keys) {
			t.Fatalf("keys %x, want %x", got, keys)
		}
		if got := h.AppendHashes(nil, grid, tokens); !slices.Equal(got, hashes) {
			t.Fatalf("hashes %x, want %x", got, hashes)
		}
		gotHashes, gotKeys := h.AppendBlocks([]TokenHash{7}, []Key{8, 9}, h.Root("n"), grid, tokens)
		if !slices.Equal(gotHashes, append([]TokenHash{7}, hashes...)) || !slices.Equal(gotKeys, append([]Key{8, 9}, keys...)) {
			t.Fatalf("both: %x and %x, want %x and %x", gotHashes, gotKeys, hashes, keys)
		}
	})
	if h.AppendKeys(nil, 1, 0, []uint32{1}) != nil || h.AppendHashes(nil, -1, []uint32{1}) != nil {
		t.Fatal("a grid below 1 has blocks")
	}
}

// TestInputsThatDifferDifferInHash covers order, length, padding, zero and
// huge ids, field borders and extras: structured inputs on which weak folds
// collide.
func TestInputsThatDifferDifferInHash(t *testing.T) {
	h := NewHasher(nil)
	seen := map[uint64]string{}
	add := func(x uint64, name string) {
		t.Helper()
		if old, ok := seen[x]; ok {
			t.Fatalf("%s and %s collide", old, name)
		}
		if x == 0 {
			t.Fatalf("%s hashes to 0", name)
		}
		seen[x] = name
	}
	for n := range 70 {
		add(uint64(h.Block(make([]uint32, n))), fmt.Sprintf("%d zero tokens", n))
		add(uint64(h.Bytes(make([]byte, n))), fmt.Sprintf("%d zero bytes", n))
		add(uint64(h.Root(make([]string, n)...)), fmt.Sprintf("%d empty fields", n))
	}
	for i := range 16 {
		for _, id := range []uint32{1, 2, 1 << 30, 1<<31 - 1, 1 << 31, 1<<31 + 1, 1<<32 - 1} {
			block := make([]uint32, 16)
			block[i] = id
			add(uint64(h.Block(block)), fmt.Sprintf("token %d at %d", id, i))
		}
		for j := range i {
			block := make([]uint32, 16)
			block[i], block[j] = 7, 9
			add(uint64(h.Block(block)), fmt.Sprintf("7 at %d, 9 at %d", i, j))
			block[i], block[j] = 9, 7
			add(uint64(h.Block(block)), fmt.Sprintf("9 at %d, 7 at %d", i, j))
		}
	}
	// The lane constants themselves, the inputs that zero a lane in a fold
	// that does not split huge ids.
	for i, c := range h.lane {
		block := make([]uint32, 16)
		block[2*i], block[2*i+1] = uint32(c), uint32(c>>32)
		for x := range uint32(4) {
			block[(2*i+2)%16] = x + 1
			add(uint64(h.Block(block)), fmt.Sprintf("lane constant %d, %d", i, x))
		}
	}
	for _, fields := range [][]string{{"ab"}, {"a", "b"}, {"a", "b", ""}, {"", "ab"}, {"b", "a"}} {
		add(uint64(h.Root(fields...)), fmt.Sprintf("root %q", fields))
	}
	one := h.Block([]uint32{1})
	for _, extra := range []string{"", "a", "b", "a\x00"} {
		add(uint64(h.Extra(one, []byte(extra))), fmt.Sprintf("extra %q", extra))
	}
	add(uint64(h.Chain(h.Root("a"), h.Bytes([]byte("b")))), "chain over a root")
}

// TestStructuredBlocksDoNotCollide hashes a million blocks that differ in few
// low bits, chained and not.
func TestStructuredBlocksDoNotCollide(t *testing.T) {
	h := NewHasher([]byte("x"))
	n := 1 << 18
	if testing.Short() {
		n = 1 << 16
	}
	blocks, keys := make([]uint64, 0, n), make([]uint64, 0, n)
	for i := range uint32(n) {
		block := make([]uint32, 16)
		block[i%16] = i / 16 % 256
		block[(i+5)%16] = i / 4096
		block[15-i%16] += 1000
		blocks = append(blocks, uint64(h.Block(block)))
		keys = append(keys, uint64(h.Chain(Key(i), TokenHash(i%7))))
	}
	for name, all := range map[string][]uint64{"block": blocks, "chain": keys} {
		slices.Sort(all)
		equal := n - len(slices.Compact(all))
		// Only blocks that are truly equal may be.
		if want := map[string]int{"block": trulyEqual(n), "chain": 0}[name]; equal != want {
			t.Errorf("%s: %d equal of %d, want %d", name, equal, n, want)
		}
	}
}

func trulyEqual(n int) int {
	seen := make(map[[16]uint32]bool, n)
	for i := range uint32(n) {
		var block [16]uint32
		block[i%16] = i / 16 % 256
		block[(i+5)%16] = i / 4096
		block[15-i%16] += 1000
		seen[block] = true
	}
	return n - len(seen)
}

// TestAvalanche flips every token bit of random blocks: each output bit must
// flip about half of the time.
func TestAvalanche(t *testing.T) {
	const rounds = 300
	h := NewHasher([]byte("avalanche"))
	rng := rand.New(rand.NewPCG(1, 2))
	parent := h.Root("n")
	for bit := range 16 * 17 {
		var flips [64]int
		total := 0
		for range rounds {
			block := make([]uint32, 16)
			for i := range block {
				block[i] = rng.Uint32N(128_000)
			}
			before := uint64(h.Chain(parent, h.Block(block)))
			block[bit/17] ^= 1 << (bit % 17)
			diff := before ^ uint64(h.Chain(parent, h.Block(block)))
			total += bits.OnesCount64(diff)
			for ; diff != 0; diff &= diff - 1 {
				flips[bits.TrailingZeros64(diff)]++
			}
		}
		if mean := float64(total) / rounds; mean < 30.5 || mean > 33.5 {
			t.Errorf("token bit %d: %.2f of 64 bits flip", bit, mean)
		}
		for out, n := range flips {
			// Five standard deviations of a fair coin are 0.144.
			if bias := float64(n)/rounds - 0.5; bias > 0.155 || bias < -0.155 {
				t.Errorf("token bit %d moves output bit %d with bias %.3f", bit, out, bias)
			}
		}
	}
}

func TestSecretsMakeDifferentKeys(t *testing.T) {
	a, b := NewHasher([]byte("a")), NewHasher([]byte("b"))
	again := NewHasher([]byte("a"))
	if a.Fingerprint() == b.Fingerprint() || a.Root() == b.Root() || a.Block([]uint32{1}) == b.Block([]uint32{1}) {
		t.Fatal("two secrets share hashes")
	}
	if *a != *again {
		t.Fatal("one secret gives two hashers")
	}
}

func FuzzHash(f *testing.F) {
	f.Add([]byte("0123456789abcdef"), 4)
	h := NewHasher([]byte("fuzz"))
	f.Fuzz(func(t *testing.T, data []byte, grid int) {
		tokens := make([]uint32, len(data)/4)
		for i := range tokens {
			tokens[i] = uint32(data[4*i]) | uint32(data[4*i+1])<<8 | uint32(data[4*i+2])<<16 | uint32(data[4*i+3])<<24
		}
		keys := h.AppendKeys(nil, h.Root(string(data)), grid, tokens)
		if grid > 0 && len(keys) != len(tokens)/grid || slices.Contains(keys, 0) {
			t.Fatalf("keys %x of %d tokens", keys, len(tokens))
		}
	})
}

func ExampleHasher() {
	h := NewHasher([]byte("mesh secret"))
	prompt := []uint32{1, 2, 3, 4, 5, 6, 7, 8, 9}
	keys := h.AppendKeys(nil, h.Root("tokens", "", ""), 4, prompt)
	longer := h.AppendKeys(nil, h.Root("tokens", "", ""), 4, append(prompt, 10, 11, 12))
	fmt.Println(len(keys), len(longer), slices.Equal(keys, longer[:2]))
	// Output: 2 3 true
}
