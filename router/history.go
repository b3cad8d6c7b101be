package router

import (
	"sync"
	"time"

	"github.com/banyan-llm/banyan/router/console"
)

// historyEvery and historyPoints make the last 15 minutes of the page.
const (
	historyEvery  = 10 * time.Second
	historyPoints = 90
)

// history keeps the page's four numbers, so that a page that was just opened
// shows what came before.
type history struct {
	mu   sync.Mutex // guards below
	list []console.Point
}

// keep adds a point if the last one is old enough.
func (h *history) keep(now time.Time, point func() console.Point) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := len(h.list); n > 0 && now.UnixMilli()-h.list[n-1].TimeMs < historyEvery.Milliseconds() {
		return
	}
	if len(h.list) == historyPoints {
		h.list = append(h.list[:0], h.list[1:]...)
	}
	h.list = append(h.list, point())
}

func (h *history) points() []console.Point {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]console.Point(nil), h.list...)
}

// point is the four numbers of now.
func (g *page) point(now time.Time) console.Point {
	out := console.Point{TimeMs: now.UnixMilli()}
	rate := 0.0
	for _, v := range g.loads.Vitals() {
		rate += v.Rate
	}
	out.Rate = &rate
	if r := g.report.recent.since(now, g.metrics); r != nil {
		if r.PromptTokens > 0 {
			out.Cached = new(float64(r.CachedTokens) / float64(r.PromptTokens))
		}
		out.TTFT, out.Added = r.TTFTMs.P50, r.AddedMs.P50
	}
	return out
}
