//go:build !unix

package workload

// offHeap is n zeroes, here on the heap.
func offHeap(n int) []uint32 { return make([]uint32, n) }
