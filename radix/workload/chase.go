package workload

// Cycle is a random cycle through 256 MB, for a yardstick: each step along it
// (at = next[at]) is one dependent cache miss. It takes seconds to make.
func Cycle() []uint32 {
	const n = 1 << 26
	next := make([]uint32, n)
	for i := range next {
		next[i] = uint32(i)
	}
	for i := n - 1; i > 0; i-- {
		j := Mix(uint64(i)) % uint64(i)
		next[i], next[j] = next[j], next[i]
	}
	return next
}
