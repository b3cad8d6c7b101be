//go:build race

package policy

// raceDetector: sync.Pool forgets at random under it, so what a decision
// allocates is judged without it.
const raceDetector = true
