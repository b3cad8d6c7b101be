package kvevents

import (
	"fmt"

	"github.com/banyan-llm/banyan/crdt"
)

// Engine is the software a replica runs.
type Engine uint8

// The engines.
const (
	VLLM Engine = iota
	SGLang
	TRTLLM
)

// ParseEngine reads "vllm", "sglang" or "trtllm".
func ParseEngine(s string) (Engine, error) {
	for _, e := range []Engine{VLLM, SGLang, TRTLLM} {
		if s == e.String() {
			return e, nil
		}
	}
	return 0, fmt.Errorf("engine %q is not vllm, sglang or trtllm", s)
}

// String is the name used in configuration.
func (e Engine) String() string {
	switch e {
	case VLLM:
		return "vllm"
	case SGLang:
		return "sglang"
	case TRTLLM:
		return "trtllm"
	}
	return fmt.Sprintf("engine(%d)", uint8(e))
}

// Mode is how the engine's stores and removals count: vLLM announces every
// physical copy, the others presence.
func (e Engine) Mode() crdt.Mode {
	if e == VLLM {
		return crdt.Counted
	}
	return crdt.Flagged
}

// pageFlag is the engine's option that sets its block size.
func (e Engine) pageFlag() string {
	switch e {
	case SGLang:
		return "--page-size"
	case TRTLLM:
		return "--tokens_per_block"
	}
	return "--block-size"
}

// tierOf maps an engine's medium to a tier. ok is false for media that are not
// this replica's own: a medium nobody told us about is never taken for GPU,
// and remote or shared storage, whose evictions nobody reports, is no fact
// about one replica.
func tierOf(medium, locality string) (t crdt.Tier, ok bool) {
	switch medium {
	case "", "GPU":
		return crdt.TierGPU, true
	case "CPU", "CPU_PINNED", "CPU_TIER1", "CPU_TIER2":
		return crdt.TierCPU, true
	case "STORAGE", "FS":
		return crdt.TierDisk, locality == "LOCAL"
	}
	return 0, false
}

// describesPrefix reports whether a cache group of this kind holds the whole
// prefix, so that its blocks say what a new request can reuse.
func describesPrefix(kind string) bool {
	switch kind {
	case "", "full_attention", "mla_attention", "sink_full_attention":
		return true
	}
	return false
}

// knownKind reports whether the kind is one whose meaning we know: vLLM 0.32's
// KVCacheSpecKind without its "unknown". The blocks of a group of any other
// kind are left out, and an operator is told.
func knownKind(kind string) bool {
	switch kind {
	case "sliding_window", "sliding_window_mla", "mamba", "chunked_local_attention",
		"encoder_only_attention", "cross_attention":
		return true
	}
	return describesPrefix(kind)
}
