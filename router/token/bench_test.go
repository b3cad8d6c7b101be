package token

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// canned answers every question at once with n token ids, in a shape.
type canned struct{ render, tokenize []byte }

func (c canned) RoundTrip(r *http.Request) (*http.Response, error) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return nil, err
	}
	body, code := c.tokenize, http.StatusOK
	if strings.HasSuffix(r.URL.Path, "/render") {
		if body = c.render; body == nil {
			code = http.StatusForbidden
		}
	}
	return &http.Response{StatusCode: code, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(body)), Request: r}, nil
}

// cannedFor answers for a prompt of so many characters: one token per four.
func cannedFor(characters int) canned {
	var ids strings.Builder
	for i := range characters / 4 {
		if i > 0 {
			ids.WriteString(", ")
		}
		ids.WriteString(strconv.Itoa(i * 7919 % 150_000))
	}
	return canned{
		render:   []byte(`{"request_id":"chatcmpl-0","token_ids":[` + ids.String() + `],"features":null,"sampling_params":{"max_tokens":4},"model":"m"}`),
		tokenize: []byte(fmt.Sprintf(`{"count":%d,"max_model_len":131072,"tokens":[%s],"token_strs":null}`, characters/4, ids.String())),
	}
}

// BenchmarkRungs is what each rung costs the router for one prompt: everything
// but the engine's own time and the network.
func BenchmarkRungs(b *testing.B) {
	for _, size := range []struct {
		name       string
		characters int
	}{{"1k", 1000}, {"100k", 100_000}} {
		engine := cannedFor(size.characters)
		for _, rung := range []string{"ids", "cached", "render", "tokenize", "text"} {
			b.Run(rung+"/"+size.name, func(b *testing.B) {
				with := engine
				if rung == "tokenize" {
					with.render = nil
				}
				tok, err := New(Config{Hasher: hasher, Grid: 16, Mode: "auto", Deadline: time.Minute, Transport: with})
				if err != nil {
					b.Fatal(err)
				}
				defer tok.Close()
				text := strings.Repeat("x", size.characters)
				body := []byte(`{"model":"m","messages":[{"role":"user","content":"` + text + `"}],"n":         0}`)
				q := &Query{
					Model: "m", Kind: Chat, Engines: []Oracle{{URL: "http://engine", Engine: "vllm"}},
					Text: func(dst []byte) []byte { return append(dst, text...) }, Body: func() []byte { return body },
				}
				switch rung {
				case "ids":
					q.Tokens = make([]uint32, size.characters/4)
				case "text":
					q.Body, q.Engines = nil, nil
				}
				n, want := 0, map[string]Rung{"cached": Render, "text": "text", "ids": "ids", "render": Render, "tokenize": Tokenize}[rung]
				b.SetBytes(int64(size.characters))
				b.ReportAllocs()
				for b.Loop() {
					if rung != "cached" { // every prompt is a new one
						n++
						q.Body = func() []byte { return strconv.AppendInt(body[:len(body):len(body)], int64(n), 10) }
					}
					if rung == "text" {
						q.Body = nil
					}
					if k := tok.Keys(context.Background(), q); k.Rung() != want {
						b.Fatalf("%s by %s", k.Rung(), k.Reason)
					}
				}
			})
		}
	}
}
