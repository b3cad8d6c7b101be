package follow

// MaxStart bounds start times, ms since 1970 (the year 10889).
const MaxStart = 1<<startBits - 1

const startBits = 48

// Name is the epoch of a process by its start time (ms since 1970, at most
// MaxStart), above the highest epoch known of its stream: that epoch itself if
// it is the name of this start.
func Name(known, start uint64) uint64 {
	generation := known >> startBits
	if start < StartOf(known) {
		generation++ // the engine's clock was set back
	}
	return generation<<startBits | start
}

// StartOf is the start time in an epoch, ms since 1970.
func StartOf(epoch uint64) uint64 { return epoch & MaxStart }
