package router

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/banyan-llm/banyan/radix"
	"github.com/banyan-llm/banyan/router/openai"
	"github.com/banyan-llm/banyan/router/token"
)

// closedEngine renders nothing, counts n tokens in every request, and tokenizes
// to as many.
type closedEngine struct {
	n      int
	tokens []byte
}

func (c closedEngine) RoundTrip(r *http.Request) (*http.Response, error) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return nil, err
	}
	code, body := http.StatusOK, c.tokens
	switch {
	case strings.HasSuffix(r.URL.Path, "/render"):
		code, body = http.StatusForbidden, nil
	case strings.HasSuffix(r.URL.Path, "/count_tokens"):
		body = fmt.Appendf(nil, `{"input_tokens":%d}`, c.n)
	}
	return &http.Response{StatusCode: code, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(body)), Request: r}, nil
}

// BenchmarkRungsByAPI is what a new prompt costs the router, from the parsed
// body to its keys, where /tokenize is asked and the body is rewritten for it:
// everything but the engine's own time and the network.
func BenchmarkRungsByAPI(b *testing.B) {
	hasher := radix.NewHasher(bytes.Repeat([]byte("k"), 32))
	bodies := map[openai.Endpoint]string{
		openai.Chat:      `{"model":"m","messages":[{"role":"system","content":"%s"},{"role":"user","content":"0000000000"}]}`,
		openai.Messages:  `{"model":"m","max_tokens":5,"system":[{"type":"text","text":"%s"}],"messages":[{"role":"user","content":[{"type":"text","text":"0000000000"}]}]}`,
		openai.Responses: `{"model":"m","instructions":"%s","input":[{"role":"user","content":[{"type":"input_text","text":"0000000000"}]}]}`,
	}
	for _, engine := range []string{"vllm", "sglang"} {
		for _, endpoint := range []openai.Endpoint{openai.Chat, openai.Messages, openai.Responses} {
			for _, characters := range []int{1000, 100_000} {
				b.Run(fmt.Sprintf("%s/%s/%dk", engine, asks[endpoint], characters/1000), func(b *testing.B) {
					n := characters / 4
					ids := strings.Repeat("12345, ", n-1) + "7"
					tok, err := token.New(token.Config{
						Hasher: hasher, Grid: 16, Mode: "auto", Deadline: time.Minute,
						Transport: closedEngine{n, fmt.Appendf(nil, `{"tokens":[%s],"count":%d,"max_model_len":131072}`, ids, n)},
					})
					if err != nil {
						b.Fatal(err)
					}
					defer tok.Close()
					r, err := openai.Parse(endpoint, fmt.Appendf(nil, bodies[endpoint], strings.Repeat("x", characters)))
					if err != nil {
						b.Fatal(err)
					}
					serial := 0
					q := &token.Query{
						Model: "m", Kind: asks[endpoint], Engines: []token.Oracle{{URL: "http://engine", Engine: engine}},
						Text: r.AppendCanonical, Ask: askOf[endpoint],
						Body: func() []byte {
							body := r.PromptBody()
							copy(body[bytes.Index(body, []byte("0000000000")):], fmt.Appendf(nil, "%010d", serial))
							return body
						},
					}
					b.SetBytes(int64(characters))
					b.ReportAllocs()
					for b.Loop() {
						serial++
						if k := tok.Keys(context.Background(), q); k.Rung() != token.Tokenize {
							b.Fatalf("%s by %s", k.Rung(), k.Reason)
						}
					}
				})
			}
		}
	}
}
