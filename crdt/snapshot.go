package crdt

// Snapshot is the whole state of one stream, cut at one moment: the base at
// the floor, the slots above it and the context. It is staged by the receiver
// and joined atomically.
type Snapshot struct {
	Stream  StreamID
	Context Context
	Base    Sum
	Pieces  [][]byte // encoded Rows, each at most 64 KiB
	Above   []Slot
}

// linked is how many linked facts the pieces hold, as the base says, but not
// more than their bytes can.
func (s *Snapshot) linked() int {
	bytes := 0
	for _, p := range s.Pieces {
		bytes += len(p)
	}
	return int(min(s.Base.Linked, uint64(bytes/(pageBytes+8))))
}

// Outcome tells what a join did.
type Outcome struct {
	NewSlots    int    // slots that were not known before
	NewEpoch    bool   // the delta opened a newer incarnation
	Stale       bool   // the delta was of an older incarnation: ignored
	Conflicts   int    // slots with a known dot but other content (healed to the larger hash)
	Overflow    bool   // limits exceeded: the stream was forgotten and wants a snapshot
	Invalid     int    // slots that no Builder wrote: ignored
	Full        bool   // the stream does not fit here: the delta was ignored
	Quarantined bool   // too many epochs: the delta was ignored
	Floor       uint64 // floor after the join
	Holes       []Span // missing slots below the highest known one
}
