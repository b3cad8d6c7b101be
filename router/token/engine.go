package token

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"

	"github.com/banyan-llm/banyan/radix"
)

// maxAnswerBytes bounds what is read of an engine's answer: about two million
// token ids.
const maxAnswerBytes = 16 << 20

// Results of asking that a caller tells apart.
var (
	errMissing  = errors.New("the endpoint does not exist")
	errRejected = errors.New("the engine rejects the prompt")
)

// askEngine asks the replica's render endpoint, or its tokenizer if it has no
// such endpoint, and notes what it learns of the replica.
func (t *Tokenizer) askEngine(ctx context.Context, q *Query, body []byte, render bool) (answer, error) {
	err := errMissing
	var a answer
	if render {
		path := completions
		if q.Chat {
			path = chatCompletion
		}
		if a, err = t.post(ctx, q, path+renderSuffix, body); errors.Is(err, errMissing) {
			t.abilities.missing(q.Engine, true, t.cfg.Now())
		}
	}
	if errors.Is(err, errMissing) {
		if a, err = t.post(ctx, q, tokenizePath, body); errors.Is(err, errMissing) {
			t.abilities.missing(q.Engine, false, t.cfg.Now())
			return a, err
		}
	}
	if err == nil || errors.Is(err, errRejected) {
		t.abilities.answered(q.Engine)
	} else {
		t.abilities.failed(q.Engine, t.cfg.Now())
	}
	return a, err
}

func (t *Tokenizer) post(ctx context.Context, q *Query, path string, body []byte) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(q.Engine, "/")+path, bytes.NewReader(body))
	if err != nil {
		return answer{}, fmt.Errorf("ask for token ids: %w", err)
	}
	req.Header = q.Header.Clone()
	if req.Header == nil {
		req.Header = make(http.Header)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := t.cfg.Transport.RoundTrip(req)
	if err != nil {
		return answer{}, fmt.Errorf("ask for token ids: %w", err)
	}
	defer res.Body.Close()
	switch code := res.StatusCode; {
	case code == http.StatusNotFound || code == http.StatusMethodNotAllowed || code == http.StatusNotImplemented,
		code == http.StatusForbidden || code == http.StatusUnauthorized: // vLLM from 0.30 on: render is 403 without --enable-scale-out
		return answer{}, errMissing
	case code >= 400 && code < 500 && code != http.StatusTooManyRequests && code != http.StatusRequestTimeout:
		return answer{}, errRejected
	case code != http.StatusOK:
		return answer{}, fmt.Errorf("ask for token ids: status %d", code)
	}
	raw, err := io.ReadAll(io.LimitReader(res.Body, maxAnswerBytes+1))
	if err != nil {
		return answer{}, fmt.Errorf("read token ids: %w", err)
	}
	if len(raw) > maxAnswerBytes {
		return answer{}, fmt.Errorf("read token ids: the answer is over %d bytes", maxAnswerBytes)
	}
	r, err := decode(raw)
	if err != nil {
		return answer{}, err
	}
	return t.digest(r, q.PageTokens), nil
}

// rendered is one prompt in an engine's answer.
type rendered struct {
	tokens []uint32
	spans  []span
}

// decode reads the three shapes of answers: render of chat (an object with
// token_ids), render of completions (a list of them), tokenize (tokens).
func decode(raw []byte) (rendered, error) {
	var r rendered
	raw = bytes.TrimSpace(raw)
	if len(raw) > 0 && raw[0] == '[' {
		var list []json.RawMessage
		if err := json.Unmarshal(raw, &list); err != nil {
			return r, fmt.Errorf("decode token ids: %w", err)
		}
		if len(list) == 0 {
			return r, errors.New("decode token ids: the answer is empty")
		}
		raw = list[0]
	}
	var shape struct {
		TokenIDs json.RawMessage `json:"token_ids"`
		Tokens   json.RawMessage `json:"tokens"`
		Features *features       `json:"features"`
	}
	if err := json.Unmarshal(raw, &shape); err != nil {
		return r, fmt.Errorf("decode token ids: %w", err)
	}
	ids := shape.TokenIDs
	if ids == nil {
		ids = shape.Tokens
	}
	var err error
	if r.tokens, err = parseIDs(ids); err != nil {
		return r, err
	}
	r.spans, err = shape.Features.spans(len(r.tokens))
	return r, err
}

var errIDs = errors.New("decode token ids: not a list of token ids")

// parseIDs reads a JSON list of integers from 0 to 2^32-1: encoding/json takes
// ten times as long for it.
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
			if id = id*10 + uint64(c-'0'); id > math.MaxUint32 {
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

func (t *Tokenizer) hashes(tokens []uint32) []radix.TokenHash {
	blocks := min(len(tokens)/t.cfg.Grid, t.cfg.MaxBlocks)
	return t.cfg.Hasher.AppendHashes(make([]radix.TokenHash, 0, blocks), t.cfg.Grid, tokens[:blocks*t.cfg.Grid])
}
