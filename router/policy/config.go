package policy

import (
	"errors"
	"fmt"
	"math"
)

// Config holds the knobs of every policy; a policy reads its own section and
// Tiers. Start from DefaultConfig: the zero value is not valid.
type Config struct {
	Tiers      TierConfig       `yaml:"tiers"`
	Hash       HashConfig       `yaml:"consistent_hash"`
	CacheAware CacheAwareConfig `yaml:"cache_aware"`
	Cost       CostConfig       `yaml:"cost"`
	Weighted   WeightedConfig   `yaml:"weighted"`
	Sticky     StickyConfig     `yaml:"sticky"`
	TTFT       TTFTConfig       `yaml:"ttft"`
	Disagg     DisaggConfig     `yaml:"disaggregate"`
}

// TierConfig prices cached tokens that are not on the GPU: seconds to bring
// one token's KV in. A tier is used only where that beats computing.
type TierConfig struct {
	CPU     float64 `yaml:"cpu" doc:"seconds per token from host memory"`
	Disk    float64 `yaml:"disk" doc:"seconds per token from disk or remote"`
	Pool    float64 `yaml:"pool" doc:"seconds per token from a shared cache layer"`
	Suspect float64 `yaml:"suspect" doc:"share of suspect tokens that counts as cached, 0-1"`
}

// HashConfig is consistent_hash: Mirrokni, Thorup, Zadimoghaddam, "Consistent
// Hashing with Bounded Loads" (2018), over rendezvous order.
type HashConfig struct {
	LoadFactor float64 `yaml:"load_factor" doc:"most requests at one replica, as a multiple of the fleet's mean; from 1"`
}

// CacheAwareConfig is cache_aware (sgl-router, policies/cache_aware.rs).
type CacheAwareConfig struct {
	CacheThreshold float64 `yaml:"cache_threshold" doc:"matched share of the prompt above which the holder is taken, 0-1"`
	BalanceAbs     int     `yaml:"balance_abs" doc:"requests between most and least loaded before load decides"`
	BalanceRel     float64 `yaml:"balance_rel" doc:"ratio between them before load decides; from 1"`
	Gate           string  `yaml:"gate" doc:"fleet: one imbalance switches the whole fleet to load (classic); candidate: only overloaded holders are passed over"`
}

// CostConfig is cost (Dynamo, lib/kv-router scheduling/selector.rs).
type CostConfig struct {
	OverlapWeight float64 `yaml:"overlap_weight" doc:"weight of prefill blocks against decode blocks"`
	Temperature   float64 `yaml:"temperature" doc:"softmax temperature over normalised costs; 0 picks the least"`
	Block         int     `yaml:"block" doc:"tokens per block; the mesh's grid"`
	Host          float64 `yaml:"host" doc:"credit of a block in host memory, 0-1"`
	Disk          float64 `yaml:"disk" doc:"credit of a block on disk or in a pool, 0-1"`
}

// WeightedConfig is weighted (llm-d router scorers, each 0-1, higher better).
type WeightedConfig struct {
	Prefix float64 `yaml:"prefix" doc:"weight of prefix-cache-scorer"`
	Queue  float64 `yaml:"queue" doc:"weight of queue-scorer"`
	KV     float64 `yaml:"kv" doc:"weight of kv-cache-utilization-scorer"`
	Active float64 `yaml:"active" doc:"weight of active-request-scorer"`
	Host   float64 `yaml:"host" doc:"credit of a token in host memory, 0-1"`
}

// StickyConfig is sticky (llm-d's default since August 2026): replicas with
// at least Share of the prompt cached, among them the fewest uncached tokens
// in flight, released when the best of them leads the least busy replica by
// TauSeconds of prefill.
type StickyConfig struct {
	Share      float64 `yaml:"share" doc:"cached share of the prompt that makes a replica warm, 0-1"`
	TauSeconds float64 `yaml:"tau_seconds" doc:"T_max: lead over the coldest replica, in seconds at peak prefill rate, that releases affinity"`
	PeakRate   float64 `yaml:"peak_rate" doc:"R_peak, tokens a second; 0 takes it from the replica's rates"`
}

