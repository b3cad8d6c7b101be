package router

import (
	"sync"

	"github.com/banyan-llm/banyan/router/openai"
	"github.com/banyan-llm/banyan/router/policy"
)

// traffic sums up the answers that came through this peer.
type traffic struct {
	mu  sync.Mutex // guards below
	sum policy.Traffic
}

// add counts one answer; cached is of the replica that computed the prompt.
func (t *traffic) add(u *openai.Usage, cached int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sum.Requests++
	t.sum.Input += float64(u.Prompt)
	t.sum.Cached += float64(cached)
	t.sum.Output += float64(u.Completion)
}

func (t *traffic) total() policy.Traffic {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sum
}
