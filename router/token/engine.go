package token

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/banyan-llm/banyan/radix"
)

// Bounds of what is read of a server's answer.
const (
	maxAnswerBytes = 16 << 20 // about two million token ids
	maxErrorBytes  = 4 << 10
)

// Results of asking that a caller tells apart.
var (
	errMissing  = errors.New("the endpoint does not exist")
	errRejected = errors.New("the engine rejects the prompt")
	errStrange  = errors.New("the answer is no list of token ids")
	errFailed   = errors.New("the engine fails")
	errShape    = errors.New("no endpoint takes such a prompt")
	errDiffers  = errors.New("the engine counts other tokens")
)

// refusal is a 4xx of a server: kind is errMissing or errRejected.
type refusal struct {
	kind error
	why  string
}

func (r *refusal) Error() string { return r.why }
func (r *refusal) Unwrap() error { return r.kind }

// source is where an answer came from.
type source struct {
	oracle Oracle
	kind   Kind
	rung   int // of the ladder
	name   Rung
	id     identity
	// converted says that the router rewrote the prompt as it believes that the
	// engine does.
	converted bool
}

// askAll asks one server after the other until one answers or says that the
// prompt is at fault, which the next one would say too.
func (t *Tokenizer) askAll(ctx context.Context, q *Query, body []byte, open [][maxSteps]bool, begin time.Time) (a answer, err error) {
	err = errMissing
	for i := range q.Engines {
		o := &q.Engines[i]
		if open[i] == ([maxSteps]bool{}) {
			continue
		}
		// Who is late has failed, though its answer is waited for and kept.
		late := time.AfterFunc(t.cfg.Deadline-t.cfg.Now().Sub(begin), func() { t.abilities.failed(o, t.cfg.Now()) })
		a, err = t.climb(ctx, q, o, body, open[i])
		inTime := late.Stop()
		switch {
		case err == nil || errors.Is(err, errRejected) || errors.Is(err, errShape) || errors.Is(err, errDiffers) || errors.Is(err, errMissing):
			if inTime {
				t.abilities.answered(o)
			}
		case inTime:
			t.abilities.failed(o, t.cfg.Now())
		}
		if err == nil || errors.Is(err, errRejected) || ctx.Err() != nil {
			return a, err
		}
	}
	return a, err
}

// climb tries the rungs of one server, best first. The error is that of the
// rung that came nearest to an answer.
func (t *Tokenizer) climb(ctx context.Context, q *Query, o *Oracle, body []byte, open [maxSteps]bool) (answer, error) {
	worst := errMissing
	for i, s := range ladder(o.Engine, q.Kind) {
		if !open[i] {
			continue
		}
		ask, why := Question{Forms: [][]byte{body}}, ""
		if q.Ask != nil {
			ask, why = q.Ask(s.rung, o.Engine, body)
		}
		if why != "" {
			worst = nearest(worst, fmt.Errorf("%w: %s", errShape, why))
			continue
		}
		r, err := t.question(ctx, o, q.Kind, i, body, &ask)
		if err == nil {
			t.abilities.worked(o, q.Kind, i)
			a := t.digest(r, q.PageTokens)
			a.from = &source{oracle: *o, kind: q.Kind, rung: i, name: s.rung, converted: ask.Converted}
			return a, nil
		}
		t.learn(o, q.Kind, i, err)
		worst = nearest(worst, err)
		if !errors.Is(err, errMissing) && !errors.Is(err, errRejected) && !errors.Is(err, errStrange) && !errors.Is(err, errFailed) && !errors.Is(err, errShape) && !errors.Is(err, errDiffers) {
			break // nobody is there: another endpoint of the same server is not either
		}
	}
	return answer{}, worst
}

// learn notes what a rung's failure says of it.
func (t *Tokenizer) learn(o *Oracle, k Kind, rung int, err error) {
	now := t.cfg.Now()
	switch {
	case errors.Is(err, errMissing):
		t.abilities.missing(o, k, rung, now, err.Error())
	case errors.Is(err, errRejected):
		t.abilities.refused(o, k, rung, now, err.Error())
	case errors.Is(err, errStrange):
		t.abilities.strange(o, k, rung, now, err.Error())
	}
}

