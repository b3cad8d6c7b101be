package requests

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Modes of the access log; each logs what the one before it does, and more.
const (
	Off     = "off"
	Errors  = "errors"  // requests that failed: a status from 400, or a broken answer
	Slow    = "slow"    // and those that made the client wait
	Sampled = "sampled" // and a share of the others
	All     = "all"
)

// Modes lists them.
var Modes = []string{Off, Errors, Slow, Sampled, All}

// Formats of a line.
const (
	JSON = "json"
	Text = "text"
)

// Stdout is the path of the log that is the process's own output.
const Stdout = "stdout"

// Config is the access log's part of a configuration.
type Config struct {
	Mode   string        `yaml:"mode" doc:"requests that get a line in the access log: off, errors, slow (and errors), sampled (and slow), all"`
	Format string        `yaml:"format" doc:"lines as json or text"`
	Path   string        `yaml:"path" doc:"file of the access log, or stdout; after a rename (log rotation) it is reopened within a second"`
	Slow   time.Duration `yaml:"slow" doc:"a request is slow if its first token (not streamed: its whole response) takes at least this long; 0 = off"`
	Sample float64       `yaml:"sample" doc:"mode sampled: share of the ordinary requests that get a line, 0-1"`
}

// DefaultConfig returns the documented defaults.
func DefaultConfig() Config {
	return Config{Mode: Errors, Format: JSON, Path: Stdout, Slow: 10 * time.Second, Sample: .01}
}

// Faults lists what is wrong, each beginning with its key.
func (c *Config) Faults() (out []error) {
	bad := func(key, format string, args ...any) {
		out = append(out, fmt.Errorf("access_log."+key+": "+format, args...))
	}
	if !slices.Contains(Modes, c.Mode) {
		bad("mode", "%q is not one of %s", c.Mode, strings.Join(Modes, ", "))
	}
	if c.Format != JSON && c.Format != Text {
		bad("format", "%q is not json or text", c.Format)
	}
	if c.Path == "" {
		bad("path", "must be a file or stdout; to log nothing set access_log.mode: off")
	}
	if c.Slow < 0 {
		bad("slow", "must be 0 or more, not %v", c.Slow)
	}
	if !(c.Sample >= 0 && c.Sample <= 1) {
		bad("sample", "must be from 0 to 1, not %v", c.Sample)
	}
	return out
}

// Wants reports whether the log gets a line for r.
func (c *Config) Wants(r *Record) bool {
	switch c.Mode {
	case All:
		return true
	case Sampled:
		if drawn(r.ID) < c.Sample {
			return true
		}
		fallthrough
	case Slow:
		if r.Slow(c.Slow) {
			return true
		}
		fallthrough
	case Errors:
		return r.Failed()
	}
	return false
}

// drawn is a number from 0 to 1 that the end of a random id stands for, so that
// a request is either in every peer's sample or in none.
func drawn(id string) float64 {
	if len(id) < 8 {
		return 0
	}
	n, err := strconv.ParseUint(id[len(id)-8:], 16, 32)
	if err != nil {
		return 0
	}
	return float64(n) / (1 << 32)
}
