package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

// Limits of one answer.
const (
	maxLine  = 1 << 20 // bytes of one SSE line
	maxText  = 8 << 20 // bytes of text kept
	maxError = 4096    // bytes of an error answer kept
)

// Cause says why a request failed; a closed list.
type Cause string

// The causes.
const (
	CauseConnect Cause = "connect" // no answer came
	CauseTimeout Cause = "timeout" // it took longer than allowed
	CauseClient  Cause = "status_4xx"
	CauseServer  Cause = "status_5xx"
	CauseStatus  Cause = "status_other"
	CauseCut     Cause = "cut"       // the stream ended before [DONE]
	CauseError   Cause = "error"     // the stream said so
	CauseBad     Cause = "malformed" // what came is no answer
	CauseStopped Cause = "stopped"   // our own side ended it
)

// Answer is what one request came to.
type Answer struct {
	Peer, Replica string        // as Banyan's headers say; "" elsewhere
	Status        int           // HTTP
	TTFT          time.Duration // to the first content
	Total         time.Duration // to the end
	Prompt        int           // tokens, as the engine reports
	Cached        int           // tokens, as the engine reports
	CachedKnown   bool          // it did report them
	Output        int           // tokens as reported, else chunks of content
	Text          string        // the generated text
	Began         bool          // a byte of the answer had come
	Retried       bool
	Cause         Cause // "" if Err is nil
	Err           error
}

// fail notes why it ended.
func (a *Answer) fail(ctx context.Context, cause Cause, err error) {
	var slow net.Error
	switch {
	case errors.Is(err, context.DeadlineExceeded) || errors.Is(ctx.Err(), context.DeadlineExceeded):
		cause = CauseTimeout
	case errors.Is(err, context.Canceled):
		cause = CauseStopped
	case errors.As(err, &slow) && slow.Timeout():
		cause = CauseTimeout
	}
	a.Cause, a.Err = cause, err
}

// chunk is the part of a streamed answer that is read.
type chunk struct {
	Choices []struct {
		Delta struct {
			Content   string `json:"content"`
			Reasoning string `json:"reasoning_content"`
		} `json:"delta"`
		Text string `json:"text"`
	} `json:"choices"`
	Usage *struct {
		PromptTokens     int `json:"prompt_tokens"`
		CompletionTokens int `json:"completion_tokens"`
		Details          *struct {
			CachedTokens int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	} `json:"usage"`
	Error *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// read consumes the stream up to [DONE].
func (a *Answer) read(body io.Reader, start time.Time) (Cause, error) {
	lines := bufio.NewScanner(body)
	lines.Buffer(make([]byte, 16<<10), maxLine)
	var text strings.Builder
	defer func() { a.Text, a.Total = text.String(), time.Since(start) }()
	for lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data:"))
		if !ok {
			continue
		}
		if data = bytes.TrimSpace(data); string(data) == "[DONE]" {
			return "", nil
		}
		var ch chunk
		if err := json.Unmarshal(data, &ch); err != nil {
			return CauseBad, fmt.Errorf("chunk is not JSON: %w", err)
		}
		if ch.Error != nil {
			return CauseError, errors.New(ch.Error.Message)
		}
		a.take(&ch, &text, start)
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return CauseBad, err
	} else if err != nil {
		return CauseCut, err
	}
	return CauseCut, io.ErrUnexpectedEOF
}

// take adds one chunk.
func (a *Answer) take(ch *chunk, text *strings.Builder, start time.Time) {
	for _, choice := range ch.Choices {
		if choice.Delta.Content+choice.Delta.Reasoning+choice.Text == "" {
			continue
		}
		if a.TTFT == 0 {
			a.TTFT = time.Since(start)
		}
		a.Output++
		if piece := choice.Delta.Content + choice.Text; text.Len()+len(piece) <= maxText {
			text.WriteString(piece)
		}
	}
	if u := ch.Usage; u != nil {
		a.Prompt = max(u.PromptTokens, 0)
		if u.CompletionTokens > 0 {
			a.Output = u.CompletionTokens
		}
		if u.Details != nil {
			a.Cached, a.CachedKnown = max(u.Details.CachedTokens, 0), true
		}
	}
}
