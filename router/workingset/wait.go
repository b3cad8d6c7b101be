package workingset

import (
	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/radix"
)

// What makes a prompt a new conversation's, and a working set worth keeping.
const (
	newShare   = .25 // of its blocks that nobody used within the window
	ReuseShare = .5  // of the uses within the window that found their block in use
)

// turnMs is how long a peer lets waiting conversations in before the next one
// does. It is longer than news of a dispatch takes from peer to peer.
const turnMs = 100

// Cache is the KV cache of a replica.
type Cache struct {
	At     crdt.StreamID
	Tokens int64 // 0: its engine does not tell
}

// Rule is admission.working_set for one pool of replicas, as one peer keeps it:
// which conversations wait, and when they may begin.
type Rule struct {
	Set   *Set
	Share float64        // of the pool's caches that may be in use; 0: nobody waits
	Pool  func() []Cache // asked only where it counts
}

// Waits reports whether a prompt has to wait: it begins a conversation, and others
// stand in line to begin (behind) or the caches are crowded. O(keys).
func (r *Rule) Waits(keys []radix.Key, behind bool, nowMs int64) bool {
	return r.Share > 0 && r.Set.Begins(keys, nowMs) && (behind || r.Set.Crowded(r.Share, r.Pool(), nowMs))
}

// LetsIn reports whether the next conversation that waits may begin now: it is
// this peer's turn, and the caches have room. wallMs is the time of day.
func (r *Rule) LetsIn(rank, peers int, nowMs, wallMs int64) bool {
	return r.Share == 0 || Turn(rank, peers, wallMs) && !r.Set.Crowded(r.Share, r.Pool(), nowMs)
}

// Begins reports whether a prompt begins a conversation: a quarter of it or more
// was used by nobody within the window. So one that comes back after hours
// begins anew, and a subagent goes on with its caller's. A prompt too short to
// tell begins none. O(keys).
func (s *Set) Begins(keys []radix.Key, nowMs int64) bool { return s.unused(keys, nowMs) >= newShare }

// Crowded reports whether new conversations should wait for the caches of a
// pool: more than a share of their tokens is in use, and most of what is used
// was used before, so that evicting it costs. It never is where the size of a
// cache is not known.
func (s *Set) Crowded(share float64, pool []Cache, nowMs int64) bool {
	size, used := int64(0), int64(0)
	for _, c := range pool {
		if c.Tokens <= 0 {
			return false
		}
		size += c.Tokens
		used += s.Tokens(c.At, nowMs)
	}
	return size > 0 && float64(used) > share*float64(size) && s.Again(nowMs) >= ReuseShare
}

// Turn reports whether a peer may let waiting conversations in now: all of them
// at once would each see the same room. wallMs is the time of day.
func Turn(rank, peers int, wallMs int64) bool {
	return peers < 2 || int(wallMs/turnMs%int64(peers)) == rank%peers
}
