package demo

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/banyan-llm/banyan/simulation/client"
	"github.com/banyan-llm/banyan/simulation/workload"
)

// requestTimeout bounds one request of the demo.
const requestTimeout = 30 * time.Second

// traffic sends one workload and collects what came of it.
type traffic struct {
	client *client.Client
	writer client.Writer
	load   *workload.Workload
	policy string
	// sent is called before each request with the share of requests sent, from
	// the sending goroutine; it must not block.
	sent func(done, total int)

	mu      sync.Mutex // guards below
	answers []client.Answer
	begun   int
}

// run sends every request at its time and waits for all of them.
func (t *traffic) run(ctx context.Context) {
	requests := t.load.Requests
	t.answers = make([]client.Answer, len(requests))
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
				t.answers[i] = client.Answer{Err: ctx.Err()}
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
	path, body, err := t.writer.Body(r)
	if err != nil {
		t.answers[i] = client.Answer{Err: err}
		return
	}
	header := http.Header{"X-Banyan-Policy": {t.policy}}
	if r.Session >= 0 {
		header.Set("X-Banyan-Session", fmt.Sprintf("demo-%d", r.Session))
	}
	a := t.client.Ask(ctx, path, body, header)
	t.writer.Remember(r, a.Text)
	t.answers[i] = a
}
