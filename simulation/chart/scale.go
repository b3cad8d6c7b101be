package chart

import (
	"math"
	"slices"
)

// maxValue bounds what is drawn; beyond, arithmetic on axes would overflow.
const maxValue = 1e15

// scale maps values to pixels.
type scale struct {
	log      bool
	min, max float64 // of the values, in log10 if log
	from, to float64 // pixels
}

// newScale covers the values; a linear one begins at 0 if zero is asked for.
// Without a usable value it covers 1 to 10.
func newScale(values []float64, log, zero bool, from, to float64) scale {
	s := scale{log: log, min: math.Inf(1), max: math.Inf(-1), from: from, to: to}
	for _, v := range values {
		if !s.takes(v) {
			continue
		}
		s.min, s.max = math.Min(s.min, s.plain(v)), math.Max(s.max, s.plain(v))
	}
	if s.min > s.max {
		s.min, s.max = s.plain(1), s.plain(10)
	}
	if zero && !log {
		s.min = math.Min(s.min, 0)
	}
	if s.max-s.min < 1e-9*math.Max(1, math.Abs(s.max)) {
		s.min, s.max = s.min-0.5, s.max+0.5
	}
	return s
}

// takes reports whether the scale has a place for v.
func (s *scale) takes(v float64) bool {
	return math.Abs(v) < maxValue && (!s.log || v > 1/maxValue)
}

func (s *scale) plain(v float64) float64 {
	if s.log {
		return math.Log10(v)
	}
	return v
}

// at is the pixel of a value.
func (s *scale) at(v float64) float64 {
	return s.from + (s.plain(v)-s.min)/(s.max-s.min)*(s.to-s.from)
}

// room widens the scale by a share on its upper end.
func (s *scale) room(share float64) { s.max += (s.max - s.min) * share }

// ticks are round values inside the scale, about n of them.
func (s *scale) ticks(n int) []float64 {
	if s.log {
		return s.logTicks(n)
	}
	return evenTicks(s.min, s.max, n)
}

// evenTicks are at most n+1 multiples of a round step.
func evenTicks(from, to float64, n int) []float64 {
	step := math.Pow(10, math.Floor(math.Log10((to-from)/float64(n))))
	for _, f := range []float64{1, 2, 5, 10} {
		if (to-from)/(step*f) <= float64(n) {
			step *= f
			break
		}
	}
	var out []float64
	for i := math.Ceil(from/step - 1e-9); i*step <= to+1e-9*step; i++ {
		out = append(out, i*step+0) // + 0: no minus before a zero
	}
	return out
}

// logTicks takes 1, 2, 5 of every decade, or as much of it as fits; even steps
// where that would leave less than three.
func (s *scale) logTicks(n int) []float64 {
	var out []float64
	for _, mantissas := range [][]float64{{1, 2, 5}, {1, 3}, {1}} {
		out = out[:0]
		for d := math.Floor(s.min); d <= s.max; d++ {
			for _, m := range mantissas {
				if v := m * math.Pow(10, d); s.plain(v) >= s.min-1e-9 && s.plain(v) <= s.max+1e-9 {
					out = append(out, v)
				}
			}
		}
		if len(out) <= n {
			break
		}
	}
	if len(out) < 3 && s.max-s.min < 2 {
		return evenTicks(math.Pow(10, s.min), math.Pow(10, s.max), n)
	}
	return slices.Clip(out)
}
