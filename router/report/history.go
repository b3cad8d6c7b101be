package report

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

// History keeps the page's four numbers, so that a page that was just opened
// shows what came before.
type History struct {
	mu   sync.Mutex // guards below
	list []console.Point
}

// Keep adds a point if the last one is old enough.
func (h *History) Keep(now time.Time, point func() console.Point) {
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

// Points are those kept, oldest first.
func (h *History) Points() []console.Point {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]console.Point(nil), h.list...)
}
