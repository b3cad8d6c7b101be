package mesh

import (
	"math"
	"testing"

	"github.com/hashicorp/serf/serf"
)

// Each of n members passes a piece of news on to so many drawn at random that
// hardly ever one of them is left out. With memberlist's own figure a mesh of
// eight that started at once took 36 s in three of sixty starts until each had
// heard of each, else .4 s.
func TestNewsReachesEveryMember(t *testing.T) {
	cfg := config("a")
	var sc *serf.Config
	cfg.tune = func(c *serf.Config) { sc = c }
	serfConfig(&cfg, nil, nil, nil, nil)
	mult := float64(sc.MemberlistConfig.RetransmitMult)
	for n := 3.0; n <= 64; n++ {
		sent := n * mult * math.Ceil(math.Log10(n+1)) // by all of them
		missed := (n - 1) * math.Pow(1-1/(n-1), sent)
		if missed > 1e-3 {
			t.Errorf("of %v members somebody misses one in %.0f pieces of news", n, 1/missed)
		}
	}
}
