package router

import (
	"os"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// What the parts of a peer may have of the memory of its process. The rest is
// connections, answers in flight and what the collector has not taken yet.
const (
	treeShare   = 2 // limits.memory: a half
	bodiesShare = 8 // request bodies being held: an eighth, each is parsed beside
	bodiesMost  = 1 << 30
)

// processMemory is the limit of the container, or else the machine's memory; 0
// if neither is known.
func processMemory() int64 {
	n, err := memlimit.ApplyFallback(memlimit.FromCgroup, memlimit.FromSystem)()
	if err != nil {
		return 0
	}
	return int64(n)
}

// treeMemory is limits.memory, or its share of what the process may have.
func treeMemory(configured, process int64) int64 {
	if configured > 0 {
		return configured
	}
	return process / treeShare
}

// bodiesMemory is what request bodies may take together: two of the largest at
// least.
func bodiesMemory(largest, process int64) int64 {
	if process == 0 {
		return bodiesMost
	}
	return max(min(process/bodiesShare, bodiesMost), 2*largest)
}

// heapLimit makes Go's garbage collector work harder before the kernel kills
// the process. The trees lie outside of what it looks after, so they are taken
// off. Where GOMEMLIMIT is set, the operator has decided.
type heapLimit struct {
	process int64 // bytes; 0: unknown, or not ours to say
	set     int64
}

func newHeapLimit(process int64) *heapLimit {
	if os.Getenv("GOMEMLIMIT") != "" {
		process = 0
	}
	return &heapLimit{process: process}
}

// follow tells the collector of the trees' size.
func (h *heapLimit) follow(trees int64) {
	if h.process == 0 {
		return
	}
	if limit := heapLimitFor(h.process, trees); limit != h.set {
		h.set = limit
		debug.SetMemoryLimit(limit)
	}
}

// heapLimitFor is nine tenths of the process's memory less the trees, in
// steps of a hundredth; a fifth at least, below which the collector would take
// all of the CPU.
func heapLimitFor(process, trees int64) int64 {
	step := max(process/100, 1)
	return max(process-process/10-(trees+step-1)/step*step, process/5)
}
