package gossip

import (
	"slices"

	"github.com/banyan-llm/banyan/crdt"
)

// Owners ranks the peers that listen to a stream by rendezvous hashing: the
// same answer on every peer that sees the same members, and only 1/n of the
// streams move when a peer comes or goes. n = 0 means all. O(peers n).
func Owners(stream crdt.StreamID, peers []crdt.PeerID, n int) []crdt.PeerID {
	if n <= 0 || n > len(peers) {
		n = len(peers)
	}
	of := hashOf(stream)
	ranked := make([]bid, 0, n+1)
	for _, p := range peers {
		x := bid{rendezvous(of, p), p}
		i := len(ranked)
		for i > 0 && x.before(&ranked[i-1]) {
			i--
		}
		if i < n {
			ranked = slices.Insert(ranked, i, x)
			ranked = ranked[:min(n, len(ranked))]
		}
	}
	owners := make([]crdt.PeerID, len(ranked))
	for i := range ranked {
		owners[i] = ranked[i].peer
	}
	return owners
}

// bid is what a peer has to offer for one stream.
type bid struct {
	hash uint64
	peer crdt.PeerID
}

func (x *bid) before(y *bid) bool {
	return x.hash > y.hash || x.hash == y.hash && x.peer.Less(y.peer)
}

const (
	fnvOffset = 14695981039346656037
	fnvPrime  = 1099511628211
)

// hashOf is FNV-1a over a stream's name.
func hashOf(stream crdt.StreamID) uint64 {
	h := uint64(fnvOffset)
	for i := range len(stream) {
		h = (h ^ uint64(stream[i])) * fnvPrime
	}
	return h
}

// rendezvous goes on from the stream's hash with the peer, and is finished by
// splitmix64.
func rendezvous(stream uint64, peer crdt.PeerID) uint64 {
	h := stream
	for _, b := range peer {
		h = (h ^ uint64(b)) * fnvPrime
	}
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}
