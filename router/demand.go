package router

import (
	"sync"

	"github.com/banyan-llm/banyan/router/policy"
)

// demand is what this peer is asked for, by all requests at once.
type demand struct {
	mu   sync.Mutex // guards what follows
	seen policy.Demand
}

// ask counts a try; see policy.Demand.
func (d *demand) ask(req *policy.Request, nowMs int64) float64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.seen.Ask(req, nowMs)
}
