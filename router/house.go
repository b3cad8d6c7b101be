package router

import (
	"context"
	"runtime"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/gossip"
	"github.com/banyan-llm/banyan/router/pick"
)

// ageView is what the request path reads of the mesh: refreshed every tick,
// one pointer load to read.
type ageView struct {
	pick.Silences
	list []gossip.PeerInfo
}

// refreshAges takes the core's view of its peers. The core runs in the mesh's
// loop, so this asks the loop and takes the answer when it comes.
func (p *Peer) refreshAges(ctx context.Context) {
	p.loads.Decay(p.clock.ms(time.Now()))
	p.mesh.inspect(ctx, func(core *gossip.Core) {
		v := ageView{list: core.Peers()}
		v.Silences = pick.Silence(v.list, p.id, p.clock.ms(time.Now()))
		p.ages.Store(&v)
		stats := core.Stats()
		p.coreStats.Store(&stats)
	})
}

// viewAge is how long, in ms, the most silent live peer has been silent, and
// how many peers live.
func (p *Peer) viewAge() (ms float64, peers int) {
	v := p.ages.Load()
	if v == nil || v.Peers == 1 {
		return 0, 1
	}
	return v.Worst + float64(p.clock.ms(time.Now())-v.AtMs), v.Peers
}

// seen works out how old the views are now.
func (p *Peer) seen(now time.Time) pick.Ages {
	v := p.ages.Load()
	if v == nil {
		return pick.Ages{Peers: 1}
	}
	return v.Ages(p.clock.ms(now))
}

// publishVitals tells the mesh how this peer does.
func (p *Peer) publishVitals(now time.Time) {
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	ready, _ := p.Ready()
	v := crdt.Vitals{
		Version: uint64(p.clock.ms(now)), Name: p.name, HTTP: p.public.Addr().String(), Build: p.version,
		Rate: p.rate.perSecond(now, p.arrived.Load()), Facts: uint64(p.index.Stats().Facts), Memory: mem.HeapInuse + mem.StackInuse,
		Ready: ready, Draining: p.draining.Load(),
	}
	if a := p.ages.Load(); a != nil {
		v.Ages = toldAges(a.list)
	}
	p.rate.mark(now, p.arrived.Load())
	p.loads.JoinVitals(map[crdt.PeerID]crdt.Vitals{p.id: v})
	if ready != p.tagged.Swap(ready) {
		p.mesh.setTags(ready, p.draining.Load())
	}
	p.tellReady()
}

// tellReady logs what GET /readyz answers when that changes, from the moment
// anybody can ask. Called by one goroutine.
func (p *Peer) tellReady() {
	ready, why := p.Ready()
	if !p.serving.Load() || p.toldReady != nil && *p.toldReady == ready {
		return
	}
	level := hclog.Warn
	if p.toldReady == nil { // every peer begins so
		level = hclog.Info
	}
	p.toldReady = &ready
	if ready {
		p.log.Info("ready: GET /readyz answers 200", "reason", why)
	} else {
		p.log.Log(level, "not ready: GET /readyz answers 503", "reason", why)
	}
}

// maxAges is the largest mesh, without this peer, of which a peer tells how old
// its view of each other one is.
const maxAges = 15

// toldAges are the view ages that a peer tells the others, ms: of a large mesh
// that of the worst alone. All of them at all peers are 24 bytes times the
// square of the peers in each digest round, 390 kB among 128, and nothing shows
// so many.
func toldAges(list []gossip.PeerInfo) map[crdt.PeerID]int64 {
	out := make(map[crdt.PeerID]int64)
	var worst gossip.PeerInfo
	for _, info := range list {
		if info.Member {
			out[info.ID] = info.ViewAge
			if worst.ID == (crdt.PeerID{}) || info.ViewAge > worst.ViewAge {
				worst = info
			}
		}
	}
	if len(out) > maxAges {
		return map[crdt.PeerID]int64{worst.ID: worst.ViewAge}
	}
	return out
}
