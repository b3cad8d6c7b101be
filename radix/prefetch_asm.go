//go:build amd64 || arm64

package radix

import "unsafe"

// prefetch begins to load the cache line at p. Unlike a load nothing waits for
// it.
//
//go:noescape
func prefetch(p unsafe.Pointer)
