package fleet

import (
	"cmp"
	"context"
	"maps"
	"net"
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
	Again  time.Duration // between questions where a known engine publishes; default 15 s
	// SlowStart is how long a replica that came up, or was discovered late, gets
	// less than its part; 0: no slow start.
	SlowStart time.Duration
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
	cfg   Config
	began time.Time
	list  atomic.Pointer[[]*Replica]
	gen   atomic.Uint64 // of the list and the models

	mu      sync.Mutex        // serialises Update; guards below
	sources map[string][]Spec // what each source lists
	told    map[string]int    // data-parallel ranks by URL, as engines told; 2 or more
}

// New makes an empty fleet.
func New(cfg Config) *Fleet {
	if cfg.Client == nil {
		cfg.Client = newClient()
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
	if cfg.Again == 0 {
		cfg.Again = 15 * time.Second
	}
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	f := &Fleet{cfg: cfg, began: time.Now(), sources: map[string][]Spec{}, told: map[string]int{}}
	f.list.Store(&[]*Replica{})
	return f
}

// The sources of replicas. What the configuration lists wins over what was
// discovered.
const (
	SourceStatic     = "static"
	SourceDNS        = "dns"
	SourceKubernetes = "kubernetes"
)

// maxReplicas bounds the list, but for what the configuration names.
const maxReplicas = 4096

// Set replaces what the configuration lists.
func (f *Fleet) Set(specs []Spec, now time.Time) { f.Update(SourceStatic, specs, now) }

// Update replaces what one source lists. Replicas that stay keep their state;
// one whose spec or source changed is a new one. Those of a source's first list
// were there before this peer; later ones start slowly. Discovered replicas
// that make no sense, or whose name or stream is taken, are left out.
func (f *Fleet) Update(source string, specs []Spec, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, late := f.sources[source]
	f.sources[source] = specs
	f.rebuildLocked(now, late)
}

// rebuildLocked makes the list of what the sources say and the engines told.
// New replicas start slowly if they are late. First come those that are listed
// themselves, so that no rank which an engine tells of takes a place, a name or a
// stream of theirs.
func (f *Fleet) rebuildLocked(now time.Time, late bool) {
	old := f.List()
	l := rebuilding{fleet: f, now: now, late: late, known: make(map[crdt.StreamID]*Replica, len(old)), names: map[string]bool{}, streams: map[crdt.StreamID]bool{}}
	for _, r := range old {
		l.known[r.Stream] = r
	}
	listed, single := f.urlsLocked()
	for url := range f.told {
		if !listed[url] {
			delete(f.told, url)
		}
	}
	var ranked []listedSpec
	for _, from := range f.sourcesLocked() {
		for _, base := range f.sources[from] {
			base = base.withDefaults()
			if from != SourceStatic && !f.sane(from, base) {
				continue
			}
			l.add(from, &base, base)
			if n := f.ranksLocked(&base, single); n > 1 {
				ranked = append(ranked, listedSpec{from, base, n})
			}
		}
	}
	for _, of := range ranked {
		for _, spec := range of.expand(of.ranks)[1:] {
			l.add(of.from, &of.Spec, spec)
		}
	}
	next := l.next
	slices.SortFunc(next, func(a, b *Replica) int { return strings.Compare(a.Spec.Name, b.Spec.Name) })
	behind := make(map[string]int, len(next))
	for _, r := range next {
		behind[r.Spec.URL]++
	}
	for _, r := range next {
		r.many.Store(behind[r.Spec.URL] > 1)
		r.cut.Store(r.Spec.Ranks == 0 && !single[r.Spec.URL] && behind[r.Spec.URL] < f.told[r.Spec.URL])
	}
	if slices.Equal(old, next) {
		return
	}
	f.list.Store(&next)
	f.gen.Add(1)
	f.changed()
}

// listedSpec is what a source lists, and how many ranks that becomes.
type listedSpec struct {
	from string
	Spec
	ranks int
}

// rebuilding is a list in the making.
type rebuilding struct {
	fleet   *Fleet
	now     time.Time
	late    bool
	known   map[crdt.StreamID]*Replica // of the list before
	names   map[string]bool
	streams map[crdt.StreamID]bool
	next    []*Replica
	told    int // ranks in it that nobody listed
}

// add lists a spec, which is base or a rank of it, if there is room and neither
// its name nor its stream is taken. For what the configuration lists itself there
// is always room.
func (l *rebuilding) add(from string, base *Spec, spec Spec) {
	f, id := l.fleet, spec.Stream()
	rank := spec.Rank != base.Rank
	told := rank && base.Ranks == 0
	full := len(l.next) >= maxReplicas && (from != SourceStatic || rank) || told && l.told >= maxToldReplicas
	if full || l.names[spec.Name] || l.streams[id] {
		return
	}
	l.names[spec.Name], l.streams[id] = true, true
	if told {
		l.told++
	}
	if r := l.known[id]; r != nil && r.Source == from && r.Told == told && r.Spec.same(&spec) {
		l.next = append(l.next, r)
		return
	}
	r := newReplica(spec, l.now)
	r.Source, r.Told, r.slowStart, r.began = from, told, f.cfg.SlowStart, f.began
	if l.late {
		r.rose.Store(r.ms(l.now))
	} else if first := l.known[base.Stream()]; first != nil && rank {
		r.rose.Store(first.rose.Load()) // they came up together
	}
	l.next = append(l.next, r)
}

// urlsLocked are the listed URLs, and those of which single ranks are listed.
func (f *Fleet) urlsLocked() (listed, single map[string]bool) {
	listed, single = map[string]bool{}, map[string]bool{}
	for _, specs := range f.sources {
		for _, s := range specs {
			url := s.withDefaults().URL
			listed[url] = true
			if s.Rank != 0 {
				single[url] = true
			}
		}
	}
	return listed, single
}

// sourcesLocked lists the sources, the configuration first.
func (f *Fleet) sourcesLocked() []string {
	return slices.SortedFunc(maps.Keys(f.sources), func(a, b string) int {
		switch {
		case a == b:
			return 0
		case a == SourceStatic:
			return -1
		case b == SourceStatic:
			return 1
		}
		return strings.Compare(a, b)
	})
}

// sane checks what was discovered.
func (f *Fleet) sane(source string, spec Spec) bool {
	err := ValidateSpecs([]Spec{spec})
	if err != nil {
		f.cfg.Logger.Warn("replica ignored: its entry is not valid", "source", source, "replica", spec.Name, "err", err)
	}
	return err == nil
}

// List returns the replicas, sorted by name. The slice is immutable.
func (f *Fleet) List() []*Replica { return *f.list.Load() }

// Heard reports whether a source has said what it lists.
func (f *Fleet) Heard(source string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, ok := f.sources[source]
	return ok
}

// Generation grows after every change of List, and of the Models of a replica
// in it: what was worked out from them is good while it stays. One atomic load.
func (f *Fleet) Generation() uint64 { return f.gen.Load() }

// Get finds a replica by name.
func (f *Fleet) Get(name string) *Replica {
	list := f.List()
	i := slices.IndexFunc(list, func(r *Replica) bool { return r.Spec.Name == name })
	if i < 0 {
		return nil
	}
	return list[i]
}

// newClient is the client for probes. A replica that answers with a redirect is
// not followed: it must not send a router elsewhere.
func newClient() *http.Client {
	return &http.Client{
		Timeout: 2 * time.Second,
		Transport: &http.Transport{
			DialContext:         (&net.Dialer{Timeout: time.Second, KeepAlive: 15 * time.Second}).DialContext,
			MaxIdleConnsPerHost: 2,
			IdleConnTimeout:     4 * time.Second, // uvicorn closes after 5 s
			DisableCompression:  true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func (f *Fleet) changed() {
	if f.cfg.Changed != nil {
		f.cfg.Changed()
	}
}

// Run watches the replicas until ctx ends and all its goroutines are done.
func (f *Fleet) Run(ctx context.Context) {
	var wg sync.WaitGroup
	groups := map[origin]*group{}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	var seen *[]*Replica
	for {
		if list := f.list.Load(); list != seen {
			seen = list
			f.regroup(ctx, &wg, groups)
		}
		select {
		case <-ctx.Done():
			for _, g := range groups {
				g.cancel()
			}
			wg.Wait()
			f.cfg.Client.CloseIdleConnections()
			return
		case <-tick.C:
		}
	}
}

// ModelNames lists all models of the fleet without repetition, in the order in
// which their replicas told them, base models before adapters: clients that take
// the first one want a base model. MaxLen is the smallest that a replica of the
// model tells: requests go to any of them.
func (f *Fleet) ModelNames() []Model {
	at, out := map[string]int{}, []Model{}
	for _, r := range f.List() {
		if !r.Fit() {
			continue
		}
		for _, m := range r.Models() {
			i, seen := at[m.ID]
			switch {
			case !seen:
				at[m.ID] = len(out)
				out = append(out, m)
			case m.MaxLen > 0 && (out[i].MaxLen <= 0 || m.MaxLen < out[i].MaxLen):
				out[i].MaxLen = m.MaxLen
			}
		}
	}
	slices.SortStableFunc(out, func(a, b Model) int { return cmp.Compare(min(len(a.Parent), 1), min(len(b.Parent), 1)) })
	return out
}