// TTFTConfig is ttft. Setting a weight to 0 (progress_floor to 1, young_cap
// to 1) removes that term. pour_weight, young_cap and the guard only matter
// where several peers decide on delayed views. Six correct the predicted
// time rather than being part of it: holder_steps at 3 keeps .99 of a conversation's turns
// on one replica instead of .91; spread at .1 gives few hot prefixes to the
// whole fleet (TTFT 42 ms for 51, end to end a third less); stale_stay at 1.2
// keeps agents near session hashing's TTFT when views are 10 s old (49 ms for
// 57, hashing 48); stale_spill at 1 lets a hot prompt without sessions out of
// its two replicas then (151 ms for 47 s, random 128, while dispatches come at
// once), and stale_share at 3 gives it more of them where dispatches come 10 s
// late too (148 ms for 668); room_weight at .8 keeps prompts together where a
// copy pushes something else out (llm-d's B2B ladder 83 ms for 1.4 s, llm-d's own precise
// scorer 83).
type TTFTConfig struct {
	ProgressFloor float64 `yaml:"progress_floor" doc:"least share of waiting prefill that still counts, 0-1; 1 gives no credit for progress"`
	StreamWeight  float64 `yaml:"stream_weight" doc:"idle decode steps a decoding stream counts as"`
	WaitWeight    float64 `yaml:"wait_weight" doc:"weight of requests waiting at the replica, times own prefill"`
	MinWaitWeight float64 `yaml:"min_wait_weight" doc:"weight of the fewest requests waiting anywhere, times own prefill"`
	PourWeight    float64 `yaml:"pour_weight" doc:"share of the expected unseen work poured onto the lowest replicas"`
	YoungCap      int     `yaml:"young_cap" doc:"most times an own dispatch that others may mirror unseen is counted"`
	GuardGap      float64 `yaml:"guard_gap" doc:"unseen decisions by score that a replica may have; above it only so many are left to the score; 0 switches the guard off"`
	GuardShare    float64 `yaml:"guard_share" doc:"share of replicas that must hold the prompt alike for the guard"`
	GuardDepth    float64 `yaml:"guard_depth" doc:"share of the prompt they must hold"`
	GuardBand     float64 `yaml:"guard_band" doc:"how far their own prefill may lie from the winner's, relative"`
	StaleMs       float64 `yaml:"stale_ms" doc:"view age, load or index, beyond which only two rendezvous replicas, the best known holder and one drawn at random are considered; 0 never"`
	StaleShare    float64 `yaml:"stale_share" doc:"not knowing the dispatches of so long: a prompt without a session goes to so many times its share of this peer's requests of all replicas, if those are more than two; 0 never"`
	StaleSpill    float64 `yaml:"stale_spill" doc:"with such a view: how many times as much as the one drawn at random the others may cost and still be taken; with a session, or not knowing the latest dispatches, 8 times that; 0: whatever they cost"`
	StaleStay     float64 `yaml:"stale_stay" doc:"with such a view: how many times the least score the first rendezvous replica may have and still be taken; 1 or less: only the least"`
	HolderSteps   float64 `yaml:"holder_steps" doc:"idle decode steps by which the replica that holds most of the prompt may score worse and still be taken"`
	Spread        float64 `yaml:"spread" doc:"how eagerly a prompt is computed anew on a replica with far fewer streams: odds, times what that would have saved over what it costs; 0 never"`
	RoomWeight    float64 `yaml:"room_weight" doc:"weight of what a copy pushes out: computing what another replica holds already counts so many times more where the cache is full, less in proportion where it is not; 0 no more"`
	SessionSlack  float64 `yaml:"session_slack" doc:"seconds a session's own replica may score worse and still be taken; 0 no session affinity"`
}

