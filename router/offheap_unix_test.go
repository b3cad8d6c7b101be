//go:build unix

package router

import (
	"syscall"
	"unsafe"
)

// offHeap moves a big slice out of the collector's sight: on the heap it would
// put collections off, and allocations would never find warm memory.
func offHeap(s []uint32) []uint32 {
	size := len(s) * 4
	b, err := syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return s
	}
	out := unsafe.Slice((*uint32)(unsafe.Pointer(&b[0])), len(s))
	copy(out, s)
	return out
}
