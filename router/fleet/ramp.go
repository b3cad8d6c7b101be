package fleet

import (
	"time"

	"github.com/banyan-llm/banyan/router/load"
)

// Weight is what slow start and failed answers leave of the replica's weight now:
// less than 1 for a while after it came up, was discovered or was left out, never
// 0. Atomic loads.
func (r *Replica) Weight(now time.Time) float64 {
	ms := r.ms(now)
	w := r.trusted(ms)
	if rose := r.rose.Load(); rose != 0 {
		w *= load.SlowStart(time.Duration(ms-rose)*time.Millisecond, r.slowStart)
	}
	return w
}

// ms is the wall clock's time when the fleet was made and what passed since:
// setting the wall clock ends no ramp.
func (r *Replica) ms(now time.Time) int64 {
	return r.began.UnixMilli() + now.Sub(r.began).Milliseconds()
}
