package token

import (
	"cmp"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/banyan-llm/banyan/radix"
)

// span is a run of placeholder tokens that stand for one image, sound or
// video; hash is the engine's name of its content.
type span struct {
	offset, length int
	hash           string
}

func (s span) end() int { return s.offset + s.length }

// maxSpans bounds the multimodal parts of one prompt.
const maxSpans = 1024

// features are the multimodal parts of a rendered prompt, by modality.
type features struct {
	Hashes       map[string][]string `json:"mm_hashes"`
	Placeholders map[string][]struct {
		Offset int `json:"offset"`
		Length int `json:"length"`
	} `json:"mm_placeholders"`
}

func (f *features) spans(tokens int) ([]span, error) {
	if f == nil {
		return nil, nil
	}
	var spans []span
	for modality, places := range f.Placeholders {
		hashes := f.Hashes[modality]
		if len(hashes) != len(places) {
			return nil, errors.New("decode token ids: placeholders without hashes")
		}
		for i, p := range places {
			if p.Offset < 0 || p.Length < 0 || p.Offset > tokens || p.Length > tokens-p.Offset {
				return nil, errors.New("decode token ids: a placeholder lies outside the prompt")
			}
			if len(spans) == maxSpans {
				return nil, errors.New("decode token ids: too many placeholders")
			}
			spans = append(spans, span{p.Offset, p.Length, hashes[i]})
		}
	}
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.offset, b.offset) })
	return spans, nil
}

// digest turns rendered tokens into the hashes of their blocks. pageTokens is
// the engine's block size, 0 if it is the grid.
func (t *Tokenizer) digest(r rendered, pageTokens int) answer {
	a := answer{hashes: t.hashes(r.tokens), next: t.next(r.tokens), tokens: len(r.tokens)}
	if pageTokens < t.cfg.Grid || pageTokens%t.cfg.Grid != 0 {
		pageTokens = t.cfg.Grid
	}
	t.foldSpans(a.hashes, r.spans, pageTokens)
	return a
}

// foldSpans makes blocks with placeholders differ by what they stand for, as
// vLLM's events do: each page that a span touches has the extra key (hash,
// offset from the page's start), and the extra keys of a page are folded into
// its first block. spans are in order of offset.
func (t *Tokenizer) foldSpans(hashes []radix.TokenHash, spans []span, pageTokens int) {
	perPage := pageTokens / t.cfg.Grid
	var extra []byte
	for at := 0; at < len(hashes) && len(spans) > 0; at += perPage {
		start := at * t.cfg.Grid
		for len(spans) > 0 && spans[0].end() <= start {
			spans = spans[1:]
		}
		extra = extra[:0]
		for _, s := range spans {
			if s.offset >= start+pageTokens {
				break
			}
			if s.end() > start {
				extra = appendPair(extra, s.hash, s.offset-start)
			}
		}
		if len(extra) > 0 {
			hashes[at] = t.cfg.Hasher.Extra(hashes[at], extra)
		}
	}
}

// appendPair writes (hash, offset) in the canonical form that extra keys of
// events are folded in: 'a' and a count, 's' and a length, '+' or '-' and 64
// bits, all big-endian.
func appendPair(dst []byte, hash string, offset int) []byte {
	dst = append(dst, 'a', 0, 0, 0, 2, 's')
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(hash)))
	dst = append(dst, hash...)
	sign := byte('+')
	if offset < 0 {
		sign = '-'
	}
	return binary.BigEndian.AppendUint64(append(dst, sign), uint64(offset))
}
