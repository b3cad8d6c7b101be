package policy

import "math"

// pour raises the lowest bases to one common level so that work seconds fit:
// sum over live of max(0, level-base) = work.
//
// The sum is convex and piecewise linear in the level, so Newton's method
// from above reaches the level exactly, in at most as many rounds as there
// are distinct bases (3-6 in practice), without sorting.
func (q *query) pour(work float64) {
	if work <= 0 {
		return
	}
	lowest := math.MaxFloat64
	for _, i := range q.live {
		lowest = min(lowest, q.base[i])
	}
	level := lowest + work
	// The level only falls, so only those below the first one can be raised.
	q.low = q.low[:0]
	for _, i := range q.live {
		if q.base[i] < level {
			q.low = append(q.low, i)
		}
	}
	for range q.live {
		sum, count := work, 0.0
		for _, i := range q.low {
			if q.base[i] < level {
				sum += q.base[i]
				count++
			}
		}
		if next := sum / count; next < level {
			level = next
			continue
		}
		break
	}
	for _, i := range q.low {
		q.base[i] = max(q.base[i], level)
	}
}
