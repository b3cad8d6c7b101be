package standin

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"testing"
)

// start runs a stand-in for one test.
func start(t testing.TB, cfg Config) *Server {
	t.Helper()
	if cfg.Profile == "" {
		cfg.Profile = "fast"
	}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// post sends a JSON body and returns status and answer.
func post(t testing.TB, s *Server, path string, in any) (int, []byte) {
	t.Helper()
	b, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.Post(s.URL()+path, "application/json", bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	out, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, out
}

type obj = map[string]any

func TestSmoke(t *testing.T) {
	s := start(t, Config{Events: "tcp://127.0.0.1:0", Replay: "tcp://127.0.0.1:0"})
	_, b := post(t, s, "/v1/chat/completions", obj{"messages": []obj{{"role": "user", "content": "hello there, world"}}, "max_tokens": 5})
	t.Log(string(b))
	_, b = post(t, s, "/v1/chat/completions", obj{"messages": []obj{{"role": "user", "content": "hello there, world"}}, "max_tokens": 5, "stream": true, "stream_options": obj{"include_usage": true}, "return_token_ids": true})
	t.Log(string(b))
	_, b = post(t, s, "/v1/completions", obj{"prompt": []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18}, "max_tokens": 20})
	t.Log(string(b))
	_, b = post(t, s, "/v1/completions", obj{"prompt": []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18}, "max_tokens": 20, "stream": true})
	t.Log(string(b))
	_, b = post(t, s, "/v1/completions/render", obj{"prompt": "hello there, world"})
	t.Log(string(b))
	for _, p := range []string{"/metrics", "/v1/models", "/standin/state", "/standin/cache"} {
		res, err := http.Get(s.URL() + p)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(res.Body)
		res.Body.Close()
		t.Log(string(b))
	}
	if err := s.Restart(0); err != nil {
		t.Fatal(err)
	}
}
