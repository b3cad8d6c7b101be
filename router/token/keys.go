package token

import "github.com/banyan-llm/banyan/radix"

// Scheme says what block keys were made of.
type Scheme string

// The schemes. Ids and Engine share one namespace, that of KV events.
const (
	Ids    Scheme = "ids"    // token ids given by the client
	Engine Scheme = "engine" // token ids asked of an engine
	Text   Scheme = "text"   // chunks of canonical text
	None   Scheme = "none"   // no prompt that can be keyed
)

// Exact reports whether the keys are those of the engines' own events.
func (s Scheme) Exact() bool { return s == Ids || s == Engine }

// Keys is a prompt as block keys.
type Keys struct {
	Scheme Scheme
	Reason Reason // why this scheme
	Root   radix.Key
	Keys   []radix.Key       // of every whole block, at most Config.MaxBlocks
	Hashes []radix.TokenHash // Keys[i] = Chain(Keys[i-1], Hashes[i])
	Next   []uint32          // the token behind each block, exact schemes only; the last block may have none
	Tokens int               // prompt length; an estimate in text scheme
	Grid   int               // tokens per key; an estimate in text scheme

	from *source // of scheme Engine: who answered
}

// Rung is how the keys were learned, or what they are made of instead.
func (k *Keys) Rung() Rung {
	if k.Scheme == Engine {
		return k.from.name
	}
	return Rung(k.Scheme)
}

// ChunkBytes is the unit of text keys, and TokensPerChunk what it stands for:
// 512 bytes of English are about 130 tokens.
const (
	ChunkBytes     = 512
	TokensPerChunk = 128
	bytesPerToken  = ChunkBytes / TokensPerChunk
)

// TokenRoot is the namespace of exact keys. The model is not in it: only
// holders that serve the request's model are asked. It is the formula that
// events are keyed with.
func TokenRoot(h *radix.Hasher, lora, salt string) radix.Key {
	return h.Root("tokens", lora, salt)
}

// TextRoot is the namespace of text keys.
func TextRoot(h *radix.Hasher, model, lora, salt string) radix.Key {
	return h.Root("text", model, lora, salt)
}

// chain fills Keys from Root and Hashes.
func (k *Keys) chain(h *radix.Hasher) {
	k.Keys = make([]radix.Key, len(k.Hashes))
	parent := k.Root
	for i, t := range k.Hashes {
		parent = h.Chain(parent, t)
		k.Keys[i] = parent
	}
}

// Estimate is how many tokens so many bytes of text are, about.
func Estimate(bytes int) int { return (bytes + bytesPerToken - 1) / bytesPerToken }

// textKeys keys canonical text by its whole chunks.
func textKeys(h *radix.Hasher, root radix.Key, text []byte, maxBlocks int) Keys {
	k := Keys{Scheme: Text, Root: root, Grid: TokensPerChunk, Tokens: Estimate(len(text))}
	k.Hashes = make([]radix.TokenHash, 0, min(len(text)/ChunkBytes, maxBlocks))
	for len(text) >= ChunkBytes && len(k.Hashes) < maxBlocks {
		k.Hashes = append(k.Hashes, h.Bytes(text[:ChunkBytes]))
		text = text[ChunkBytes:]
	}
	k.chain(h)
	return k
}
