package radix

import (
	"math"
	"math/bits"
)

// expect lays an empty table out for about n entries, whose hashes are spread: it
// gets the parts that it would come to have, all vacant, and the first entry of
// each, or prepare, takes the buckets for all. Another table stays as it is.
func (t *table) expect(n int) {
	if t.count > 0 || len(t.dir) > 1 || t.infos[0].hint > 0 || n <= int(limit(minLog)) {
		return
	}
	// A part that should be just full may get more, and splits.
	const full = float64(29 << maxLog / 4)
	depth := uint8(0)
	for depth < maxSplits && float64(n)*below(1/float64(int(1)<<depth)) > full {
		depth++ // the first part is the densest
	}
	size := 1 << depth
	among := func(from, to int) float64 {
		return float64(n) * (below(float64(to)/float64(size)) - below(float64(from)/float64(size)))
	}
	t.dir, t.infos, t.shift, t.ready = make([]part, size), nil, 32-depth, 0
	for from := 0; from < size; {
		span := 1
		for from&(2*span-1) == 0 && 2*span <= size && among(from, from+2*span) <= full {
			span *= 2
		}
		info := partInfo{depth: depth - uint8(bits.TrailingZeros(uint(span))), hint: minLog}
		for want := among(from, from+span) * 32 / 31; info.hint < maxLog && want > float64(limit(info.hint)); {
			info.hint++
		}
		for i := range span {
			t.dir[from+i] = part{first: &vacant, id: uint32(len(t.infos))}
		}
		t.infos = append(t.infos, info)
		from += span
	}
}

// prepare takes the buckets of some parts that were laid out, and reports
// whether there are more.
func (t *table) prepare(parts int) (more bool) {
	for ; t.ready < len(t.dir); t.ready++ {
		if p := &t.dir[t.ready]; p.first != &vacant || t.infos[p.id].hint == 0 {
			continue
		}
		if parts--; parts < 0 {
			return true
		}
		t.grow(uint32(uint64(t.ready) << (t.shift & 63)))
	}
	return false
}

// below is the share of spread hashes below y, both from 0 to 1: the inverse of
// spread.
func below(y float64) float64 {
	const a, b = 0xA8000000p-32, 0x58000000p-32
	return (math.Sqrt(a*a+4*b*y) - a) / (2 * b)
}
