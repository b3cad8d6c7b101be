package gossip_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/gossip"
)

func drawPeers(t *rapid.T) []crdt.PeerID {
	n := rapid.IntRange(1, 12).Draw(t, "peers")
	peers := make([]crdt.PeerID, n)
	for i := range peers {
		peers[i] = crdt.PeerID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id"))
		peers[i][0] = byte(i) // distinct
	}
	return peers
}

func TestOwnersAgreeWhateverTheOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		peers := drawPeers(t)
		stream := crdt.NewStreamID(fmt.Sprintf("http://r%d", rapid.Int().Draw(t, "r")), 0)
		shuffled := rapid.Permutation(peers).Draw(t, "order")
		a, b := gossip.Owners(stream, peers, 2), gossip.Owners(stream, shuffled, 2)
		if !slices.Equal(a, b) {
			t.Fatalf("two peers with the same members disagree: %v, %v", a, b)
		}
		if len(a) != min(2, len(peers)) {
			t.Fatalf("%d owners of %d peers", len(a), len(peers))
		}
	})
}

func TestOwnersMoveOnlyFromALeaver(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		peers := drawPeers(t)
		if len(peers) < 2 {
			return
		}
		stream := crdt.NewStreamID(fmt.Sprintf("http://r%d", rapid.Int().Draw(t, "r")), 0)
		gone := rapid.IntRange(0, len(peers)-1).Draw(t, "gone")
		rest := slices.Delete(slices.Clone(peers), gone, gone+1)
		for _, before := range gossip.Owners(stream, peers, 2) {
			if before != peers[gone] && !slices.Contains(gossip.Owners(stream, rest, 2), before) {
				t.Fatalf("%v lost the stream though %v left", before, peers[gone])
			}
		}
	})
}

func TestOwnersSpread(t *testing.T) {
	peers := []crdt.PeerID{{1}, {2}, {3}, {4}}
	count := map[crdt.PeerID]int{}
	for i := range 4000 {
		count[gossip.Owners(crdt.NewStreamID(fmt.Sprintf("http://10.0.0.%d:8000", i), 0), peers, 1)[0]]++
	}
	for _, p := range peers {
		if count[p] < 850 || count[p] > 1150 {
			t.Errorf("peer %v owns %d of 4000 streams", p[0], count[p])
		}
	}
}

// TestOwnersAreThoseOfOtherVersions: peers of different versions in one mesh must
// rank alike.
func TestOwnersAreThoseOfOtherVersions(t *testing.T) {
	var peers []crdt.PeerID
	for i := range 9 {
		peers = append(peers, crdt.PeerID{byte(i), byte(i * 7), 15: byte(i * 13)})
	}
	for i, want := range []string{"561230847", "375421680", "584103672", "061237854"} {
		for n := range 10 {
			got, ranked := "", gossip.Owners(crdt.StreamID(fmt.Sprintf("http://10.0.0.%d:8000#0", i)), peers, n)
			for _, p := range ranked {
				got += fmt.Sprint(p[0])
			}
			if n == 0 && got != want || n > 0 && got != want[:n] {
				t.Errorf("replica %d: the first %d owners are %s, want those of %s", i, n, got, want)
			}
		}
	}
}

func BenchmarkOwners(b *testing.B) {
	for _, n := range []int{8, 64, 128} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var peers []crdt.PeerID
			for i := range n {
				peers = append(peers, crdt.PeerID{byte(i), byte(i * 7), byte(i * 13)})
			}
			b.ReportAllocs()
			for b.Loop() {
				gossip.Owners("http://10.244.13.27:8000#0", peers, 2)
			}
		})
	}
}
