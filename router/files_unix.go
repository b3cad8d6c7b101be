//go:build unix

package router

import "syscall"

// openFiles is how many files this process may open; 0 if that is not known.
// The runtime has raised the soft limit to the hard one already.
func openFiles() uint64 {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	return uint64(limit.Cur) //nolint:unconvert // signed on some systems
}
