package policy

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// The sketch against exact fading counts.
func TestDemandNeverOverstates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		keys := rapid.SampledFrom([]uint64{1, demandWays, 300}).Draw(t, "keys")
		exact, all, now := map[uint64]float64{}, 0.0, int64(1_000_000)
		var d Demand
		d.fade(now)
		for range rapid.IntRange(1, 400).Draw(t, "requests") {
			if rapid.IntRange(0, 20).Draw(t, "later") == 0 {
				wait := demandStep + rapid.Int64Range(0, 60_000).Draw(t, "ms")
				now += wait
				by := math.Exp(float64(-wait) / demandMs)
				all *= by
				for k := range exact {
					exact[k] *= by
				}
			}
			req := &Request{Prefix: rapid.Uint64Range(1, keys).Draw(t, "key")}
			if rapid.IntRange(0, 3).Draw(t, "session") == 0 {
				req.Session = 1
			}
			share := d.Ask(req, now)
			want := exact[req.Prefix] / (all + 1)
			switch {
			case req.Session != 0:
				want = 0
			case keys > demandWays:
				want = math.Min(want, share)
			}
			if math.Abs(share-want) > 1e-9 {
				t.Fatalf("share %v, exactly %v", share, want)
			}
			if all++; req.Session == 0 {
				exact[req.Prefix]++
			}
		}
	})
}

func TestDemandFindsAHotKeyAmongMany(t *testing.T) {
	var d Demand
	rnd, share := seeded(1), 0.0
	for i := range 4_000 {
		d.Ask(&Request{Key: rnd.Uint64() | 1}, int64(1_000_000+10*i))
		if i%4 == 0 {
			share = d.Ask(&Request{Prefix: 7}, int64(1_000_000+10*i))
		}
	}
	if share < .15 || share > .2 {
		t.Errorf("a fifth of all requests counts as %.3f", share)
	}
}

func TestDemandFadesAfterTheClockWasSetBack(t *testing.T) {
	var d Demand
	now := int64(10_000_000)
	for range 100 {
		d.Ask(&Request{Prefix: 7}, now)
	}
	now -= 3_600_000
	for range 100 { // 200 s
		now += 2_000
		d.Ask(&Request{Prefix: 8}, now)
	}
	if share := d.Ask(&Request{Prefix: 7}, now); share > .01 {
		t.Errorf("what nobody asked for in 200 s counts as %.3f of all", share)
	}
}

func BenchmarkDemand(b *testing.B) {
	var d Demand
	rnd, now := seeded(1), int64(1_000_000)
	b.ReportAllocs()
	for b.Loop() {
		now++
		d.Ask(&Request{Prefix: rnd.Uint64()}, now)
	}
}
