package router

import (
	"context"
	"runtime"
	"time"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/gossip"
)

// ageView is what the request path reads of the mesh: refreshed every tick,
// one pointer load to read.
type ageView struct {
	at    time.Time
	worst float64 // ms, of the live peers when it was taken
	peers int     // live ones, this peer included
	list  []gossip.PeerInfo
}

// refreshAges takes the core's view of its peers. The core runs in the mesh's
// loop, so this asks the loop and takes the answer when it comes.
func (p *Peer) refreshAges(ctx context.Context) {
	p.mesh.inspect(ctx, func(core *gossip.Core) {
		v := ageView{at: time.Now(), peers: 1, list: core.Peers()}
		for _, info := range v.list {
			if info.Member {
				v.peers++
				v.worst = max(v.worst, float64(info.ViewAge))
			}
		}
		p.ages.Store(&v)
		stats := core.Stats()
		p.coreStats.Store(&stats)
	})
}

// viewAge is how old, in ms, this peer's view of the others' load is now, and
// how many peers live.
func (p *Peer) viewAge() (ms float64, peers int) {
	v := p.ages.Load()
	if v == nil || v.peers == 1 {
		return 0, 1
	}
	return v.worst + float64(time.Since(v.at).Milliseconds()), v.peers
}

// publishVitals tells the mesh how this peer does.
func (p *Peer) publishVitals(now time.Time) {
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	ready, _ := p.Ready()
	v := crdt.Vitals{
		Version: uint64(now.UnixMilli()), Name: p.name, HTTP: p.public.Addr().String(), Build: p.version,
		Rate: p.board.ownRate(now.UnixMilli()), Facts: uint64(p.index.Stats().Facts), Memory: mem.HeapInuse + mem.StackInuse,
		Ready: ready, Draining: p.draining.Load(), Ages: map[crdt.PeerID]int64{},
	}
	if a := p.ages.Load(); a != nil {
		for _, info := range a.list {
			if info.Member {
				v.Ages[info.ID] = info.ViewAge
			}
		}
	}
	p.board.JoinVitals(map[crdt.PeerID]crdt.Vitals{p.id: v})
	if ready != p.tagged.Swap(ready) {
		p.mesh.setTags(ready, p.draining.Load())
	}
}
