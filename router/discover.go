package router

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/banyan-llm/banyan/router/fleet"
)

// finder is one source of replicas that come and go.
type finder struct {
	source string
	run    func(ctx context.Context, update func([]fleet.Spec))
	// trouble says why what it last told may be old; empty if it is not.
	trouble func() string
}

// newDiscovery makes the sources that the configuration turns on.
func newDiscovery(cfg DiscoveryConfig, logger hclog.Logger) ([]finder, error) {
	var out []finder
	if len(cfg.DNS)+len(cfg.Render) > 0 {
		d := &fleet.DNS{Names: cfg.DNS, Renders: cfg.Render, Template: cfg.Replica, Logger: logger}
		out = append(out, finder{fleet.SourceDNS, d.Run, d.Trouble})
	}
	if cfg.Kubernetes.Selector != "" {
		k, err := fleet.NewKubernetes(cfg.Kubernetes, cfg.Replica, logger)
		if err != nil {
			return nil, err
		}
		out = append(out, finder{fleet.SourceKubernetes, k.Run, k.Trouble})
	}
	return out, nil
}

// discover merges what the sources find into the fleet until ctx ends.
func (c *census) discover(ctx context.Context) {
	var wg sync.WaitGroup
	for _, f := range c.discovery {
		wg.Go(func() {
			f.run(ctx, func(specs []fleet.Spec) { c.fleet.Update(f.source, specs, time.Now()) })
		})
	}
	wg.Wait()
}
