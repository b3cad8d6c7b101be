package policy

import (
	"fmt"
	"testing"
)

func BenchmarkDecide(b *testing.B) {
	for _, name := range Names() {
		for _, n := range []int{16, 64} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				p := mustNew(b, name, nil)
				rnd := seeded(1)
				cands := idle(n)
				for i := range cands {
					c := &cands[i]
					c.GPU, c.Predicted = rnd.IntN(4000), rnd.IntN(4000)
					c.Waiting, c.Streams = rnd.IntN(3), rnd.IntN(30)
					c.Prefill, c.FirstToken = rnd.Float64(), 1_000_000-int64(rnd.IntN(400))
				}
				v := &View{NowMs: 1_000_000, AgeMs: 10, Peers: 8, Lambda: 40, MeanS: 0.3, Rand: rnd}
				req := &Request{Tokens: 4096, Key: 9, Session: 4}
				b.ReportAllocs()
				for b.Loop() {
					p.Decide(req, v, cands, nil)
				}
			})
		}
	}
}
