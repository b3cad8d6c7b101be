package fleet

import "time"

// minWeight is the share of its normal part a replica gets in its first
// moments.
const minWeight = 0.1

// ramp is the slow start as a pure function: from minWeight at rise to 1 after
// length, in a straight line.
func ramp(age, length time.Duration) float64 {
	switch {
	case length <= 0 || age >= length:
		return 1
	case age <= 0:
		return minWeight
	}
	return minWeight + (1-minWeight)*float64(age)/float64(length)
}

// Weight is what slow start leaves of the replica's weight now: less than 1
// for a while after it came up or was discovered, never 0. One atomic load.
func (r *Replica) Weight(now time.Time) float64 {
	rose := r.rose.Load()
	if rose == 0 {
		return 1
	}
	return ramp(time.Duration(r.ms(now)-rose)*time.Millisecond, r.slowStart)
}

// ms is the wall clock's time when the fleet was made and what passed since:
// setting the wall clock ends no ramp.
func (r *Replica) ms(now time.Time) int64 {
	return r.began.UnixMilli() + now.Sub(r.began).Milliseconds()
}
