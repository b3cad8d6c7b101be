package token

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// Question is a prompt as a rung takes it.
type Question struct {
	// Forms are what the engine may make of the prompt, the likeliest first.
	// There are several where that depends on how it was started.
	Forms [][]byte
	// Converted says that the prompt was rewritten as the engine's own code does.
	// Such a question is proven where the engine can be asked how many tokens the
	// request itself has: once for each Shape. Where it cannot, the first answer
	// that counts other tokens puts the rung to rest (Verify).
	Converted bool
	Shape     uint16
	Twin      []byte // must have the tokens of the first form, or the prompt cannot be asked for; nil: no doubt
	Trial     *Trial // tells which form is right, where the request itself cannot be counted; nil: it can
	Cut       *Cut   // nil: the prompt is not shortened
}

// Trial is a Messages body with what an engine may make of it.
type Trial struct {
	Body  []byte
	Forms [][]byte
}

// Cut is how an engine shortens a prompt.
type Cut struct {
	Keep  int    // tokens; -1: as many as the model takes
	First bool   // the first ones stay, not the last
	Bare  []byte // asks for the prompt without special tokens, if these stay whatever is cut
}

// question asks a rung for a prompt.
func (t *Tokenizer) question(ctx context.Context, o *Oracle, k Kind, rung int, body []byte, ask *Question) (rendered, error) {
	s := ladder(o.Engine, k)[rung]
	var r rendered
	var err error
	if ask.Trial != nil || ask.Converted && (s.proof != "" || ask.Twin != nil) {
		r, err = t.prove(ctx, o, k, rung, body, ask)
	} else {
		r, err = t.post(ctx, o, s.path, ask.Forms[0])
	}
	if err != nil || ask.Cut == nil {
		return r, err
	}
	return t.cut(ctx, o, s.path, r, ask.Cut)
}

// prove asks for the form of a prompt that is known to be right for others of
// its shape. If none is known yet it finds out which one is.
func (t *Tokenizer) prove(ctx context.Context, o *Oracle, k Kind, rung int, body []byte, ask *Question) (rendered, error) {
	s := ladder(o.Engine, k)[rung]
	known, ok := t.abilities.shape(o, k, rung, ask.Shape)
	switch {
	case ok && known.why == nil && known.form < len(ask.Forms):
		return t.post(ctx, o, s.path, ask.Forms[known.form])
	case ok && known.why != nil && t.cfg.Now().Before(known.until):
		return rendered{}, known.why
	}
	var r rendered
	var form int
	var err error
	switch {
	case ask.Trial != nil:
		r, form, err = t.tried(ctx, o, s, ask)
	case s.proof != "":
		r, form, err = t.counted(ctx, o, s, body, ask)
	default:
		r, form, err = t.twins(ctx, o, s.path, ask)
	}
	switch {
	case err == nil && form >= 0:
		t.abilities.proven(o, k, rung, ask.Shape, shapeState{form: form})
	case errors.Is(err, errDiffers) || errors.Is(err, errShape):
		t.abilities.proven(o, k, rung, ask.Shape, shapeState{why: err, until: t.cfg.Now().Add(reprobeAfter)})
	}
	if errors.Is(err, errDiffers) {
		t.tally.differed(s.rung)
	}
	return r, err
}

// twins asks for a prompt and for its twin.
func (t *Tokenizer) twins(ctx context.Context, o *Oracle, path string, ask *Question) (r rendered, form int, err error) {
	twin, err := t.post(ctx, o, path, ask.Twin)
	if err == nil {
		r, err = t.post(ctx, o, path, ask.Forms[0])
	}
	if err == nil && !slices.Equal(r.tokens, twin.tokens) {
		err = fmt.Errorf("%w: the chat template writes the fields of a call in the order that they have", errShape)
	}
	return r, 0, err
}

// tried asks for the form of a prompt that is right for its trial.
func (t *Tokenizer) tried(ctx context.Context, o *Oracle, s step, ask *Question) (r rendered, form int, err error) {
	s.proof = countTokens
	_, form, err = t.counted(ctx, o, s, ask.Trial.Body, &Question{Forms: ask.Trial.Forms})
	switch {
	case err != nil:
		return r, -1, err
	case form < 0 && !ask.Converted:
		form = 0 // the likeliest: what its answers count will tell
	case form < 0 || form >= len(ask.Forms):
		return r, -1, fmt.Errorf("%w: nothing tells which of %d forms it has", errShape, len(ask.Forms))
	}
	r, err = t.post(ctx, o, s.path, ask.Forms[form])
	return r, form, err
}

// counted asks for all forms of a prompt, and for the number of tokens that the
// engine counts in the request itself. No form is proven (-1) where it does not
// tell: its first answer will.
func (t *Tokenizer) counted(ctx context.Context, o *Oracle, s step, body []byte, ask *Question) (r rendered, form int, err error) {
	want, err := t.count(ctx, o, s.proof, body)
	if errors.Is(err, errMissing) {
		r, err = t.post(ctx, o, s.path, ask.Forms[0])
		return r, -1, err
	} else if err != nil {
		return r, -1, err
	}
	form = -1
	last := fmt.Errorf("%w: it tells no tokens of any form", errDiffers)
	for i, body := range ask.Forms {
		got, err := t.post(ctx, o, s.path, body)
		switch {
		case errors.Is(err, errRejected): // its template takes no such chat
		case err != nil:
			return r, -1, err
		case len(got.tokens) != want:
			last = fmt.Errorf("%w: %d, not %d", errDiffers, want, len(got.tokens))
		case form >= 0 && !slices.Equal(got.tokens, r.tokens):
			return r, -1, fmt.Errorf("%w: two ways to render it have equally many tokens", errShape)
		case form < 0:
			form, r = i, got
		}
	}
	if form < 0 {
		return r, -1, last
	}
	return r, form, nil
}

// count asks how many tokens a request has.
func (t *Tokenizer) count(ctx context.Context, o *Oracle, path string, body []byte) (int, error) {
	raw, err := t.send(ctx, o, path, body)
	if err != nil {
		return 0, err
	}
	var said struct {
		Tokens int `json:"input_tokens"`
	}
	if err := json.Unmarshal(raw, &said); err != nil || said.Tokens <= 0 {
		return 0, fmt.Errorf("%w: no count of tokens", errStrange)
	}
	return said.Tokens, nil
}

// cut shortens a prompt as the engine will.
func (t *Tokenizer) cut(ctx context.Context, o *Oracle, path string, r rendered, c *Cut) (rendered, error) {
	n := len(r.tokens)
	switch {
	case c.Keep < 0 && r.most > 0 && n < r.most-1, c.Keep >= n:
		return r, nil // all of it stays
	case c.Keep < 0: // one more or less is kept for the answer, by how long it may be
		return rendered{}, fmt.Errorf("%w: it is as long as the model takes", errShape)
	}
	bare := r.tokens
	if c.Bare != nil {
		b, err := t.post(ctx, o, path, c.Bare)
		if err != nil {
			return rendered{}, err
		}
		bare = b.tokens
	}
	before := 0
	for before+len(bare) <= n && !slices.Equal(r.tokens[before:before+len(bare)], bare) {
		before++
	}
	special := n - len(bare)
	if before+len(bare) > n || special >= c.Keep {
		return rendered{}, fmt.Errorf("%w: its special tokens cannot be told apart", errShape)
	}
	kept := bare[len(bare)-(c.Keep-special):]
	if c.First {
		kept = bare[:c.Keep-special]
	}
	r.tokens = slices.Concat(r.tokens[:before], kept, r.tokens[before+len(bare):])
	return r, nil
}
