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
	After      time.Duration `yaml:"after" doc:"ask a second replica if a streamed response has no first byte after this time; with hedge.percentile set the longer wait counts; both 0 = off"`
	Percentile float64       `yaml:"percentile" doc:"ask a second replica after the time in which this share (0-1, as 0.95) of recent first bytes came; with hedge.after set the longer wait counts; both 0 = off"`
	Ratio      float64       `yaml:"ratio" doc:"most second tries, as a share of all requests; 0 = off"`
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
