package policy

import (
	"errors"
	"fmt"
	"math"
)

// Config is what policies decide by; a policy reads its own section and Tiers.
// Start from DefaultConfig: the zero value is not valid. Fields with a YAML key
// are settings of an operator. The others are constants with their reasons in
// DECISIONS.md; they are fields so that an evaluation can vary them.
type Config struct {
	Tiers      TierConfig       `yaml:"tiers"`
	TTFT       TTFTConfig       `yaml:"ttft"`
	Disagg     DisaggConfig     `yaml:"disaggregate"`
	Hash       HashConfig       `yaml:"-"`
	CacheAware CacheAwareConfig `yaml:"-"`
	Cost       CostConfig       `yaml:"-"`
	Weighted   WeightedConfig   `yaml:"-"`
	Sticky     StickyConfig     `yaml:"-"`
}

// TierConfig prices cached tokens that are not on the GPU: seconds to bring
// one token's KV in. A tier is used only where that beats computing.
type TierConfig struct {
	CPU     float64 `yaml:"cpu" doc:"seconds to load one cached token from host memory"`
	Disk    float64 `yaml:"disk" doc:"seconds to load one cached token from disk or a remote store"`
	Pool    float64 `yaml:"pool" doc:"seconds to load one cached token from a cache that replicas share"`
	Peer    float64 `yaml:"-"` // seconds to fetch one cached token from another replica, until that is learned
	Ask     float64 `yaml:"-"` // seconds to ask another replica for tokens, whatever their number, until that is learned
	Suspect float64 `yaml:"-"` // share of suspect tokens that counts as cached, 0-1
}

// HashConfig is consistent_hash: Mirrokni, Thorup, Zadimoghaddam, "Consistent
// Hashing with Bounded Loads" (2018), over rendezvous order.
type HashConfig struct {
	LoadFactor float64 // most requests at one replica over the fleet's mean; from 1
}

// CacheAwareConfig is cache_aware (sgl-router, policies/cache_aware.rs).
type CacheAwareConfig struct {
	CacheThreshold float64 // matched share of the prompt above which the holder is taken, 0-1
	BalanceAbs     int     // requests between most and least loaded before load decides
	BalanceRel     float64 // ratio between them before load decides; from 1
	Gate           string  // GateFleet or GateCandidate
}

// CostConfig is cost (Dynamo, lib/kv-router scheduling/selector.rs).
type CostConfig struct {
	OverlapWeight float64 // weight of prefill blocks against decode blocks
	Temperature   float64 // softmax temperature over normalised costs; 0 picks the least
	Block         int     // tokens per block; the mesh's grid
	Host          float64 // credit of a block in host memory, 0-1
	Disk          float64 // credit of a block on disk or in a pool, 0-1
}

// WeightedConfig is weighted (llm-d router scorers, each 0-1, higher better).
type WeightedConfig struct {
	Prefix float64 // weight of prefix-cache-scorer
	Queue  float64 // weight of queue-scorer
	KV     float64 // weight of kv-cache-utilization-scorer
	Active float64 // weight of active-request-scorer
	Host   float64 // credit of a token in host memory, 0-1
}

// StickyConfig is sticky (llm-d's default since August 2026): replicas with
// at least Share of the prompt cached, among them the fewest uncached tokens
// in flight, released when the best of them leads the least busy replica by
// TauSeconds of prefill.
type StickyConfig struct {
	Share      float64 // cached share of the prompt that makes a replica warm, 0-1
	TauSeconds float64 // T_max: lead over the coldest replica that releases affinity, seconds at peak prefill rate
	PeakRate   float64 // R_peak, tokens a second; 0 takes it from the replica's rates
}

