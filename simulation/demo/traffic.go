package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/banyan-llm/banyan/simulation/workload"
)

// traffic sends one workload and collects what came of it.
type traffic struct {
	client *client
	load   *workload.Workload
	policy string
	model  string
	// sent is called before each request with the share of requests sent, from
	// the sending goroutine; it must not block.
	sent func(done, total int)

	mu      sync.Mutex // guards below
	answers []answer
	replies map[uint64]string // generated texts by segment, for the next turn
	begun   int
}

// run sends every request at its time and waits for all of them.
func (t *traffic) run(ctx context.Context) {
	requests := t.load.Requests
	t.answers = make([]answer, len(requests))
	t.replies = map[uint64]string{}
	finished := make([]chan struct{}, len(requests))
	for i := range finished {
		finished[i] = make(chan struct{})
	}
	start := time.Now()
	var wg sync.WaitGroup
	for i := range requests {
		wg.Go(func() {
			defer close(finished[i])
			r := &requests[i]
			if r.After >= 0 {
				select {
				case <-finished[r.After]:
				case <-ctx.Done():
				}
				sleep(ctx, seconds(r.Think))
			}
			sleep(ctx, time.Until(start.Add(seconds(r.At))))
			if ctx.Err() != nil {
				t.answers[i] = answer{Err: ctx.Err()}
				return
			}
			t.one(ctx, i, r)
		})
	}
	wg.Wait()
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func sleep(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func (t *traffic) one(ctx context.Context, i int, r *workload.Request) {
	t.mu.Lock()
	t.begun++
	begun := t.begun
	t.mu.Unlock()
	if t.sent != nil {
		t.sent(begun, len(t.load.Requests))
	}
	path, body, err := t.body(r)
	if err != nil {
		t.answers[i] = answer{Err: err}
		return
	}
	header := http.Header{"X-Banyan-Policy": {t.policy}}
	if r.Session >= 0 {
		header.Set("X-Banyan-Session", fmt.Sprintf("demo-%d", r.Session))
	}
	a := t.client.ask(ctx, path, body, header)
	t.mu.Lock()
	t.answers[i] = a
	t.replies[r.Reply] = a.Text
	t.mu.Unlock()
}

// body writes the request as a client library would.
func (t *traffic) body(r *workload.Request) (path string, body []byte, err error) {
	ask := map[string]any{
		"model": t.model, "max_tokens": r.Output, "stream": true,
		"stream_options": map[string]bool{"include_usage": true},
	}
	path = "/v1/completions"
	if r.Chat() {
		path = "/v1/chat/completions"
		ask["messages"] = r.Messages(func(segment uint64) (string, bool) {
			t.mu.Lock()
			defer t.mu.Unlock()
			text, ok := t.replies[segment]
			return text, ok && text != ""
		})
	} else {
		ask["prompt"] = r.AppendTokens(nil)
	}
	body, err = json.Marshal(ask)
	return path, body, err
}
