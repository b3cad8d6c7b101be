package console

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// gossip tells how late news comes, and what travels between this peer and
// those it is connected to now.
func (m *Mesh) gossip() (out [][2]string) {
	text := "propagation p50 " + millis(m.PropagationMs.P50) + ", p99 " + millis(m.PropagationMs.P99)
	if len(m.Snapshots) > 0 {
		text += "; snapshots taken: " + byAmount(m.Snapshots, count)
	}
	out = append(out, [2]string{"mesh", text})
	for _, way := range []struct {
		name  string
		bytes map[string]uint64
	}{{"received", m.BytesIn}, {"sent", m.BytesOut}} {
		if len(way.bytes) > 0 {
			out = append(out, [2]string{way.name, sum(way.bytes) + ": " + byAmount(way.bytes, sizeText)})
		}
	}
	return out
}

// byAmount lists what is not nought, the most first.
func byAmount(m map[string]uint64, text func(uint64) string) string {
	names := slices.SortedFunc(maps.Keys(m), func(a, b string) int {
		return cmp.Or(cmp.Compare(m[b], m[a]), cmp.Compare(a, b))
	})
	var parts []string
	for _, name := range names {
		if m[name] > 0 {
			parts = append(parts, name+" "+text(m[name]))
		}
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}
