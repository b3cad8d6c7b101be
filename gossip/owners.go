package gossip

import (
	"cmp"
	"slices"

	"github.com/banyan-llm/banyan/crdt"
)

// Owners ranks the peers that listen to a stream by rendezvous hashing: the
// same answer on every peer that sees the same members, and only 1/n of the
// streams move when a peer comes or goes. n = 0 means all. O(peers log peers).
func Owners(stream crdt.StreamID, peers []crdt.PeerID, n int) []crdt.PeerID {
	ranked := slices.Clone(peers)
	slices.SortFunc(ranked, func(a, b crdt.PeerID) int {
		if c := cmp.Compare(rendezvous(stream, b), rendezvous(stream, a)); c != 0 {
			return c
		}
		return cmp.Compare(string(a[:]), string(b[:]))
	})
	if n > 0 && n < len(ranked) {
		ranked = ranked[:n]
	}
	return ranked
}

// rendezvous is FNV-1a over stream and peer, finished by splitmix64.
func rendezvous(stream crdt.StreamID, peer crdt.PeerID) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(stream) {
		h = (h ^ uint64(stream[i])) * 1099511628211
	}
	for _, b := range peer {
		h = (h ^ uint64(b)) * 1099511628211
	}
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}
