package router

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sync/semaphore"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/gossip"
	"github.com/banyan-llm/banyan/radix"
	"github.com/banyan-llm/banyan/router/console"
	"github.com/banyan-llm/banyan/router/fleet"
	"github.com/banyan-llm/banyan/router/index"
	"github.com/banyan-llm/banyan/router/ingest"
	"github.com/banyan-llm/banyan/router/kvevents"
	"github.com/banyan-llm/banyan/router/kvevents/follow"
	"github.com/banyan-llm/banyan/router/kvevents/zmtp"
	"github.com/banyan-llm/banyan/router/load"
	"github.com/banyan-llm/banyan/router/metrics"
)

// reconcileEvery is how often ownership is looked at, at the latest.
const reconcileEvery = 250 * time.Millisecond

// follower follows the event streams that this peer owns. It is the Sink of
// their subscribers.
type follower struct {
	self
	rules   *inForce
	clock   clock
	hasher  *radix.Hasher
	fleet   *fleet.Fleet
	index   *index.Index
	loads   *load.Table
	mesh    *link
	metrics *metrics.Metrics
	log     hclog.Logger

	owners int                 // per stream; 0 all
	room   *semaphore.Weighted // of events being received and decoded, bytes
	poke   chan struct{}
	hub    *kvevents.Hub // engines dial us here; nil: off

	mu     sync.Mutex // guards below; never held while calling out
	follow map[crdt.StreamID]*following
	failed map[crdt.StreamID]string // why a stream could not be followed, as logged; it is tried again
	losses gossip.Losses            // what is about to be given up
}

// following is one stream this peer listens to.
type following struct {
	sub   source
	feed  feed
	stop  context.CancelFunc
	done  chan struct{}
	host  string // name in the hub; empty: not fed by it
	rank  int    // in the hub
	hold  ingest.Hold
	holes int // of the stream after the last delivery
}

// open fills in what the configuration says, and binds ingest.listen if it is
// set.
func (g *follower) open() error {
	cfg := &g.rules.config().Ingest
	g.owners, _ = cfg.owners() // validated
	g.poke, g.follow, g.failed = make(chan struct{}, 1), map[crdt.StreamID]*following{}, map[crdt.StreamID]string{}
	if cfg.Listen == "" {
		return nil
	}
	var err error
	if g.hub, err = kvevents.ListenHub(cfg.Listen, zmtp.Options{Room: g.room}); err != nil {
		return fmt.Errorf("ingest.listen: %w", err)
	}
	return nil
}

// wake asks for a look at ownership soon. It never blocks.
func (g *follower) wake() {
	select {
	case g.poke <- struct{}{}:
	default:
	}
}

// run keeps the followed streams equal to the owned ones until ctx ends.
func (g *follower) run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	if g.hub != nil {
		wg.Go(func() {
			if err := g.hub.Run(ctx); err != nil && ctx.Err() == nil {
				g.log.Error("ingest.listen", "err", err)
			}
		})
	}
	tick := time.NewTicker(reconcileEvery)
	defer tick.Stop()
	for {
		g.reconcile(ctx, time.Now())
		g.declare(time.Now())
		select {
		case <-ctx.Done():
			g.stopAll()
			return
		case <-g.poke:
		case <-tick.C:
		}
	}
}

// rank is this peer's place among a replica's owners, who are some of the
// eligible peers; -1 for none.
func (g *follower) rank(r *fleet.Replica, eligible []crdt.PeerID) int {
	n := g.owners
	switch g.fed(r).how {
	case fedHub:
		return 0
	case fedPolled:
		n = 1
	}
	return slices.Index(gossip.Owners(r.Stream, eligible, n), g.id)
}

// owns reports whether this peer is an owner of the stream; owners also scrape.
func (g *follower) owns(id crdt.StreamID, eligible []crdt.PeerID) bool {
	return slices.Contains(gossip.Owners(id, eligible, g.owners), g.id)
}

// reconcile starts what is owned and not followed, and stops what is followed
// and no longer owned.
func (g *follower) reconcile(ctx context.Context, now time.Time) {
	listed, eligible := map[crdt.StreamID]bool{}, g.mesh.eligible()
	for _, r := range g.fleet.List() {
		way := g.fed(r)
		if way.how == fedNot {
			continue
		}
		listed[r.Stream] = true
		if epoch := g.index.Epoch(r.Stream); epoch != 0 {
			r.Began(epoch)
		}
		rank := g.rank(r, eligible)
		g.mu.Lock()
		f := g.follow[r.Stream]
		g.mu.Unlock()
		switch {
		case f != nil && f.feed != way:
			delete(listed, r.Stream) // end it below; the next look starts it anew
			g.wake()
		case f != nil:
			g.look(f, rank, now)
		case rank >= 0:
			g.start(ctx, r, ingest.Hold{First: rank == 0})
		}
	}
	g.mu.Lock()
	var over []*following
	for id, f := range g.follow {
		if !listed[id] || f.hold.Over(f.feed.how == fedPolled) {
			over = append(over, f)
			delete(g.follow, id)
		}
	}
	g.mu.Unlock()
	for _, f := range over {
		if f.host != "" {
			g.hub.Unregister(f.host, f.rank)
		}
		f.stop()
		<-f.done
	}
}

