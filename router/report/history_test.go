package report

import (
	"testing"
	"time"

	"github.com/banyan-llm/banyan/router/console"
)

// TestI4TheHistoryIsThatOfTheLastQuarterOfAnHour: one point in ten seconds.
func TestI4TheHistoryIsThatOfTheLastQuarterOfAnHour(t *testing.T) {
	var h History
	at := time.Unix(1000, 0)
	for range 3600 {
		h.Keep(at, func() console.Point { return console.Point{TimeMs: at.UnixMilli()} })
		at = at.Add(time.Second)
	}
	list := h.Points()
	if len(list) != historyPoints || list[1].TimeMs-list[0].TimeMs != historyEvery.Milliseconds() || at.UnixMilli()-list[historyPoints-1].TimeMs > historyEvery.Milliseconds() {
		t.Errorf("I4: %d points from %d", len(list), list[0].TimeMs)
	}
	list[0].TimeMs = 0
	if h.Points()[0].TimeMs == 0 {
		t.Error("what was handed out is what is kept")
	}
}
