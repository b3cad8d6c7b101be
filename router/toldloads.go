package router

import (
	"context"
	"sync"
	"time"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/router/fleet"
	"github.com/banyan-llm/banyan/router/kvevents"
	"github.com/banyan-llm/banyan/router/kvevents/zmtp"
)

// toldFor is how long a load that an engine published keeps it from being
// asked for: it publishes each change, and every second without one.
const toldFor = 3 * time.Second

// toldLoads listens to the loads that SGLang publishes (LoadStat), of the
// replicas this peer owns. Where they come, nobody asks for /v1/loads.
type toldLoads struct {
	fleet  *fleet.Fleet
	ingest *follower

	mu   sync.Mutex // guards below
	last map[crdt.StreamID]time.Time
}

// listener is one socket that is listened to.
type listener struct {
	endpoint, topic string
	stop            context.CancelFunc
}

// fresh reports whether the replica's load was told lately.
func (l *toldLoads) fresh(id crdt.StreamID, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return now.Sub(l.last[id]) < toldFor
}

// run keeps the sockets listened to equal to those of owned replicas until ctx
// ends.
func (l *toldLoads) run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	on := map[crdt.StreamID]listener{}
	tick := time.NewTicker(reconcileEvery)
	defer tick.Stop()
	for {
		listed, eligible := map[crdt.StreamID]bool{}, l.ingest.mesh.eligible()
		for _, r := range l.fleet.List() {
			f := r.Facts()
			if f.Loads == "" || !l.ingest.owns(r.Stream, eligible) {
				continue
			}
			listed[r.Stream] = true
			if have, ok := on[r.Stream]; ok {
				if have.endpoint == f.Loads && have.topic == f.LoadTopic {
					continue
				}
				have.stop()
			}
			sctx, stop := context.WithCancel(ctx)
			on[r.Stream] = listener{f.Loads, f.LoadTopic, stop}
			wg.Go(func() { l.listen(sctx, r, f.Loads, f.LoadTopic) })
		}
		l.mu.Lock()
		for id, have := range on {
			if !listed[id] {
				have.stop()
				delete(on, id)
				delete(l.last, id)
			}
		}
		l.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// maxLoadBytes bounds one message of a load; an engine sends about a hundred.
const maxLoadBytes = 64 << 10

// listen takes what one socket tells until ctx ends.
func (l *toldLoads) listen(ctx context.Context, r *fleet.Replica, endpoint, topic string) {
	sub := zmtp.DialSub(endpoint, topic, zmtp.Options{MaxBytes: maxLoadBytes, Queue: 1})
	defer func() { _ = sub.Close() }()
	for {
		m, err := sub.Recv(ctx)
		if err != nil {
			return
		}
		if m.Kind != zmtp.Data {
			continue
		}
		f, err := kvevents.ParseLive(m.Frames)
		if err != nil {
			continue
		}
		told, err := kvevents.ParseLoad(f.Payload)
		if err != nil || told.Capacity == 0 { // it is starting
			continue
		}
		l.mu.Lock()
		l.last[r.Stream] = m.At
		l.mu.Unlock()
		l.ingest.scraped(r.Stream, crdt.Scrape{
			Version: uint64(m.At.UnixMilli()), Running: int32(min(told.Running, 1<<30)), Waiting: int32(min(told.Waiting, 1<<30)),
			KVUse: float32(min(1, float64(told.Used)/float64(told.Capacity))), Capacity: int64(min(told.Capacity, 1<<47)),
		})
	}
}