// look tells a followed stream this peer's place among its owners.
func (g *follower) look(f *following, rank int, now time.Time) {
	heard := f.sub.Status().LastSeq
	g.mu.Lock()
	defer g.mu.Unlock()
	f.hold.Look(rank, heard, g.clock.ms(now))
}

// start follows one stream.
func (g *follower) start(ctx context.Context, r *fleet.Replica, hold ingest.Hold) {
	way := g.fed(r)
	src, err := g.source(r, way)
	if err != nil {
		g.metrics.FollowFailures.Inc()
		g.mu.Lock()
		known := g.failed[r.Stream] == err.Error()
		g.failed[r.Stream] = err.Error()
		g.mu.Unlock()
		if !known { // it is tried four times a second
			g.log.Warn("cannot subscribe to the KV events of a replica, will keep trying; until then its cache is predicted", "replica", r.Name(), "err", err)
		}
		return
	}
	sctx, stop := context.WithCancel(ctx)
	f := &following{sub: src, feed: way, stop: stop, done: make(chan struct{}), hold: hold, rank: r.Spec.Rank}
	if sub, ok := src.(*kvevents.Subscriber); ok && way.how == fedHub {
		f.host = hostOf(r.Spec.URL)
		g.hub.Register(f.host, r.Spec.Rank, sub)
	}
	g.mu.Lock()
	g.follow[r.Stream] = f
	delete(g.failed, r.Stream)
	g.mu.Unlock()
	go func() { // waited for through f.done, by reconcile or stopAll
		defer close(f.done)
		if err := src.Run(sctx); err != nil && sctx.Err() == nil {
			g.log.Error("reading the KV events of a replica ended; its cache is predicted", "replica", r.Name(), "err", err)
		}
	}()
}

func (g *follower) stopAll() {
	g.mu.Lock()
	all := g.follow
	g.follow = map[crdt.StreamID]*following{}
	g.mu.Unlock()
	for _, f := range all {
		f.stop()
	}
	for _, f := range all {
		<-f.done
	}
}

// Prior tells a subscriber what the mesh knows of its stream.
func (g *follower) Prior(id crdt.StreamID) (kvevents.Prior, bool) {
	p, ok := g.index.Prior(id)
	return kvevents.Prior{Epoch: p.Epoch, Anchor: p.Anchor, Floor: p.Floor, LastSeq: p.Last, LastTS: p.LastTS}, ok
}

// Deliver is the event path: engine's slots -> index -> mesh.
func (g *follower) Deliver(d kvevents.Delivery) {
	delta := crdt.Delta{Stream: d.Stream, Epoch: d.Epoch, Anchor: d.Anchor, Slots: d.Slots}
	out := g.index.Apply(&delta, g.clock.ms(time.Now()))
	if out.Overflow {
		g.log.Warn("too many event batches of a replica are missing: its known blocks are dropped and will be fetched again", "replica", g.nameOf(d.Stream), "stream", d.Stream)
	}
	g.mu.Lock()
	f := g.follow[d.Stream]
	first, gaps := f != nil && f.hold.First, 0
	if f != nil && !out.Stale {
		gaps, f.holes = len(out.Holes)-f.holes, len(out.Holes)
	}
	g.mu.Unlock()
	if gaps > 0 {
		g.metrics.Gaps.Add(float64(gaps))
	}
	if !ingest.Relay(&out) {
		return
	}
	g.mesh.ingested(gossip.Ingested{
		Stream: d.Stream, Epoch: d.Epoch, Slots: crdt.SpansOf(d.Slots), ReceivedAt: g.clock.ms(d.ReceivedAt), First: first,
	})
}

// nameOf is the name of a stream's replica, "" if it is not listed.
func (g *follower) nameOf(id crdt.StreamID) string {
	for _, r := range g.fleet.List() {
		if r.Stream == id {
			return r.Name()
		}
	}
	return ""
}

