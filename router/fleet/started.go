package fleet

import (
	"context"
	"math"
)

// Started asks a replica's engine when its process started, ms since 1970. 0: it
// answered and does not tell, as vLLM with several API servers and SGLang do,
// whose metrics are of many processes. A page without the engine's own series is
// somebody else's, a gateway's perhaps, and so is its start time. An error says
// that nothing was answered: ask again.
func (f *Fleet) Started(ctx context.Context, r *Replica) (uint64, error) {
	body, err := f.read(ctx, r, metricsOf(r.Engine()), maxMetricsBytes)
	if err != nil {
		if definite(err) {
			return 0, nil
		}
		return 0, err
	}
	p := parseMetrics(body, r.Spec.Rank)
	if p.engine == "" || p.started <= 0 {
		return 0, nil
	}
	return uint64(math.Round(p.started * 1000)), nil
}
