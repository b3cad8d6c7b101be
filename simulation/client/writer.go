package client

import (
	"encoding/json"
	"sync"

	"github.com/banyan-llm/banyan/simulation/workload"
)

// Writer writes a workload's requests as a client library would. Later turns
// carry what was really answered before. Safe for use by many goroutines.
type Writer struct {
	Model     string
	Vocab     int  // token ids below it are sent for prompts that are no chats; 0: their text is
	IgnoreEOS bool // ask vLLM to produce every token; other servers may refuse the field

	mu      sync.Mutex        // guards below
	replies map[uint64]string // generated texts by segment, for the next turn
}

// Remember keeps an answer's text for the turns after it.
func (w *Writer) Remember(r *workload.Request, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.replies == nil {
		w.replies = make(map[uint64]string)
	}
	w.replies[r.Reply] = text
}

func (w *Writer) reply(segment uint64) (string, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := w.replies[segment]
	return text, text != ""
}

// Body is the request's path and JSON: a chat, or a completion of text or of
// token ids.
func (w *Writer) Body(r *workload.Request) (path string, body []byte, err error) {
	ask := map[string]any{
		"model": w.Model, "max_tokens": max(r.Output, 1), "stream": true,
		"stream_options": map[string]bool{"include_usage": true},
	}
	if w.IgnoreEOS {
		ask["ignore_eos"] = true
	}
	path = "/v1/completions"
	if r.Chat() {
		path = "/v1/chat/completions"
		ask["messages"] = r.Messages(w.reply)
	} else if ids := r.AppendTokens(nil); w.Vocab > 0 {
		for i := range ids {
			ids[i] %= uint32(w.Vocab)
		}
		ask["prompt"] = ids
	} else {
		ask["prompt"] = workload.Text(ids)
	}
	body, err = json.Marshal(ask)
	return path, body, err
}