// missing is the core's word that no live peer has these slots: ask the
// engine, if this peer listens to it.
func (g *follower) missing(id crdt.StreamID, spans []crdt.Span) {
	p, ok := g.index.Prior(id)
	if !ok {
		return
	}
	g.mu.Lock()
	g.losses.Absent(id, p.Epoch, spans, g.clock.ms(time.Now()))
	f := g.follow[id]
	g.mu.Unlock()
	if f != nil {
		f.sub.Fetch(spans)
	}
}

// Exhausted is the engine's word that it cannot give these slots.
func (g *follower) Exhausted(id crdt.StreamID, epoch uint64, spans []crdt.Span) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.losses.Exhausted(id, epoch, spans, g.clock.ms(time.Now()))
}

// declare gives slots up where the rule of gossip.Losses says so.
func (g *follower) declare(now time.Time) {
	g.mu.Lock()
	due := g.losses.Due(g.clock.ms(now), func(id crdt.StreamID) bool {
		f := g.follow[id]
		return f != nil && f.hold.Owner()
	})
	g.mu.Unlock()
	for _, lost := range ingest.Declare(due, g.index, g.clock.ms(now)) {
		n := uint64(0)
		for _, sp := range lost.Lost {
			n += sp.To - sp.From + 1
		}
		g.metrics.Lost.Add(float64(n))
		g.log.Warn("event batches lost for good: no peer and no replay has them; blocks reported before count half until reported again; raise buffer_steps of the engine", "replica", g.nameOf(lost.Stream), "stream", lost.Stream, "batches", n)
		g.mesh.ingested(lost)
	}
}

// scraped takes what the fleet read of an owned replica's own load.
func (g *follower) scraped(id crdt.StreamID, s crdt.Scrape) {
	g.loads.JoinScrapes(map[crdt.StreamID]crdt.Scrape{id: s})
}

// status is a replica's stream for the status page.
func (g *follower) status(r *fleet.Replica) console.Stream {
	s := console.Stream{Owners: []string{}}
	if facts := r.Facts(); g.fed(r).how == fedNot {
		s.State, s.Detail = "none", "no events endpoint is configured or told: predictions only"
		if why := g.misfit(&facts); why != "" {
			s.State, s.Detail = "unusable", why
		} else if facts.Engine == "" {
			s.State, s.Detail = "idle", "its engine is not known yet"
		} else if facts.Elsewhere != "" {
			s.Detail = fmt.Sprintf("the engine says that it publishes at %s, which is not the host of its URL: predictions only; "+
				"set events: to that address if it is right", facts.Elsewhere)
		} else if _, heard := g.index.Prior(r.Stream); heard && g.rules.config().Ingest.Token != "" {
			s.State, s.Detail = "ok", "events come by HTTP"
		} else if facts.Engine == kvevents.TRTLLM.String() && facts.Events == "" {
			s.Detail = "reading its events takes them from any other reader: predictions only, unless events: poll or ingest.poll says that this mesh is the only one"
		}
		return s
	}
	names := map[crdt.PeerID]string{g.id: g.name}
	for _, m := range g.mesh.members() {
		names[m.ID] = m.Name
	}
	for _, id := range gossip.Owners(r.Stream, g.mesh.eligible(), g.owners) {
		s.Owners = append(s.Owners, names[id])
	}
	g.mu.Lock()
	f, failed := g.follow[r.Stream], g.failed[r.Stream]
	g.mu.Unlock()
	if f == nil && failed != "" {
		s.State, s.Detail = "unusable", failed
		return s
	}
	if f == nil {
		if _, ok := g.index.Prior(r.Stream); ok {
			s.State = "ok"
		} else {
			s.State, s.Detail = "idle", "no event came yet"
		}
		return s
	}
	st := f.sub.Status()
	switch {
	case st.Unusable != "":
		s.State, s.Detail = "unusable", st.Unusable
	case st.State == "quarantined":
		s.State = "quarantined"
	case f.feed.how == fedHub && st.State != follow.Asking.String():
		s.State, s.Detail = g.dialsUs(r, &st)
	case !st.Connected && f.feed.how != fedHub:
		s.State, s.Detail = "connecting", st.LastError
		if !st.Since.IsZero() {
			ms := time.Since(st.Since).Milliseconds()
			s.ConnectingMs = &ms
		}
	case st.State == follow.Asking.String():
		s.State, s.Detail = "connecting", "its events wait until it tells when it started (GET /metrics): look whether that answers"
	default:
		s.State, s.Detail = "ok", st.State
	}
	return s
}

// told is what a followed stream says of itself; false if this peer does not
// follow it.
func (g *follower) told(id crdt.StreamID) (kvevents.Status, bool) {
	g.mu.Lock()
	f := g.follow[id]
	g.mu.Unlock()
	if f == nil {
		return kvevents.Status{}, false
	}
	return f.sub.Status(), true
}

var _ kvevents.Sink = (*follower)(nil)