// DefaultConfig returns the documented defaults.
func DefaultConfig() Config {
	return Config{
		Tiers:      TierConfig{CPU: 5e-6, Disk: 2e-5, Pool: 1e-5, Suspect: 0.5},
		Hash:       HashConfig{LoadFactor: 1.25},
		CacheAware: CacheAwareConfig{CacheThreshold: 0.3, BalanceAbs: 64, BalanceRel: 1.5, Gate: GateFleet},
		Cost:       CostConfig{OverlapWeight: 1, Block: 16, Host: 0.75, Disk: 0.25},
		Weighted:   WeightedConfig{Prefix: 3, Queue: 2, KV: 2, Host: 0.8},
		Sticky:     StickyConfig{Share: 0.8, TauSeconds: 2},
		TTFT: TTFTConfig{
			ProgressFloor: 0.1, StreamWeight: 0.5, WaitWeight: 1, MinWaitWeight: 1, PourWeight: 1,
			YoungCap: 16, GuardGap: 0.25, GuardShare: 0.8, GuardDepth: 0.5, GuardBand: 0.05,
			StaleMs: 3000, StaleShare: 3, StaleStay: 1.2, StaleSpill: 1, HolderSteps: 3, Spread: 0.1, RoomWeight: 0.8,
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
	between := func(key string, v, low, high float64) {
		if !(v >= low && v <= high) {
			errs = append(errs, fmt.Errorf("%s: %v is not from %v to %v", key, v, low, high))
		}
	}
	share := func(key string, v float64) { between(key, v, 0, 1) }
	atLeast := func(key string, v, low float64) {
		if !(v >= low && v <= math.MaxFloat64) {
			errs = append(errs, fmt.Errorf("%s: %v is not %v or more", key, v, low))
		}
	}
	atLeast("tiers.cpu", c.Tiers.CPU, 0)
	atLeast("tiers.disk", c.Tiers.Disk, 0)
	atLeast("tiers.pool", c.Tiers.Pool, 0)
	share("tiers.suspect", c.Tiers.Suspect)
	atLeast("consistent_hash.load_factor", c.Hash.LoadFactor, 1)
	share("cache_aware.cache_threshold", c.CacheAware.CacheThreshold)
	atLeast("cache_aware.balance_abs", float64(c.CacheAware.BalanceAbs), 0)
	atLeast("cache_aware.balance_rel", c.CacheAware.BalanceRel, 1)
	if g := c.CacheAware.Gate; g != GateFleet && g != GateCandidate {
		errs = append(errs, fmt.Errorf("cache_aware.gate: %q is not %s or %s", g, GateFleet, GateCandidate))
	}
	atLeast("cost.overlap_weight", c.Cost.OverlapWeight, 0)
	atLeast("cost.temperature", c.Cost.Temperature, 0)
	between("cost.block", float64(c.Cost.Block), 1, 4096)
	share("cost.host", c.Cost.Host)
	share("cost.disk", c.Cost.Disk)
	atLeast("weighted.prefix", c.Weighted.Prefix, 0)
	atLeast("weighted.queue", c.Weighted.Queue, 0)
	atLeast("weighted.kv", c.Weighted.KV, 0)
	atLeast("weighted.active", c.Weighted.Active, 0)
	share("weighted.host", c.Weighted.Host)
	share("sticky.share", c.Sticky.Share)
	atLeast("sticky.tau_seconds", c.Sticky.TauSeconds, 0)
	atLeast("sticky.peak_rate", c.Sticky.PeakRate, 0)
	t := &c.TTFT
	share("ttft.progress_floor", t.ProgressFloor)
	atLeast("ttft.stream_weight", t.StreamWeight, 0)
	atLeast("ttft.wait_weight", t.WaitWeight, 0)
	atLeast("ttft.min_wait_weight", t.MinWaitWeight, 0)
	atLeast("ttft.pour_weight", t.PourWeight, 0)
	between("ttft.young_cap", float64(t.YoungCap), 1, 1024)
	atLeast("ttft.guard_gap", t.GuardGap, 0)
	share("ttft.guard_share", t.GuardShare)
	share("ttft.guard_depth", t.GuardDepth)
	atLeast("ttft.guard_band", t.GuardBand, 0)
	atLeast("ttft.stale_ms", t.StaleMs, 0)
	atLeast("ttft.stale_stay", t.StaleStay, 0)
	atLeast("ttft.stale_share", t.StaleShare, 0)
	atLeast("ttft.stale_spill", t.StaleSpill, 0)
	atLeast("ttft.holder_steps", t.HolderSteps, 0)
	atLeast("ttft.spread", t.Spread, 0)
	atLeast("ttft.room_weight", t.RoomWeight, 0)
	atLeast("ttft.session_slack", t.SessionSlack, 0)
	return errors.Join(append(errs, c.Disagg.validate())...)
}
