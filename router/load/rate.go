package load

import "math"

// rateWindow is the memory of a rate, seconds.
const rateWindow = 5.0

// rate counts events of late: one of t seconds ago counts exp(-t/rateWindow).
type rate struct {
	count     float64
	at, since int64 // ms of the last and the first event; 0: none
}

func (r *rate) add(n float64, nowMs int64) {
	if r.since == 0 { // it opens the window and says nothing of it
		r.since, r.at = nowMs, nowMs
		return
	}
	r.count = r.count*r.faded(nowMs) + n
	r.at = max(r.at, nowMs)
}

func (r *rate) faded(nowMs int64) float64 {
	return math.Exp(-float64(max(0, nowMs-r.at)) / 1000 / rateWindow)
}

// perSecond is the rate, also while less than the window has been seen; 0
// until a second event could have come.
func (r *rate) perSecond(nowMs int64) float64 {
	seen := float64(nowMs-r.since) / 1000
	if r.since == 0 || seen <= 0 {
		return 0
	}
	return r.count * r.faded(nowMs) / (rateWindow * -math.Expm1(-seen/rateWindow))
}
