package fleet

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/banyan-llm/banyan/crdt"
)

// Config is what a Fleet needs.
type Config struct {
	Client *http.Client  // for probes; bounded time-outs
	Probe  time.Duration // between health probes of a replica that is up; default 2 s
	Models time.Duration // between looks at /v1/models; default 10 s
	Scrape time.Duration // between scrapes of an owned replica; default 500 ms
	// Owned reports whether this peer scrapes the replica; nil: all.
	Owned func(crdt.StreamID) bool
	// Scraped receives each scrape.
	Scraped func(crdt.StreamID, crdt.Scrape)
	// Changed is called after a replica came, went, or changed state.
	Changed func()
	Logger  hclog.Logger
}

// Fleet is the list of replicas and the goroutines that watch them.
type Fleet struct {
	cfg  Config
	list atomic.Pointer[[]*Replica]

	mu sync.Mutex // serialises Set
}

// New makes an empty fleet.
func New(cfg Config) *Fleet {
	if cfg.Client == nil {
		cfg.Client = &http.Client{Timeout: 2 * time.Second}
	}
	if cfg.Probe == 0 {
		cfg.Probe = 2 * time.Second
	}
	if cfg.Models == 0 {
		cfg.Models = 10 * time.Second
	}
	if cfg.Scrape == 0 {
		cfg.Scrape = 500 * time.Millisecond
	}
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	f := &Fleet{cfg: cfg}
	f.list.Store(&[]*Replica{})
	return f
}

// Set replaces the list. Replicas that stay keep their state; a replica whose
// spec changed is a new one.
func (f *Fleet) Set(specs []Spec, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	old := f.List()
	next := make([]*Replica, 0, len(specs))
	for _, spec := range specs {
		spec = spec.withDefaults()
		i := slices.IndexFunc(old, func(r *Replica) bool { return sameSpec(r.Spec, spec) })
		if i >= 0 {
			next = append(next, old[i])
			continue
		}
		next = append(next, newReplica(spec, now))
	}
	slices.SortFunc(next, func(a, b *Replica) int { return strings.Compare(a.Spec.Name, b.Spec.Name) })
	f.list.Store(&next)
	f.changed()
}

func sameSpec(a, b Spec) bool {
	if len(a.Labels) != len(b.Labels) {
		return false
	}
	for k, v := range a.Labels {
		if w, ok := b.Labels[k]; !ok || v != w {
			return false
		}
	}
	a.Labels, b.Labels = nil, nil
	return a.Name == b.Name && a.URL == b.URL && a.Engine == b.Engine && a.Events == b.Events &&
		a.Replay == b.Replay && a.Topic == b.Topic && a.Rank == b.Rank && a.Role == b.Role &&
		a.Kind == b.Kind && a.Model == b.Model && a.Credentials == b.Credentials
}

// List returns the replicas, sorted by name. The slice is immutable.
func (f *Fleet) List() []*Replica { return *f.list.Load() }

// Get finds a replica by name.
func (f *Fleet) Get(name string) *Replica {
	list := f.List()
	i := slices.IndexFunc(list, func(r *Replica) bool { return r.Spec.Name == name })
	if i < 0 {
		return nil
	}
	return list[i]
}

func (f *Fleet) changed() {
	if f.cfg.Changed != nil {
		f.cfg.Changed()
	}
}

// Run watches the replicas until ctx ends and all its goroutines are done.
func (f *Fleet) Run(ctx context.Context) {
	var wg sync.WaitGroup
	watched := map[*Replica]context.CancelFunc{}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		for _, r := range f.List() {
			if _, ok := watched[r]; !ok {
				rctx, cancel := context.WithCancel(ctx)
				watched[r] = cancel
				wg.Go(func() { f.watch(rctx, r) })
			}
		}
		for r, cancel := range watched {
			if !slices.Contains(f.List(), r) {
				cancel()
				delete(watched, r)
			}
		}
		select {
		case <-ctx.Done():
			for _, cancel := range watched {
				cancel()
			}
			wg.Wait()
			return
		case <-tick.C:
		}
	}
}

// ModelNames lists all models of the fleet, sorted and without repetition.
func (f *Fleet) ModelNames() []Model {
	seen := map[string]Model{}
	for _, r := range f.List() {
		for _, m := range r.Models() {
			if _, ok := seen[m.ID]; !ok {
				seen[m.ID] = m
			}
		}
	}
	out := make([]Model, 0, len(seen))
	for _, m := range seen {
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b Model) int { return strings.Compare(a.ID, b.ID) })
	return out
}
