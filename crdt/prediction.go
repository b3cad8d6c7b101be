package crdt

// PredictionSpace is one last-touched set: the predicted blocks of one replica
// in one namespace.
type PredictionSpace struct {
	Replica StreamID
	Root    uint64 // root key of the namespace
}

// Prediction says that a run of consecutive keys of one chain was, or was
// found not to be, at a replica at a time.
type Prediction struct {
	Space  PredictionSpace
	Time   int64  // ms, writer's clock
	TTL    int64  // ms
	Absent bool   // evidence that the blocks are not there
	Parent uint64 // key before the run (placement hint)
	Keys   []uint64
}

// PredictionSum is the XOR over one space's entries in one 16 s bucket of t.
type PredictionSum struct {
	Space  PredictionSpace
	Bucket int64
	XOR    uint64
	Count  uint32
}
