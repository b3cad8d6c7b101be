package replica

import (
	"errors"
	"fmt"
	"math/rand/v2"
)

// Defaults of a Config.
const (
	DefaultPage      = 16   // tokens a page
	DefaultMaxSeqs   = 512  // running requests
	DefaultWatermark = 0.01 // share of the pages kept free at admission
	Unlimited        = -1   // Config.Blocks: a cache that never evicts
)

// Config describes a replica. The zero value of every field but Profile is
// its default.
type Config struct {
	Profile Profile

	Page    int // tokens a page; 0: 16
	Blocks  int // KV pages; 0: Profile.KVTokens/Page; Unlimited: no limit
	MaxSeqs int // running requests; 0: the profile's, else 512
	Chunk   int // token budget of a step; 0: the profile's

	// Watermark is the share of the pages that must stay free when a waiting
	// request is admitted beside running ones; 0: 1 %.
	Watermark float64

	// NoCache turns prefix reuse (and events) off.
	NoCache bool

	// Unique reports presence instead of copies: a key is stored when its
	// first copy appears and removed with its last one (SGLang, TensorRT-LLM).
	// Otherwise every physical copy is told (vLLM).
	Unique bool

	// EveryToken makes Step report every token; otherwise only first and last
	// tokens are reported.
	EveryToken bool

	// Noise is the relative spread of step times (0.05: uniform within 5 %
	// either way), drawn from Rand. 0: none.
	Noise float64
	Rand  *rand.Rand
}

// complete fills in defaults and reports every fault.
func (c Config) complete() (Config, error) {
	if c.Page == 0 {
		c.Page = DefaultPage
	}
	if c.Chunk == 0 {
		c.Chunk = c.Profile.Chunk
	}
	if c.MaxSeqs == 0 {
		c.MaxSeqs = c.Profile.MaxSeqs
	}
	if c.MaxSeqs == 0 {
		c.MaxSeqs = DefaultMaxSeqs
	}
	if c.Watermark == 0 {
		c.Watermark = DefaultWatermark
	}
	var faults []error
	if c.Page < 1 {
		faults = append(faults, fmt.Errorf("page: %d tokens, want at least 1", c.Page))
	} else if c.Blocks == 0 {
		c.Blocks = c.Profile.KVTokens / c.Page
	}
	if c.Blocks < 1 && c.Blocks != Unlimited {
		faults = append(faults, fmt.Errorf("blocks: %d pages, want at least 1", c.Blocks))
	}
	if c.Chunk < 1 {
		faults = append(faults, fmt.Errorf("chunk: %d tokens, want at least 1", c.Chunk))
	}
	if c.MaxSeqs < 1 {
		faults = append(faults, fmt.Errorf("max_seqs: %d, want at least 1", c.MaxSeqs))
	}
	if c.Watermark < 0 || c.Watermark >= 1 {
		faults = append(faults, fmt.Errorf("watermark: %g, want 0 <= w < 1", c.Watermark))
	}
	if c.Noise < 0 || c.Noise >= 1 {
		faults = append(faults, fmt.Errorf("noise: %g, want 0 <= n < 1", c.Noise))
	}
	if c.Noise > 0 && c.Rand == nil {
		faults = append(faults, errors.New("noise: needs a source of randomness"))
	}
	if err := c.Profile.validate(); err != nil {
		faults = append(faults, err)
	}
	return c, errors.Join(faults...)
}
