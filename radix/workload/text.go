package workload

import "github.com/banyan-llm/banyan/radix"

// The sizes of S.
const (
	TextPrompts = 4000
	TextHolders = 8
	systems     = 16
	textBytes   = 4096
	// TextChunk is the block of a text prompt.
	TextChunk = 512
)

// Prompt is prompt i of S: one of 16 system texts, then a text of its own.
func Prompt(i int) []byte {
	return text(text(nil, 1000+uint64(i%systems)), 1_000_000+uint64(i))
}

func text(dst []byte, seed uint64) []byte {
	const alphabet = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 ."
	for i := range uint64(textBytes) {
		// The stream of splitmix64 adds gamma per step.
		dst = append(dst, alphabet[Mix(seed+i*0x9E3779B97F4A7C15)>>58])
	}
	return dst
}

// TextKeys appends the keys of a text prompt.
func TextKeys(dst []radix.Key, h *radix.Hasher, text []byte) []radix.Key {
	k := h.Root("workload text")
	for ; len(text) >= TextChunk; text = text[TextChunk:] {
		k = h.Chain(k, h.Bytes(text[:TextChunk]))
		dst = append(dst, k)
	}
	return dst
}
