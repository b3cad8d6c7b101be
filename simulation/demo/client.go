package demo

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

const (
	requestTimeout = 30 * time.Second
	maxLine        = 1 << 20 // bytes of one SSE line
	retryPause     = 50 * time.Millisecond
)

// answer is what one request came to.
type answer struct {
	Peer, Replica string
	Status        int
	TTFT          time.Duration // to the first content chunk
	Prompt        int           // tokens, as the engine reports
	Cached        int           // tokens, as the engine reports
	Text          string        // the generated text
	Began         bool          // a byte of the answer had come
	Retried       bool
	Err           error
}

// chunk is the part of a streamed or whole answer that the client reads.
type chunk struct {
	Choices []struct {
		Delta struct {
			Content string `json:"content"`
		} `json:"delta"`
		Text string `json:"text"`
	} `json:"choices"`
	Usage *struct {
		PromptTokens int `json:"prompt_tokens"`
		Details      *struct {
			CachedTokens int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	} `json:"usage"`
	Error *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// client speaks the OpenAI API the plain way. Every request opens a new
// connection, so that the balancer chooses a peer each time.
type client struct {
	http http.Client
	url  string
}

func newClient(url string) *client {
	return &client{url: url, http: http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
}

// ask sends one request and reads the whole stream. It tries once more if no
// byte of an answer had come.
func (c *client) ask(ctx context.Context, path string, body []byte, header http.Header) answer {
	a := c.once(ctx, path, body, header)
	if a.Err == nil || a.Began || ctx.Err() != nil {
		return a
	}
	time.Sleep(retryPause)
	again := c.once(ctx, path, body, header)
	again.Retried = true
	return again
}

func (c *client) once(ctx context.Context, path string, body []byte, header http.Header) (a answer) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+path, bytes.NewReader(body))
	if err != nil {
		return answer{Err: err}
	}
	req.Header = header.Clone()
	req.Header.Set("Content-Type", "application/json")
	start := time.Now()
	res, err := c.http.Do(req)
	if err != nil {
		return answer{Err: err}
	}
	defer res.Body.Close()
	a = answer{
		Began: true, Status: res.StatusCode,
		Peer: res.Header.Get("X-Banyan-Peer"), Replica: res.Header.Get("X-Banyan-Replica"),
	}
	if res.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(res.Body, 4096))
		a.Began = false // an error answer before any content may be tried again
		a.Err = fmt.Errorf("status %d: %s", res.StatusCode, bytes.TrimSpace(text))
		return a
	}
	a.Err = a.read(res.Body, start)
	return a
}

// read consumes the stream up to [DONE].
func (a *answer) read(body io.Reader, start time.Time) error {
	lines := bufio.NewScanner(body)
	lines.Buffer(make([]byte, 16<<10), maxLine)
	var text strings.Builder
	defer func() { a.Text = text.String() }()
	for lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		if !ok {
			continue
		}
		if string(data) == "[DONE]" {
			return nil
		}
		var ch chunk
		if err := json.Unmarshal(data, &ch); err != nil {
			return fmt.Errorf("chunk is not JSON: %w", err)
		}
		if ch.Error != nil {
			return errors.New(ch.Error.Message)
		}
		for _, choice := range ch.Choices {
			if piece := choice.Delta.Content + choice.Text; piece != "" {
				if a.TTFT == 0 {
					a.TTFT = time.Since(start)
				}
				text.WriteString(piece)
			}
		}
		if ch.Usage != nil {
			a.Prompt = ch.Usage.PromptTokens
			if ch.Usage.Details != nil {
				a.Cached = ch.Usage.Details.CachedTokens
			}
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return io.ErrUnexpectedEOF
}
