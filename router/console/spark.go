package console

import (
	"fmt"
	"strings"
)

// sparkMs is what the four numbers' lines show.
const sparkMs = 15 * 60 * 1000

// Line is one number over the last 15 minutes: points of a polyline in a box of
// 100 by 24, and the number's range in words.
type Line struct {
	Points string `json:"points"`
	Range  string `json:"range"`
}

// sparks draws the four numbers. Now is at the right, 15 minutes ago at the
// left, and 0 at the bottom.
func sparks(history []Point, nowMs int64) map[string]Line {
	return map[string]Line{
		"rate":   spark(history, nowMs, func(p *Point) *float64 { return p.Rate }, func(v *float64) string { return number(v, 1) }),
		"cached": spark(history, nowMs, func(p *Point) *float64 { return p.Cached }, share),
		"ttft":   spark(history, nowMs, func(p *Point) *float64 { return p.TTFT }, millis),
		"added":  spark(history, nowMs, func(p *Point) *float64 { return p.Added }, millis),
	}
}

func spark(history []Point, nowMs int64, of func(*Point) *float64, text func(*float64) string) Line {
	most := 0.0
	for i := range history {
		if v := of(&history[i]); v != nil {
			most = max(most, *v)
		}
	}
	var out strings.Builder
	for i := range history {
		p := &history[i]
		v, ago := of(p), nowMs-p.TimeMs
		if v == nil || ago < 0 || ago > sparkMs {
			continue
		}
		y := 22.0
		if most > 0 {
			y -= 20 * *v / most
		}
		fmt.Fprintf(&out, "%.1f,%.1f ", 100-100*float64(ago)/sparkMs, y)
	}
	return Line{Points: strings.TrimSpace(out.String()), Range: "0 to " + text(&most)}
}
