//go:build unix

package router

import (
	"syscall"
	"time"
)

// cpuTime is what the process has used of all processors. On a machine shared
// with others it says more about a single-threaded piece of work than the
// clock does.
func cpuTime() time.Duration {
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
