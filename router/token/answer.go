package token

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// rendered is one prompt in an engine's answer.
type rendered struct {
	tokens []uint32
	spans  []span
	most   int // tokens the model takes, 0 if not told
}

// maxTokenID is above every vocabulary there is (the largest have some 300,000
// ids) and far below what a broken answer holds.
const maxTokenID = 1<<24 - 1

// decode reads the three shapes of answers: render of chat (an object with
// token_ids), render of completions (a list of them), tokenize (tokens, and
// their count). An answer that contradicts itself, or of no token, is of
// another prompt, or none.
func decode(raw []byte) (rendered, error) {
	var r rendered
	raw = bytes.TrimSpace(raw)
	if len(raw) > 0 && raw[0] == '[' {
		var list []json.RawMessage
		if err := json.Unmarshal(raw, &list); err != nil {
			return r, errIDs
		}
		if len(list) == 0 {
			return r, errors.New("decode token ids: the answer is empty")
		}
		raw = list[0]
	}
	var shape struct {
		TokenIDs json.RawMessage `json:"token_ids"`
		Tokens   json.RawMessage `json:"tokens"`
		Count    *int            `json:"count"`
		Most     int             `json:"max_model_len"`
		Features *features       `json:"features"`
	}
	if err := json.Unmarshal(raw, &shape); err != nil {
		return r, errIDs // encoding/json quotes what it does not expect
	}
	ids := shape.TokenIDs
	if ids == nil {
		ids = shape.Tokens
	}
	r.most = shape.Most
	var err error
	if r.tokens, err = parseIDs(ids); err != nil {
		return r, err
	}
	switch n := len(r.tokens); {
	case n == 0:
		return r, errors.New("decode token ids: there are none")
	case shape.Count != nil && *shape.Count != n:
		return r, fmt.Errorf("decode token ids: there are %d, not %d", n, *shape.Count)
	}
	r.spans, err = shape.Features.spans(len(r.tokens))
	return r, err
}

var errIDs = errors.New("decode token ids: not a list of token ids")

// parseIDs reads a JSON list of token ids: encoding/json takes ten times as
// long for it.
func parseIDs(raw []byte) ([]uint32, error) {
	if len(raw) < 2 || raw[0] != '[' {
		return nil, errIDs
	}
	ids := make([]uint32, 0, bytes.Count(raw, []byte{','})+1)
	id, digits := uint64(0), 0
	for _, c := range raw[1:] {
		switch {
		case c-'0' < 10:
			digits++
			if id = id*10 + uint64(c-'0'); id > maxTokenID {
				return nil, errIDs
			}
		case c == ',' || c == ']':
			if digits > 0 {
				ids = append(ids, uint32(id))
			}
			id, digits = 0, 0
		case c != ' ' && c != '\n' && c != '\r' && c != '\t':
			return nil, errIDs
		}
	}
	return ids, nil
}
