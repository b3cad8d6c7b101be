package load

import (
	"math/rand/v2"
	"testing"

	"github.com/banyan-llm/banyan/crdt"
)

// TestATableCountsWhatItHadNotHeardOf: what others' registers add within twice
// the age of the view came with the own dispatch.
func TestATableCountsWhatItHadNotHeardOf(t *testing.T) {
	id := crdt.NewStreamID("http://r0", 0)
	for _, c := range []struct {
		name  string
		late  int64
		from  byte
		peers int
		want  bool
	}{
		{"at once", 1, 2, 3, true},
		{"long after", 5, 2, 3, false},
		{"by itself", 1, 1, 3, false},
		{"alone", 1, 2, 1, false},
	} {
		now := int64(1000)
		b := New(crdt.PeerID{1}, func() int64 { return now })
		rnd := rand.New(rand.NewPCG(1, 1))
		b.Together(now, 1, c.peers, rnd)
		b.Dispatch(&Cost{Replica: id, Prefill: 1, Tokens: 10}, now)
		now += c.late
		b.JoinLoads(crdt.PeerID{c.from}, []crdt.LoadEntry{{Replica: id, Load: crdt.Load{Version: 1, Waiting: 6}}})
		b.JoinLoads(crdt.PeerID{c.from}, []crdt.LoadEntry{{Replica: id, Load: crdt.Load{Version: 2, Waiting: 4}}})
		now += 100
		most := 0
		for range 100 {
			most = max(most, b.Together(now, 1, c.peers, rnd))
		}
		if got := most == 6; got != c.want || most > 6 {
			t.Errorf("%s: at most %d of 6 drawn", c.name, most)
		}
	}
}
