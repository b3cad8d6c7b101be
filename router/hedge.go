package router

import (
	"errors"
	"fmt"
	"time"

	"github.com/banyan-llm/banyan/router/proxy"
)

// HedgeConfig sends a streamed request to a second replica when the first one
// is slow to begin; off unless after or percentile is set. Requests that a
// prefill-decode pair serves are not hedged.
type HedgeConfig struct {
	After      time.Duration `yaml:"after" doc:"wait at least so long for the first byte of a stream before a second replica is asked; 0 = see percentile"`
	Percentile float64       `yaml:"percentile" doc:"wait at least as long as this share of recent first bytes took, 0-1, as 0.95; 0 = see after; both 0 = no hedging"`
	Ratio      float64       `yaml:"ratio" doc:"second tries per request over time, at most"`
}

func (c *HedgeConfig) validate() error {
	var errs []error
	if c.After < 0 {
		errs = append(errs, fmt.Errorf("hedge.after: must be 0 or more, not %v", c.After))
	}
	if !(c.Percentile >= 0 && c.Percentile < 1) {
		errs = append(errs, fmt.Errorf("hedge.percentile: must be 0 or more and below 1, not %v", c.Percentile))
	}
	if !(c.Ratio >= 0 && c.Ratio <= 1) {
		errs = append(errs, fmt.Errorf("hedge.ratio: must be from 0 to 1, not %v", c.Ratio))
	}
	return errors.Join(errs...)
}

func (c *HedgeConfig) proxy() proxy.Hedge {
	return proxy.Hedge{After: c.After, Percentile: c.Percentile, Ratio: c.Ratio}
}
