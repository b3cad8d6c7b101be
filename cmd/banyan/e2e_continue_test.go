//go:build e2e

package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
)

// continued is what a client read of a stream.
type continued struct {
	replica, id string
	pieces      []string // of text, one an event
	finish      string
	usage       struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
	}
	ids  map[string]bool // of the chunks
	done bool
	err  error
}

func (c *continued) text() string { return strings.Join(c.pieces, "") }

// follow reads a stream and calls at after each event with text.
func follow(t *testing.T, url, path, body string, header http.Header, at func(c *continued)) *continued {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, values := range header {
		req.Header[name] = values
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		raw, _ := io.ReadAll(res.Body)
		t.Fatalf("status %d: %s", res.StatusCode, raw)
	}
	c := &continued{replica: res.Header.Get("X-Banyan-Replica"), id: res.Header.Get("X-Request-Id"), ids: map[string]bool{}}
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		switch {
		case !ok:
			continue
		case data == "[DONE]":
			c.done = true
			continue
		}
		var chunk struct {
			ID      string
			Choices []struct {
				Text   string
				Delta  struct{ Content string }
				Finish string `json:"finish_reason"`
				IDs    []int  `json:"token_ids"`
			}
			Usage json.RawMessage
			Error json.RawMessage
		}
		if err := json.Unmarshal([]byte(data), &chunk); err != nil || chunk.Error != nil {
			t.Fatalf("%s: %v", data, err)
		}
		c.ids[chunk.ID] = true
		if len(chunk.Usage) > len("null") {
			_ = json.Unmarshal(chunk.Usage, &c.usage)
		}
		for _, choice := range chunk.Choices {
			if choice.IDs != nil {
				t.Fatalf("token ids that nobody asked for: %s", data)
			}
			c.finish += choice.Finish
			if piece := choice.Text + choice.Delta.Content; piece != "" {
				c.pieces = append(c.pieces, piece)
				if at != nil {
					at(c)
				}
			}
		}
	}
	c.err = lines.Err()
	return c
}

// A replica is killed, by SIGKILL, while it answers. The client reads one whole
// answer; the figures and `banyan why` say what happened. Without the setting it
// reads a stream that broke off.
func TestAnAnswerOutlivesItsReplica(t *testing.T) {
	replicas := map[string]*process{"r0": replicaProcess(t, "r0"), "r1": replicaProcess(t, "r1"), "r2": replicaProcess(t, "r2")}
	peers := meshWith(t, 2, "limits: {continue_streams: true}\n", replicas["r0"], replicas["r1"], replicas["r2"])
	p := peers[1]
	url := "http://" + p.said["http"]
	kill := func(c *continued) {
		if len(c.pieces) == 1 {
			_ = replicas[c.replica].cmd.Process.Kill()
			<-replicas[c.replica].done
		}
	}
	const chat = `{"model":"m","messages":[{"role":"user","content":"Tell me a story."}],"stream":true,"stream_options":{"include_usage":true},"max_tokens":1000}`
	const text = `{"model":"m","prompt":"Once upon a time","stream":true,"stream_options":{"include_usage":true},"max_tokens":1000}`
	var last string
	for _, x := range []struct{ path, body string }{{"/v1/chat/completions", chat}, {"/v1/completions", text}} {
		c := follow(t, url, x.path, x.body, nil, kill)
		words := len(strings.ReplaceAll(c.text(), " ", "")) / 5 // a stand-in's words have five letters
		if c.err != nil || words != 1000 || c.finish != "length" || c.usage.Completion != 1000 || c.usage.Prompt == 0 || len(c.ids) != 1 || !c.done {
			t.Errorf("%s at %s: %d words, finish %q, usage %+v, ids %v, done %v, %v", x.path, c.replica, words, c.finish, c.usage, c.ids, c.done, c.err)
		}
		why, _ := p.why(c.id)
		if !strings.Contains(why, "it went on from token") || !strings.Contains(why, "answered by r") || strings.Contains(why, "FAILED") {
			t.Errorf("why does not tell: %s", why)
		}
		if last == c.replica {
			t.Errorf("%s answers though it is dead", last)
		}
		last = c.replica
	}
	if n := p.counted(`banyan_lost_streams_total{outcome="continued"}`); n != 2 {
		t.Errorf("%v streams are counted as continued", n)
	}
	if n := p.counted("banyan_answers_cut_total"); n != 0 {
		t.Errorf("%v answers are counted as cut", n)
	}
	for _, p := range peers {
		p.stop()
	}
}
