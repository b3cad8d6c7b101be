package radix

import "testing"

func TestChainStartsAtRoot(t *testing.T) {
	h := NewHasher([]byte("s"))
	toks := make([]uint32, 40)
	keys := h.AppendKeys(nil, h.Root("tokens", "", ""), 16, toks)
	if len(keys) != 2 || keys[0] == keys[1] {
		t.Fatalf("keys %x", keys)
	}
}
