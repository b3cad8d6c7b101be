package token

import (
	"context"
	"io"
	"net/http"
	"testing"
)

// vLLM from 0.30 on answers render with 403 unless it was started with
// --enable-scale-out; its tokenizer endpoint is always there.
func TestARenderThatIsDisabledFallsBackToTokenize(t *testing.T) {
	for code, body := range map[int]string{
		http.StatusForbidden:        `{"error":{"message":"Scale-out endpoints are disabled. Restart vllm serve with --enable-scale-out to enable them.","type":"PermissionDeniedError","param":null,"code":403}}`,
		http.StatusNotFound:         `{"detail":"Not Found"}`,
		http.StatusMethodNotAllowed: `{"detail":"Method Not Allowed"}`,
		http.StatusNotImplemented:   `{"error":{"message":"The model does not support Chat Completions Render API"}}`,
	} {
		e := newEngine(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/tokenize" {
				w.WriteHeader(code)
				_, _ = io.WriteString(w, body)
				return
			}
			_, _ = io.WriteString(w, `{"count":4,"max_model_len":9,"tokens":[1,2,3,4]}`)
		})
		tok := newTokenizer(t, nil)
		for i, text := range []string{"a", "b"} {
			if k := tok.Keys(context.Background(), textQuery(e, text)); k.Scheme != Engine || len(k.Keys) != 1 {
				t.Fatalf("%d, prompt %d: %s by %s, want exact keys", code, i, k.Scheme, k.Reason)
			}
		}
		if n := e.asked.Load(); n != 3 {
			t.Errorf("%d: %d questions, want render, tokenize, tokenize", code, n)
		}
	}
}
