package standin

import (
	"unicode"
	"unicode/utf8"

	"github.com/banyan-llm/banyan/simulation/workload"
)

// Vocabulary: markers, the words of the made-up language, and a range into
// which every other piece of text is hashed.
const (
	tokenBOS = 256 + iota
	tokenEnd
	tokenSystem
	tokenUser
	tokenAssistant
	tokenTool
	tokenTools
	tokenImage

	firstHashed = workload.FirstWord + workload.Words
	vocabulary  = 128 << 10
)

// maxPieceBytes bounds what one token can stand for.
const maxPieceBytes = 16

// appendText appends the tokens of a text: one for each word, mark or odd
// white space; a single space between two of them costs nothing. O(bytes).
func appendText(dst []uint32, text string) []uint32 {
	for i := 0; i < len(text); {
		n := piece(text[i:])
		if text[i:i+n] != " " {
			dst = append(dst, pieceID(text[i:i+n]))
		}
		i += n
	}
	return dst
}

// piece is the length of the piece a text begins with: letters and digits
// together, a run of one kind of white space, or one other rune.
func piece(text string) int {
	r, n := utf8.DecodeRuneInString(text)
	space := unicode.IsSpace(r)
	if !space && !isWord(r) {
		return n
	}
	for n < len(text) && n < maxPieceBytes {
		next, size := utf8.DecodeRuneInString(text[n:])
		if space && next != r || !space && !isWord(next) {
			break
		}
		n += size
	}
	return n
}

func isWord(r rune) bool {
	if r < utf8.RuneSelf {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_'
	}
	return unicode.IsLetter(r) || unicode.IsDigit(r)
}

func pieceID(s string) uint32 {
	if id, ok := workload.WordID(s); ok {
		return id
	}
	return firstHashed + uint32(fold(0, s)%(vocabulary-firstHashed))
}

// fold hashes text (FNV-1a with a final mix).
func fold(h uint64, s string) uint64 {
	h ^= 14695981039346656037
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return mix(h, uint64(len(s)))
}

// appendWord appends the text of a generated token.
func appendWord(dst []byte, id uint32, first bool) []byte {
	if !first {
		dst = append(dst, ' ')
	}
	return append(dst, workload.Word(id)...)
}

// mix is a 64-bit hash step.
func mix(a, b uint64) uint64 {
	x := (a ^ b*0x9e3779b97f4a7c15) * 0xd6e8feb86659fd93
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	return x ^ x>>29
}
