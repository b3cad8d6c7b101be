//go:build !(amd64 || arm64)

package radix

import "unsafe"

// prefetch would begin to load the cache line at p.
func prefetch(unsafe.Pointer) {}
