package crdt

// Tier is where a copy lies.
type Tier uint8

// The tiers, fastest first.
const (
	TierGPU Tier = iota
	TierCPU
	TierDisk
	Tiers = 3
)

// Mode says how an engine's stores and removals count.
type Mode uint8

const (
	// Counted engines (vLLM) store and remove each physical copy.
	Counted Mode = iota
	// Flagged engines (SGLang, TensorRT-LLM) announce presence.
	Flagged
)

// Meta is the value of one fact in one word: bits 0-7, 8-15, 16-23 count
// copies on GPU, CPU and disk (saturating at 255); bits 24-63 are the seq of
// the last store (40 bits: 34 years at 1,000 slots a second).
// radix.Meta has the same layout.
type Meta uint64

const (
	metaSeqShift = 24
	copiesMask   = 1<<metaSeqShift - 1
	maxCopies    = 255
)

// NewMeta packs copies and the seq of the last store.
func NewMeta(seq uint64, gpu, cpu, disk uint8) Meta {
	return Meta(seq<<metaSeqShift | uint64(disk)<<16 | uint64(cpu)<<8 | uint64(gpu))
}

// Seq is the sequence number of the slot that last stored the fact.
func (m Meta) Seq() uint64 { return uint64(m) >> metaSeqShift }

// Copies counts the copies on one tier.
func (m Meta) Copies(t Tier) int { return int(uint64(m)>>(8*t)) & 0xff }

// Present reports whether any tier holds a copy.
func (m Meta) Present() bool { return m&copiesMask != 0 }

// Store folds one store on tier t at seq.
func (m Meta) Store(mode Mode, t Tier, seq uint64) Meta {
	n := m.Copies(t)
	if mode == Flagged {
		n = 1
	} else if n < maxCopies {
		n++
	}
	shift := 8 * t
	m = m&^(0xff<<shift) | Meta(n)<<shift
	return m&copiesMask | Meta(seq)<<metaSeqShift
}

// Remove folds one removal on tier t; it never counts below zero.
func (m Meta) Remove(mode Mode, t Tier) Meta {
	n := m.Copies(t)
	if mode == Flagged {
		n = 0
	} else if n > 0 {
		n--
	}
	shift := 8 * t
	return m&^(0xff<<shift) | Meta(n)<<shift
}