// TTFTConfig is ttft. Setting a weight to 0 (ProgressFloor and YoungCap to 1)
// removes that term. PourWeight, YoungCap and the guard only matter where
// several peers decide on delayed views. DECISIONS.md has what each is worth.
type TTFTConfig struct {
	StaleMs     float64 `yaml:"stale_ms" doc:"if the load or cache data of a peer is older than this (ms), consider only a few replicas per prompt, so that badly informed peers do not all choose the same one; 0 = off"`
	HolderSteps float64 `yaml:"holder_steps" doc:"choose the replica with the longest cached prefix unless its predicted first token is more than this many decode steps (of an idle replica) later than the best one's; higher = stickier; 0 = off"`

	ProgressFloor float64 `yaml:"-"` // least share of waiting prefill that still counts, 0-1; 1 gives no credit for progress
	StreamWeight  float64 `yaml:"-"` // idle decode steps that a decoding stream counts as
	WaitWeight    float64 `yaml:"-"` // weight of requests waiting at the replica, times own prefill
	MinWaitWeight float64 `yaml:"-"` // weight of the fewest requests waiting anywhere, times own prefill
	PourWeight    float64 `yaml:"-"` // share of the expected unseen work poured onto the lowest replicas
	YoungCap      int     `yaml:"-"` // most times an own dispatch that others may mirror unseen is counted
	GuardGap      float64 `yaml:"-"` // unseen decisions by score that a replica may have; beyond, the rest are drawn; 0 switches the guard off
	GuardShare    float64 `yaml:"-"` // share of replicas that must hold the prompt alike for the guard
	GuardDepth    float64 `yaml:"-"` // share of the prompt they must hold
	GuardBand     float64 `yaml:"-"` // how far their own prefill may lie from the winner's, relative
	StaleShare    float64 `yaml:"-"` // stale dispatches: a prompt without a session goes to so many times its share of requests of all replicas, if those are more than two; 0 never
	StaleSpill    float64 `yaml:"-"` // stale: how many times the cost of the one drawn at random the others may have and still be taken; 0 any
	StaleStay     float64 `yaml:"-"` // stale: how many times the least score the first rendezvous replica may have and still be taken; 1 only the least
	Spread        float64 `yaml:"-"` // how eagerly a prompt is computed again on a replica with far fewer streams; 0 never
	RoomWeight    float64 `yaml:"-"` // weight of what a copy pushes out where the cache is full; 0 none
	LiveWeight    float64 `yaml:"-"` // weight of what computing for a session pushes out of a cache that is all in use; 0 none
}

// DefaultConfig returns the documented defaults.
func DefaultConfig() Config {
	return Config{
		Tiers:      TierConfig{CPU: 5e-6, Disk: 2e-5, Pool: 1e-5, Peer: 1e-5, Ask: 0.05, Suspect: 0.5},
		Hash:       HashConfig{LoadFactor: 1.25},
		CacheAware: CacheAwareConfig{CacheThreshold: 0.3, BalanceAbs: 64, BalanceRel: 1.5, Gate: GateFleet},
		Cost:       CostConfig{OverlapWeight: 1, Block: 16, Host: 0.75, Disk: 0.25},
		Weighted:   WeightedConfig{Prefix: 3, Queue: 2, KV: 2, Host: 0.8},
		Sticky:     StickyConfig{Share: 0.8, TauSeconds: 2},
		TTFT: TTFTConfig{
			ProgressFloor: 0.1, StreamWeight: 0.5, WaitWeight: 1, MinWaitWeight: 1, PourWeight: 1,
			YoungCap: 16, GuardGap: 0.25, GuardShare: 0.8, GuardDepth: 0.5, GuardBand: 0.05,
			StaleMs: 3000, StaleShare: 3, StaleStay: 1.5, StaleSpill: 1, HolderSteps: 3, Spread: 0.1, RoomWeight: 0.8, LiveWeight: 6,
		},
		Disagg: defaultDisagg(),
	}
}

// The gates of cache_aware.
const (
	GateFleet     = "fleet"
	GateCandidate = "candidate"
)

// Validate reports every fault at once, each beginning with its key.
func (c *Config) Validate() error {
	var errs []error
	atLeast := func(key string, v float64) {
		if !(v >= 0 && v <= math.MaxFloat64) {
			errs = append(errs, fmt.Errorf("%s: must be 0 or more, not %v", key, v))
		}
	}
	atLeast("tiers.cpu", c.Tiers.CPU)
	atLeast("tiers.disk", c.Tiers.Disk)
	atLeast("tiers.pool", c.Tiers.Pool)
	atLeast("ttft.stale_ms", c.TTFT.StaleMs)
	atLeast("ttft.holder_steps", c.TTFT.HolderSteps)
	return errors.Join(append(errs, c.Disagg.validate())...)
}
