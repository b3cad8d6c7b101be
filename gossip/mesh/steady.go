package mesh

import "time"

// steady turns a wall clock into one that never stands still or runs back:
// where the wall clock was set back, it goes at half speed until it is caught
// up with. The core plans by its clock; one that stood would stop heartbeats.
type steady struct {
	last time.Time // as read from the wall clock, with its monotonic part
	out  time.Time
}

func (s *steady) read(wall time.Time) time.Time {
	elapsed := max(0, wall.Sub(s.last)) // monotonic where there is such a part
	s.last = wall
	plain := wall.Round(0)
	if plain.After(s.out) {
		s.out = plain
	} else {
		s.out = s.out.Add(elapsed / 2)
	}
	return s.out
}
