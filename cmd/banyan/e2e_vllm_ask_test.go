//go:build e2e && e2e_vllm && linux

package main

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"strconv"
	"testing"
)

type object = map[string]any

// reply is an answer, whole.
type reply struct {
	status int
	header http.Header
	raw    []byte
	doc    object // of a body in JSON
}

func (p *process) url() string { return "http://" + p.said["http"] }

// ask sends a request. A body that is a string goes as it is.
func ask(t *testing.T, method, url string, body any, headers ...string) (r reply) {
	t.Helper()
	var raw []byte
	switch b := body.(type) {
	case nil:
	case string:
		raw = []byte(b)
	default:
		raw, _ = json.Marshal(b)
	}
	req, err := http.NewRequest(method, url, bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if r.raw, err = io.ReadAll(res.Body); err != nil {
		t.Fatalf("%s %s: %v after %d bytes", method, url, err, len(r.raw))
	}
	r.status, r.header = res.StatusCode, res.Header
	_ = json.Unmarshal(r.raw, &r.doc)
	return r
}

// sendPrompt is ask for a prompt that must be answered.
func sendPrompt(t *testing.T, url string, body any, headers ...string) reply {
	t.Helper()
	r := ask(t, http.MethodPost, url, body, headers...)
	if r.status != http.StatusOK {
		t.Fatalf("%s: status %d: %s", url, r.status, r.raw)
	}
	return r
}

// cached is how many tokens of the prompt the engine found, as each API says it.
func (r reply) cached(t *testing.T) int {
	t.Helper()
	usage, _ := r.doc["usage"].(object)
	for _, in := range []any{usage, usage["prompt_tokens_details"], usage["input_tokens_details"]} {
		in, _ := in.(object)
		for _, key := range []string{"cache_read_input_tokens", "cached_tokens"} {
			if n, ok := in[key].(float64); ok {
				return int(n)
			}
		}
	}
	t.Fatalf("no count of cached tokens: %s", r.raw)
	return 0
}

// matched is how many the router believed cached where it sent the prompt.
func (r reply) matched(t *testing.T) int {
	t.Helper()
	n, err := strconv.Atoi(r.header.Get("X-Banyan-Matched-Tokens"))
	if err != nil {
		t.Fatalf("matched: %v in %v", err, r.header)
	}
	return n
}

func (r reply) replica() string { return r.header.Get("X-Banyan-Replica") }

// with is a copy with more fields.
func (w *vllmWorld) with(body object, more ...any) object {
	out := maps.Clone(body)
	for i := 0; i < len(more); i += 2 {
		out[more[i].(string)] = more[i+1]
	}
	return out
}

// chat is the body of a chat completion.
func (w *vllmWorld) chat(messages ...object) object {
	return object{"model": "tiny", "messages": messages, "max_tokens": 8, "temperature": 0}
}

func say(role string, content any) object { return object{"role": role, "content": content} }

// ids is a prompt of token ids that no other begins like.
func (w *vllmWorld) ids(n int) []int {
	w.serial++
	out := make([]int, n)
	for i := range out {
		out[i] = 300 + (w.serial*977+i*31)%7000
	}
	return out
}

var weatherTool = object{"type": "function", "function": object{
	"name": "weather", "description": "Tells the weather of a place, in °C <or> °F & more.",
	"parameters": object{"type": "object", "required": []string{"place"}, "properties": object{
		"place": object{"type": "string", "description": "Übersicht"}, "days": object{"type": "integer", "minimum": 1, "maximum": 10},
	}},
}}
