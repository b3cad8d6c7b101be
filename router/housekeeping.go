package router

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/gossip"
	"github.com/banyan-llm/banyan/router/console"
	"github.com/banyan-llm/banyan/router/index"
	"github.com/banyan-llm/banyan/router/load"
	"github.com/banyan-llm/banyan/router/metrics"
	"github.com/banyan-llm/banyan/router/pick"
)

// ageView is what the request path reads of the mesh: refreshed every tick,
// one pointer load to read.
type ageView struct {
	pick.Silences
	list []gossip.PeerInfo
}

// meshView is what the request path and the status read of the mesh.
type meshView struct {
	id        crdt.PeerID
	clock     clock
	loads     *load.Table
	mesh      *link
	ages      atomic.Pointer[ageView]
	coreStats atomic.Pointer[gossip.Stats]
}

// refreshAges takes the core's view of its peers. The core runs in the mesh's
// loop, so this asks the loop and takes the answer when it comes.
func (m *meshView) refreshAges(ctx context.Context) {
	m.loads.Decay(m.clock.ms(time.Now()))
	m.mesh.inspect(ctx, func(core *gossip.Core) {
		v := ageView{list: core.Peers()}
		v.Silences = pick.Silence(v.list, m.id, m.clock.ms(time.Now()))
		m.ages.Store(&v)
		stats := core.Stats()
		m.coreStats.Store(&stats)
	})
}

// viewAge is how long, in ms, the most silent live peer has been silent, and
// how many peers live.
func (m *meshView) viewAge() (ms float64, peers int) {
	v := m.ages.Load()
	if v == nil || v.Peers == 1 {
		return 0, 1
	}
	return v.Worst + float64(m.clock.ms(time.Now())-v.AtMs), v.Peers
}

// seen works out how old the views are now.
func (m *meshView) seen(now time.Time) pick.Ages {
	v := m.ages.Load()
	if v == nil {
		return pick.Ages{Peers: 1}
	}
	return v.Ages(m.clock.ms(now))
}

// housekeeping does what is due now and then.
type housekeeping struct {
	self
	rules     *inForce
	clock     clock
	index     *index.Index
	loads     *load.Table
	mesh      *link
	path      *requestPath
	journal   *journal
	census    *census
	ceilings  *ceilings
	readiness *readiness
	front     *front
	report    *statusReport
	page      *page
	metrics   *metrics.Metrics
	heap      *heapLimit
}

// Times of the peer's housekeeping.
const (
	houseTick   = 20 * time.Millisecond
	vitalsEvery = time.Second
	clearFacts  = 4096 // facts dropped per step, about 0.2 ms
)

// run does what is due now and then: dropping dead incarnations in
// steps, expiring predictions, refreshing what the request path reads.
func (h *housekeeping) run(ctx context.Context) {
	tick := time.NewTicker(houseTick)
	defer tick.Stop()
	var vitals time.Time
	for {
		began := time.Now()
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			woken := time.Now()
			h.report.turns.Note(woken.Sub(began)-houseTick, woken)
			for h.index.Maintain(h.clock.ms(now), clearFacts) && ctx.Err() == nil {
			}
			h.path.view.refreshAges(ctx)
			if now.Sub(vitals) >= vitalsEvery {
				vitals = now
				h.publishVitals(now)
				h.page.observeChanges(now)
				h.report.recent.Keep(now)
				h.page.history.Keep(now, func() console.Point { return h.page.point(now) })
				h.census.forgetDeparted(now)
				h.ceilings.tellFull()
				h.heap.follow(h.index.Stats().Bytes)
				h.journal.tellDropped()
			}
		}
	}
}

// publishVitals tells the mesh how this peer does.
func (h *housekeeping) publishVitals(now time.Time) {
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	ready, _ := h.readiness.ready()
	v := crdt.Vitals{
		Version: uint64(h.clock.ms(now)), Name: h.name, HTTP: h.front.public.Addr().String(), Build: h.version,
		Rate: h.journal.rate.PerSecond(now, h.journal.arrived.Load()), Facts: uint64(h.index.Stats().Facts), Memory: mem.HeapInuse + mem.StackInuse,
		Ready: ready, Draining: h.readiness.draining.Load(),
	}
	if a := h.path.view.ages.Load(); a != nil {
		v.Ages = toldAges(a.list)
	}
	h.journal.rate.Mark(now, h.journal.arrived.Load())
	h.loads.JoinVitals(map[crdt.PeerID]crdt.Vitals{h.id: v})
	h.mesh.setTags(ready, h.readiness.draining.Load(), h.rules.Load().print)
	h.readiness.tellReady()
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
