package standin

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"
)

// kvSource names another engine that holds a part of the prompt (vLLM's P2P
// tier). Stand-ins ask each other over HTTP: their P2P address is the one they
// answer at.
type kvSource struct {
	Request string `json:"kv_request_id"`
	Host    string `json:"remote_host"`
	Port    int    `json:"remote_port"`
}

// kvPerToken is how long a token's KV takes to come: 262 kB over 200 Gb/s.
const kvPerToken = 10 * time.Microsecond

// heldPrompt is a prompt that another stand-in asks for.
type heldPrompt struct {
	Tokens []uint32 `json:"tokens"`
	Lora   string   `json:"lora"`
	Salt   string   `json:"salt"`
}

// fetch gets the KV of prompts from the engine that the body names. What does
// not come is computed.
func (s *Server) fetch(ctx context.Context, b *body, gens []*generation) {
	if b.Transfer == nil || b.Transfer.Source == nil || s.cfg.Engine != VLLM {
		return
	}
	from := b.Transfer.Source
	if from.Request == "" || from.Host == "" || from.Port == 0 {
		return
	}
	for _, g := range gens {
		n := s.ask(ctx, from, &heldPrompt{Tokens: g.tokens, Lora: g.lora, Salt: g.salt})
		s.mu.Lock()
		s.fetched += uint64(n)
		s.mu.Unlock()
		g.given = max(g.given, n)
		select {
		case <-time.After(time.Duration(float64(n) * float64(kvPerToken) / s.cfg.TimeScale)):
		case <-ctx.Done():
		}
	}
}

// ask is how many tokens of a prompt another engine has; 0 if it does not answer.
func (s *Server) ask(ctx context.Context, from *kvSource, p *heldPrompt) int {
	raw, err := json.Marshal(p)
	if err != nil {
		return 0
	}
	ctx, cancel := context.WithTimeout(ctx, shutdownTimeout)
	defer cancel()
	url := "http://" + net.JoinHostPort(from.Host, strconv.Itoa(from.Port)) + "/standin/kv"
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(raw))
	if err != nil {
		return 0
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0
	}
	defer res.Body.Close()
	var held struct {
		Cached int `json:"cached"`
	}
	if json.NewDecoder(io.LimitReader(res.Body, 1<<10)).Decode(&held) != nil {
		return 0
	}
	return max(0, min(held.Cached, len(p.Tokens)-1))
}

// handKV answers how much of a prompt is cached.
func (s *Server) handKV(w http.ResponseWriter, r *http.Request) {
	var p heldPrompt
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBodyBytes)).Decode(&p); err != nil || len(p.Tokens) == 0 {
		s.fail(w, badRequest("want the tokens of a prompt"))
		return
	}
	cached := 0
	for _, eng := range s.all() {
		cached = max(cached, eng.holds(&p))
	}
	writeJSON(w, map[string]int{"cached": cached})
}

// holds is how many tokens of a prompt the engine has cached.
func (e *engine) holds(p *heldPrompt) int {
	g := &generation{tokens: p.Tokens, lora: p.Lora, salt: p.Salt, output: 1}
	e.name(g)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.dead {
		return 0
	}
	return e.model.Cached(g.keys, len(g.tokens))
}
