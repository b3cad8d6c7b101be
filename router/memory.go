package router

import (
	"os"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// shares is what the parts of a peer may have of the memory of its process, in
// bytes. They make up less than the whole, so that none of them can take what
// another one has: who wants more waits (events: their engine's connection is not
// read), is refused (bodies: 429), or is dropped and comes again (slots, copies).
// The rest is for code, connections, and what the collector has not taken yet.
type shares struct {
	tree      int64 // limits.memory
	bodies    int64 // of requests, with what is made of them
	questions int64 // to engines, for the token ids of prompts; they may outlive their request
	events    int64 // being received, waiting and being decoded, of all engines
	above     int64 // slots that wait for one that is missing
	ring      int64 // recent slots, kept for other peers
	staged    int64 // full copies of streams being received
}

// sharesOf divides the memory of the process; 0 if that is not known. Each part
// has a size beyond which more is of no use, and one below which it does not work.
func sharesOf(process, tree, largestBody int64) shares {
	part := func(of, least, most int64) int64 {
		if process == 0 {
			return most
		}
		return max(min(process/of, most), least)
	}
	s := shares{
		tree:      tree,
		bodies:    part(8, 2*largestBody, 1<<30),
		questions: part(16, 16<<20, 256<<20),
		events:    part(16, 32<<20, 256<<20),
		above:     part(16, 8<<20, 256<<20),
		ring:      part(32, 8<<20, 64<<20),
		staged:    part(16, 64<<20, 512<<20),
	}
	if tree == 0 {
		s.tree = process / 2
	}
	return s
}

// processMemory is the limit of the container, or else the machine's memory; 0
// if neither is known.
func processMemory() int64 {
	n, err := memlimit.ApplyFallback(memlimit.FromCgroup, memlimit.FromSystem)()
	if err != nil {
		return 0
	}
	return int64(n)
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

// heapLimitFor is four fifths of the process's memory less the trees, in
// steps of a hundredth; a fifth at least, below which the collector would take
// all of the CPU.
func heapLimitFor(process, trees int64) int64 {
	step := max(process/100, 1)
	return max(process-process/5-(trees+step-1)/step*step, process/5)
}
