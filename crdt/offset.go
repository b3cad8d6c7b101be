package crdt

// offsetWindow is how long a clock offset is believed, ms.
const offsetWindow = 60_000

// ClockOffset estimates, per connection, how far a sender's clock lies behind
// ours plus the shortest way: the minimum of (received - sent) over 60 s. The
// zero value is ready.
type ClockOffset struct {
	// mins is a queue of candidates, increasing in value and in time: at most
	// one a second is kept, so it holds at most 62.
	mins []offsetSample
}

type offsetSample struct{ at, value int64 }

// Add notes a frame stamped sent by its sender and received now, both ms.
func (o *ClockOffset) Add(sent, nowMs int64) {
	v := nowMs - sent
	n := len(o.mins)
	for n > 0 && o.mins[n-1].value >= v {
		n--
	}
	o.mins = o.mins[:n]
	if n == 0 || nowMs-o.mins[n-1].at >= 1000 {
		o.mins = append(o.mins, offsetSample{nowMs, v})
	}
	drop := 0
	for drop < len(o.mins)-1 && nowMs-o.mins[drop].at > offsetWindow {
		drop++
	}
	o.mins = o.mins[:copy(o.mins, o.mins[drop:])]
}

// Value is the offset in ms; 0 before the first frame.
func (o *ClockOffset) Value() int64 {
	if len(o.mins) == 0 {
		return 0
	}
	return o.mins[0].value
}

// Age is how old a frame stamped sent is now, ms, never negative.
func (o *ClockOffset) Age(sent, nowMs int64) int64 { return max(0, nowMs-sent-o.Value()) }
