package fleet

import (
	"time"

	"github.com/banyan-llm/banyan/router/load"
)

// Weight is what slow start leaves of the replica's weight now: less than 1
// for a while after it came up or was discovered, never 0. One atomic load.
func (r *Replica) Weight(now time.Time) float64 {
	rose := r.rose.Load()
	if rose == 0 {
		return 1
	}
	return load.SlowStart(time.Duration(r.ms(now)-rose)*time.Millisecond, r.slowStart)
}

// ms is the wall clock's time when the fleet was made and what passed since:
// setting the wall clock ends no ramp.
func (r *Replica) ms(now time.Time) int64 {
	return r.began.UnixMilli() + now.Sub(r.began).Milliseconds()
}
