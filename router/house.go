package router

import (
	"context"
	"runtime"
	"slices"
	"time"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/gossip"
)

// ageView is what the request path reads of the mesh: refreshed every tick,
// one pointer load to read.
type ageView struct {
	at     time.Time
	worst  float64 // ms of silence, of the live peers when it was taken
	median float64
	peers  int // live ones, this peer included
	rank   int // of this peer among them, in the order of their ids
	list   []gossip.PeerInfo
}

// refreshAges takes the core's view of its peers. The core runs in the mesh's
// loop, so this asks the loop and takes the answer when it comes.
func (p *Peer) refreshAges(ctx context.Context) {
	p.loads.Decay(p.clock.ms(time.Now()))
	p.mesh.inspect(ctx, func(core *gossip.Core) {
		v := ageView{at: time.Now(), peers: 1, list: core.Peers()}
		var silent []float64
		for _, info := range v.list {
			if info.Member {
				v.peers++
				if info.ID.Less(p.id) {
					v.rank++
				}
				v.worst = max(v.worst, float64(info.ViewAge))
				silent = append(silent, float64(info.ViewAge))
			}
		}
		if slices.Sort(silent); len(silent) > 0 {
			v.median = silent[len(silent)/2]
		}
		p.ages.Store(&v)
		stats := core.Stats()
		p.coreStats.Store(&stats)
	})
}

// viewAge is how long, in ms, the most silent live peer has been silent, and
// how many peers live.
func (p *Peer) viewAge() (ms float64, peers int) {
	v := p.ages.Load()
	if v == nil || v.peers == 1 {
		return 0, 1
	}
	return v.worst + float64(time.Since(v.at).Milliseconds()), v.peers
}

// Silence up to quietMs is normal: peers speak at once when something changes
// and every 200 ms when nothing does. Then the view is as old as a frame takes.
const (
	quietMs = 500
	frameMs = 1
)

// ages are how old this peer's views are, ms.
type ages struct {
	load  float64 // of the others' load: the delay of a frame, or the worst silence
	index float64 // of the tree: the median peer's, so that one silent peer does not blind all
	peers int
	rank  int // of this peer among them, from 0, the same to all of them
}

// seen works out how old the views are now.
func (p *Peer) seen(now time.Time) ages {
	v := p.ages.Load()
	if v == nil || v.peers == 1 {
		return ages{peers: 1}
	}
	since := float64(now.Sub(v.at).Milliseconds())
	age := func(silent float64) float64 {
		if silent += since; silent > quietMs {
			return silent
		}
		return frameMs
	}
	return ages{load: age(v.worst), index: age(v.median), peers: v.peers, rank: v.rank}
}

// publishVitals tells the mesh how this peer does.
func (p *Peer) publishVitals(now time.Time) {
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	ready, _ := p.Ready()
	v := crdt.Vitals{
		Version: uint64(p.clock.ms(now)), Name: p.name, HTTP: p.public.Addr().String(), Build: p.version,
		Rate: p.loads.OwnRate(p.clock.ms(now)), Facts: uint64(p.index.Stats().Facts), Memory: mem.HeapInuse + mem.StackInuse,
		Ready: ready, Draining: p.draining.Load(), Ages: map[crdt.PeerID]int64{},
	}
	if a := p.ages.Load(); a != nil {
		for _, info := range a.list {
			if info.Member {
				v.Ages[info.ID] = info.ViewAge
			}
		}
	}
	p.loads.JoinVitals(map[crdt.PeerID]crdt.Vitals{p.id: v})
	if ready != p.tagged.Swap(ready) {
		p.mesh.setTags(ready, p.draining.Load())
	}
}
