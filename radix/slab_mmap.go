//go:build (linux || darwin || freebsd) && !race

package radix

import "syscall"

// mapBytes maps n zeroed bytes; pages cost nothing until touched.
func mapBytes(n int) []byte {
	b, err := syscall.Mmap(-1, 0, n, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return heapBytes(n)
	}
	return b
}

// unmapBytes undoes mapBytes. For memory that came from the heap Munmap finds
// no mapping, refuses, and the collector takes it.
func unmapBytes(b []byte) { _ = syscall.Munmap(b) }
