package index

import (
	"sync/atomic"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/radix"
)

// Ref is a replica's fixed place in the index: what readers look through to
// find the holder of its shown incarnation. Their number is bounded by the
// replicas listed and those that left lately (Sweep).
type Ref struct {
	ID crdt.StreamID

	confirmed atomic.Uint32 // holder + 1 in the tree; 0 none
	predicted atomic.Uint32 // holder + 1 in the predicted tree; 0 none
	lastSlot  atomic.Int64  // ms of the last applied slot; 0 never
	flags     atomic.Uint32 // what a Match must look at more closely
	blocks    atomic.Int64  // grid blocks of the shown incarnation's facts
}

// Flags of a Ref.
const (
	flagSuspect  = 1 << iota // some facts are suspect
	flagHybrid               // other cache groups say where a prefix can be reused
	flagAnchored             // some facts hang below blocks that no event told of
	flagAhead                // some pages can be reused only before a certain token
)

func (r *Ref) show(h radix.Holder)       { r.confirmed.Store(uint32(h) + 1) }
func (r *Ref) shows(h radix.Holder) bool { return r.confirmed.Load() == uint32(h)+1 }

// hide ends the holder's visibility if it is the shown one.
func (r *Ref) hide(h radix.Holder) bool { return r.confirmed.CompareAndSwap(uint32(h)+1, 0) }

// Blocks is about how many grid blocks the replica holds on any of its tiers,
// as of the last delta joined: its facts, each taken for as long as the page
// linked last.
func (r *Ref) Blocks() int { return int(r.blocks.Load()) }

// eventFedMs is how long after its last slot a stream still counts as fed by
// events.
const eventFedMs = 10 * 60 * 1000

// EventFed reports whether the replica's stream had a slot in the last ten
// minutes: then predictions are short-lived, because events will confirm them.
func (r *Ref) EventFed(nowMs int64) bool {
	last := r.lastSlot.Load()
	return last != 0 && nowMs-last < eventFedMs
}

// SinceSlot is the ms since the stream's last applied slot; ok is false if
// there was none.
func (r *Ref) SinceSlot(nowMs int64) (ms int64, ok bool) {
	last := r.lastSlot.Load()
	return nowMs - last, last != 0
}
