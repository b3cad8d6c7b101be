package disagg

import (
	"context"
	"sync"
)

// running are the prefill legs that may outlive their request's answer.
type running struct {
	wg sync.WaitGroup

	mu     sync.Mutex // guards below
	cancel map[*Try]context.CancelCauseFunc
}

func (r *running) begin(t *Try, cancel context.CancelCauseFunc, run func()) {
	r.mu.Lock()
	if r.cancel == nil {
		r.cancel = map[*Try]context.CancelCauseFunc{}
	}
	r.cancel[t] = cancel
	r.mu.Unlock()
	r.wg.Go(func() {
		defer func() {
			cancel(nil)
			r.mu.Lock()
			delete(r.cancel, t)
			r.mu.Unlock()
		}()
		run()
	})
}

// stop ends all of them and waits. No other may begin.
func (r *running) stop() {
	r.mu.Lock()
	for _, cancel := range r.cancel {
		cancel(context.Canceled)
	}
	r.mu.Unlock()
	r.wg.Wait()
}
