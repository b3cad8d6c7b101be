//go:build e2e

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// asked is one request of a talker and what came of it.
type asked struct {
	at, end        time.Time
	set            string // which talkers
	peer, replica  string // as the answer says; of a request without answer, the peer its connection had reached before
	prompt, cached int    // tokens, as the engine reports
	began          bool   // a byte of the answer came
	err            error
}

// talkers are clients of one kind. Each keeps its connection alive, sends one
// request after the other and never retries.
type talkers struct {
	set     string
	url     string // base URL
	dial    func(ctx context.Context, network, address string) (net.Conn, error)
	clients int
	output  [2]int           // tokens an answer has, from and to
	think   [2]time.Duration // between an answer and the next request
	turns   int              // of a conversation, before a new one begins
	limit   time.Duration    // of one request; 0: 30 s
}

// record collects what all talkers ask.
type record struct {
	mu   sync.Mutex // guards below
	all  []asked
	stop bool
}

// between returns what was asked from one time to another.
func (r *record) between(from, to time.Time) (out []asked) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.all {
		if !a.at.Before(from) && a.at.Before(to) {
			out = append(out, a)
		}
	}
	return out
}

func (r *record) add(a asked) (goOn bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, a)
	return !r.stop
}

// run lets the talkers talk until end is called; end waits for the answers in
// flight.
func (r *record) run(sets ...talkers) (end func()) {
	var wg sync.WaitGroup
	for _, s := range sets {
		for i := range s.clients {
			t := newTalker(s, i)
			wg.Go(func() {
				for r.add(t.next()) {
					t.pause()
				}
				t.http.CloseIdleConnections()
			})
		}
	}
	return sync.OnceFunc(func() {
		r.mu.Lock()
		r.stop = true
		r.mu.Unlock()
		wg.Wait()
	})
}

// talker is one client with one connection.
type talker struct {
	talkers
	id      int
	http    http.Client
	rand    *rand.Rand
	reached string // the peer that this connection leads to, once an answer told
	talk    []message
	turn    int
}

func newTalker(s talkers, id int) *talker {
	t := &talker{talkers: s, id: id, rand: rand.New(rand.NewPCG(uint64(id), 7))}
	dial := s.dial
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	t.http.Transport = &http.Transport{
		MaxConnsPerHost: 1, MaxIdleConnsPerHost: 1,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			t.reached = ""
			return dial(ctx, network, address)
		},
	}
	return t
}

func (t *talker) draw(from, to int) int { return from + t.rand.IntN(to-from+1) }

func (t *talker) pause() {
	time.Sleep(time.Duration(t.draw(int(t.think[0]), int(t.think[1]))))
}

// next asks the conversation's next question.
func (t *talker) next() asked {
	if t.turn++; t.talk == nil || t.turn > t.turns {
		t.turn = 1
		topic := strings.Repeat(fmt.Sprintf("Topic %d has many words. ", t.id%8), 50)
		t.talk = []message{{"system", topic}, {"user", fmt.Sprintf("Client %s %d begins %d.", t.set, t.id, t.rand.Uint64())}}
	}
	a := asked{at: time.Now(), set: t.set}
	reply, err := t.ask(&a)
	a.end, a.err = time.Now(), err
	if err == nil && a.peer == "" {
		a.err = errors.New("the answer names no peer")
	}
	t.reached = a.peer
	t.talk = append(t.talk, message{"assistant", reply}, message{"user", fmt.Sprintf("And then, %d?", t.turn)})
	return a
}

// ask sends the conversation and reads the whole stream.
func (t *talker) ask(a *asked) (reply string, err error) {
	limit := t.limit
	if limit == 0 {
		limit = 30 * time.Second
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	body, err := json.Marshal(map[string]any{
		"model": "m", "messages": t.talk, "max_tokens": t.draw(t.output[0], t.output[1]), "ignore_eos": true,
		"stream": true, "stream_options": map[string]bool{"include_usage": true},
	})
	if err != nil {
		return "", err
	}
	// A body that cannot be read twice: net/http must not retry silently.
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.url+"/v1/chat/completions", io.NopCloser(bytes.NewReader(body)))
	if err != nil {
		return "", err
	}
	req.ContentLength = int64(len(body))
	req.Header.Set("Content-Type", "application/json")
	res, err := t.http.Do(req)
	if err != nil {
		a.peer = t.reached
		return "", err
	}
	defer res.Body.Close()
	a.began, a.peer, a.replica = true, res.Header.Get("X-Banyan-Peer"), res.Header.Get("X-Banyan-Replica")
	if res.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(res.Body, 1<<10))
		return "", fmt.Errorf("status %d: %s", res.StatusCode, text)
	}
	return a.read(res.Body)
}

// read consumes a stream to its end, which must come after [DONE].
func (a *asked) read(body io.Reader) (text string, err error) {
	var reply strings.Builder
	done := false
	lines := bufio.NewScanner(body)
	for lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		if !ok {
			continue
		}
		if string(data) == "[DONE]" {
			done = true
			continue
		}
		var chunk struct {
			Choices []struct{ Delta struct{ Content string } }
			Usage   *struct {
				Prompt  int `json:"prompt_tokens"`
				Details struct {
					Cached int `json:"cached_tokens"`
				} `json:"prompt_tokens_details"`
			}
			Error *struct{ Message string }
		}
		if err := json.Unmarshal(data, &chunk); err != nil {
			return "", fmt.Errorf("chunk is not JSON: %w", err)
		}
		if chunk.Error != nil {
			return "", errors.New(chunk.Error.Message)
		}
		for _, c := range chunk.Choices {
			reply.WriteString(c.Delta.Content)
		}
		if chunk.Usage != nil {
			a.prompt, a.cached = chunk.Usage.Prompt, chunk.Usage.Details.Cached
		}
	}
	if err := lines.Err(); err != nil {
		return "", err
	}
	if !done {
		return "", io.ErrUnexpectedEOF
	}
	return reply.String(), nil
}

// cachedShare is the cached part of all prompt tokens.
func cachedShare(all []asked) float64 {
	prompt, cached := 0, 0
	for _, a := range all {
		prompt += a.prompt
		cached += a.cached
	}
	if prompt == 0 {
		return 0
	}
	return float64(cached) / float64(prompt)
}

// failures are those that failed.
func failures(all []asked) (out []asked) {
	for _, a := range all {
		if a.err != nil {
			out = append(out, a)
		}
	}
	return out
}
