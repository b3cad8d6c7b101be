package load

import "time"

// minWeight is the share of its normal part a replica gets in its first
// moments.
const minWeight = 0.1

// SlowStart is what is left of the weight of a replica that came up so long
// ago: from minWeight to 1 after length, in a straight line.
func SlowStart(age, length time.Duration) float64 {
	switch {
	case length <= 0 || age >= length:
		return 1
	case age <= 0:
		return minWeight
	}
	return minWeight + (1-minWeight)*float64(age)/float64(length)
}
