package pick

import (
	"slices"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/gossip"
)

// Silence up to quietMs is normal: peers speak at once when something changes
// and every 200 ms when nothing does. Then the view is as old as a frame takes.
const (
	quietMs = 500
	frameMs = 1
)

// Silences are how long the live peers had been silent when somebody looked.
type Silences struct {
	AtMs   int64
	Worst  float64 // ms
	Median float64
	Peers  int // live ones, this peer included
	Rank   int // of this peer among them, in the order of their ids
}

// Silence reads the core's view of its peers.
func Silence(peers []gossip.PeerInfo, self crdt.PeerID, nowMs int64) Silences {
	v := Silences{AtMs: nowMs, Peers: 1}
	var silent []float64
	for i := range peers {
		info := &peers[i]
		if !info.Member {
			continue
		}
		v.Peers++
		if info.ID.Less(self) {
			v.Rank++
		}
		v.Worst = max(v.Worst, float64(info.ViewAge))
		silent = append(silent, float64(info.ViewAge))
	}
	if slices.Sort(silent); len(silent) > 0 {
		v.Median = silent[len(silent)/2]
	}
	return v
}

// Ages are how old a peer's views are, ms.
type Ages struct {
	Load  float64 // of the others' load: the delay of a frame, or the worst silence
	Index float64 // of the tree: the median peer's, so that one silent peer does not blind all
	Peers int
	Rank  int // of this peer among them, from 0, the same to all of them
}

// Ages works out how old the views are now.
func (v *Silences) Ages(nowMs int64) Ages {
	if v == nil || v.Peers == 1 {
		return Ages{Peers: 1}
	}
	since := float64(nowMs - v.AtMs)
	age := func(silent float64) float64 {
		if silent += since; silent > quietMs {
			return silent
		}
		return frameMs
	}
	return Ages{Load: age(v.Worst), Index: age(v.Median), Peers: v.Peers, Rank: v.Rank}
}
