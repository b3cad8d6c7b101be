package standin

import (
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"time"

	"github.com/banyan-llm/banyan/router/kvevents/zmtp"
	"github.com/banyan-llm/banyan/simulation/replica"
)

// Config describes a stand-in. Zero values are the defaults.
type Config struct {
	Name   string // for people and hash seeds; default "r0"
	Listen string // HTTP, host:port; default 127.0.0.1:0
	Engine string // vllm (default), sglang, trtllm
	Model  string // default "banyan-standin"
	Loras  []string

	Profile   string  // timing profile; default "demo"
	TimeScale float64 // how much faster than real time the model runs; default 1
	Page      int     // tokens a KV block; default 16
	Blocks    int     // KV blocks; default the profile's
	MaxSeqs   int     // running requests; default the profile's
	Noise     float64 // relative spread of step times
	Seed      uint64  // of noise and fault rates

	MaxModelLen   int  // tokens; default what the KV cache holds, at most 131,072
	DefaultOutput int  // mean answer length where max_tokens is not given; default 64
	DropLast      bool // report a page less as cached, as vLLM with EAGLE or MTP takes a page less from its cache
	HideCached    bool // leave prompt_tokens_details out of usage
	HideSources   bool // vLLM: no /kv_event_sources, as before 0.32
	NoScaleOut    bool // vLLM: render answers 403, as from 0.30 on without --enable-scale-out

	// Events is the PUB endpoint, "" for none: bound, or dialed if EventsDial.
	Events     string
	EventsDial bool
	Replay     string // ROUTER endpoint, "" for none
	Topic      string // first frame of every batch
	Rank       int    // data-parallel rank in every batch
	// Ranks is how many data-parallel ranks the server has, each with a cache,
	// a publisher and load of its own; default 1. Rank is then the first one's.
	Ranks  int
	Layout Layout // default map
	// ReplayFrames is 5 (topic, as vLLM since 0.26; default) or 4 (before, SGLang).
	ReplayFrames int
	HashBytes    bool   // block hashes as 32 bytes
	HashSeed     uint64 // starts every hash chain; default from Name
	BufferSteps  int    // batches kept for replay; default 10,000
}

// Defaults and limits.
const (
	defaultOutput   = 64
	defaultBuffer   = 10_000
	maxModelLen     = 128 << 10
	maxBufferSteps  = 1 << 20
	maxBodyBytes    = 64 << 20
	shutdownTimeout = 2 * time.Second
)

// complete fills in defaults and reports every fault.
func (c Config) complete() (Config, error) {
	setDefault(&c.Name, "r0")
	setDefault(&c.Listen, "127.0.0.1:0")
	setDefault(&c.Engine, VLLM)
	setDefault(&c.Model, "banyan-standin")
	setDefault(&c.Profile, "demo")
	setDefault(&c.TimeScale, 1)
	setDefault(&c.Page, replica.DefaultPage)
	setDefault(&c.DefaultOutput, defaultOutput)
	setDefault(&c.Layout, LayoutMap)
	setDefault(&c.ReplayFrames, 5)
	setDefault(&c.BufferSteps, defaultBuffer)
	setDefault(&c.Ranks, 1)
	setDefault(&c.HashSeed, fold(1, c.Name))
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if !slices.Contains([]string{VLLM, SGLang, TRTLLM}, c.Engine) {
		fault("engine: %q, want vllm, sglang or trtllm", c.Engine)
	}
	if err := (wire{layout: c.Layout}).validate(); err != nil {
		faults = append(faults, err)
	}
	if !(c.TimeScale > 0) || math.IsInf(c.TimeScale, 0) {
		fault("time-scale: %g, want more than 0", c.TimeScale)
	}
	if c.ReplayFrames != 4 && c.ReplayFrames != 5 {
		fault("replay-frames: %d, want 4 or 5", c.ReplayFrames)
	}
	if c.BufferSteps < 1 || c.BufferSteps > maxBufferSteps {
		fault("replay-steps: %d, want 1 to %d", c.BufferSteps, maxBufferSteps)
	}
	if _, err := replica.ProfileByName(c.Profile); err != nil {
		fault("profile: %w", err)
	}
	for _, figure := range []struct {
		key   string
		value int
	}{{"block-size", c.Page}, {"blocks", c.Blocks}, {"max-num-seqs", c.MaxSeqs}, {"rank", c.Rank}} {
		if figure.value < 0 {
			fault("%s: %d is negative", figure.key, figure.value)
		}
	}
	if _, _, err := net.SplitHostPort(c.Listen); err != nil {
		fault("listen: %q is not host:port", c.Listen)
	}
	if c.DefaultOutput < 1 || c.MaxModelLen < 0 {
		fault("default output and model length must not be negative")
	}
	if c.Ranks < 1 || c.Ranks > maxRanks || c.Ranks > 1 && c.Engine == TRTLLM {
		fault("ranks: %d, want 1 to %d, and 1 for trtllm", c.Ranks, maxRanks)
	}
	if c.Events != "" {
		if err := zmtp.ParseEndpoint(c.Events, c.EventsDial); err != nil {
			fault("events: %w", err)
		}
	}
	if c.Replay != "" {
		if err := zmtp.ParseEndpoint(c.Replay, false); err != nil {
			fault("replay: %w", err)
		}
	}
	return c, errors.Join(faults...)
}

// setDefault sets *v if it is zero.
func setDefault[T comparable](v *T, value T) {
	var zero T
	if *v == zero {
		*v = value
	}
}