// nearest keeps the more telling of two errors: a server in trouble, then a
// prompt at fault, then a prompt no rung takes, then no rung.
func nearest(a, b error) error {
	rank := func(err error) int {
		switch {
		case errors.Is(err, errMissing):
			return 0
		case errors.Is(err, errShape):
			return 1
		case errors.Is(err, errRejected):
			return 2
		case errors.Is(err, errDiffers):
			return 3
		}
		return 4
	}
	if rank(b) > rank(a) {
		return b
	}
	return a
}

// post asks one question.
func (t *Tokenizer) post(ctx context.Context, o *Oracle, path string, body []byte) (rendered, error) {
	raw, err := t.send(ctx, o, path, body)
	if err != nil {
		return rendered{}, err
	}
	r, err := decode(raw)
	if err != nil {
		return rendered{}, fmt.Errorf("%w: %w", errStrange, err)
	}
	return r, nil
}

// send returns what a server answers, if that is 200.
func (t *Tokenizer) send(ctx context.Context, o *Oracle, path string, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(o.URL, "/")+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("ask for token ids: %w", err)
	}
	req.Header = o.Header.Clone()
	if req.Header == nil {
		req.Header = make(http.Header)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := t.cfg.Transport.RoundTrip(req)
	if err != nil {
		return nil, fmt.Errorf("ask for token ids: %w", err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, refused(res)
	}
	raw, err := io.ReadAll(io.LimitReader(res.Body, maxAnswerBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read token ids: %w", err)
	}
	if len(raw) > maxAnswerBytes {
		return nil, fmt.Errorf("%w: over %d bytes", errStrange, maxAnswerBytes)
	}
	return raw, nil
}

// refused says what an answer other than 200 means, by its code alone: what an
// error says may be the prompt. That an endpoint is not here is said in many
// ways: no such route, not for you, not started with it. But vLLM says 404 also of
// a model that it does not serve, and then the endpoint is there.
func refused(res *http.Response) error {
	why := fmt.Sprintf("answered %d", res.StatusCode)
	switch code := res.StatusCode; {
	case code == http.StatusNotFound && namesNotFound(res.Body):
		return &refusal{errRejected, why}
	case code == http.StatusNotFound || code == http.StatusMethodNotAllowed || code == http.StatusNotImplemented,
		code == http.StatusForbidden || code == http.StatusUnauthorized:
		return &refusal{errMissing, why}
	case code == http.StatusTooManyRequests || code == http.StatusRequestTimeout || code == http.StatusServiceUnavailable:
		return fmt.Errorf("ask for token ids: %s", why)
	case code >= 400 && code < 500:
		return &refusal{errRejected, why}
	}
	return fmt.Errorf("%w: %s", errFailed, why)
}

// namesNotFound reports whether an error page is vLLM's of an unknown model.
func namesNotFound(body io.Reader) bool {
	raw, _ := io.ReadAll(io.LimitReader(body, maxErrorBytes))
	return bytes.Contains(raw, []byte(`"NotFoundError"`))
}

func (t *Tokenizer) hashes(tokens []uint32) []radix.TokenHash {
	blocks := min(len(tokens)/t.cfg.Grid, t.cfg.MaxBlocks)
	return t.cfg.Hasher.AppendHashes(make([]radix.TokenHash, 0, blocks), t.cfg.Grid, tokens[:blocks*t.cfg.Grid])
}

// next returns the tokens behind the blocks, for engines whose block hashes look
// ahead.
func (t *Tokenizer) next(tokens []uint32) []uint32 {
	blocks := min(max(len(tokens)-1, 0)/t.cfg.Grid, t.cfg.MaxBlocks)
	out := make([]uint32, blocks)
	for i := range out {
		out[i] = tokens[(i+1)*t.cfg.Grid]
	}
	return out
}
