package router

import (
	"context"
	crand "crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/deploy"
	"github.com/banyan-llm/banyan/gossip"
	"github.com/banyan-llm/banyan/radix"
	"github.com/banyan-llm/banyan/router/console"
	"github.com/banyan-llm/banyan/router/fleet"
	"github.com/banyan-llm/banyan/router/index"
	"github.com/banyan-llm/banyan/router/load"
	"github.com/banyan-llm/banyan/router/pick"
	"github.com/banyan-llm/banyan/router/policy"
	"github.com/banyan-llm/banyan/router/proxy"
	"github.com/banyan-llm/banyan/router/requests"
	"github.com/banyan-llm/banyan/router/token"
	"github.com/banyan-llm/banyan/router/tracing"
)

// Options are what a Peer gets from its process rather than its configuration.
type Options struct {
	Version string
	Logger  hclog.Logger
	// Stdout takes the access log where its path is stdout; nil: nobody.
	Stdout io.Writer
	// Source is where the configuration came from, to follow its changes. The
	// zero Source follows only the files that the configuration names.
	Source Source

	departed time.Duration // for tests; 0: departedAfter
}

// Peer is one router process.
type Peer struct {
	rules    atomic.Pointer[rules] // what a reload replaces
	source   Source
	version  string
	id       crdt.PeerID
	name     string
	log      hclog.Logger
	clock    clock
	registry *prometheus.Registry
	metrics  *metrics
	usage    *usage
	arrived  atomic.Uint64 // requests
	rate     rateMeter     // of arrived

	hasher    *radix.Hasher
	seal      seal
	index     *index.Index
	loads     *load.Table
	fleet     *fleet.Fleet
	tokens    *token.Tokenizer
	hangup    chan struct{}
	core      *gossip.Core
	mesh      *link
	ingest    *follower
	told      *toldLoads // loads that engines publish
	console   *console.Console
	unheard   map[string]bool // replicas whose events cannot be heard, as logged; observeChanges alone touches it
	lineups   lineupCache
	picker    *pick.Picker
	shared    sharedPrefixes
	hits      promptHits
	roots     rootNames
	recorded  pace
	recent    recent
	history   history
	book      *requests.Book
	access    *requests.Log
	stdout    io.Writer // nil: nobody's
	lostLines uint64    // of the access log, as last told; of keepHouse's goroutine

	transport *http.Transport // to replicas
	traffic   traffic
	tracing   *tracing.Tracing // nil: off
	running   running          // prefill legs

	discovery []finder
	departed  departures
	givenUp   map[index.Bound]uint64 // as last logged; of keepHouse's goroutine
	found     atomic.Bool            // every source of replicas has answered once

	public, admin net.Listener
	api           atomic.Pointer[proxy.Handler]
	draining      atomic.Bool
	caught        atomic.Pointer[gossip.Caught]
	joined        atomic.Bool // it was caught up with the mesh once, or found none
	ages          atomic.Pointer[ageView]
	coreStats     atomic.Pointer[gossip.Stats]
	tagged        atomic.Bool              // what the tag ready says
	serving       atomic.Bool              // the listeners answer
	toldReady     *bool                    // as last logged; of keepHouse's goroutine
	reloadFault   atomic.Pointer[string]   // why the last reload failed; nil if it did not
	restart       atomic.Pointer[[]string] // settings that wait for a restart
}

// Addresses says where a peer listens.
type Addresses struct{ Name, HTTP, Admin, Mesh string }

// New checks the configuration, binds all listeners and makes a peer that does
// nothing until Run.
func New(cfg Config, opt Options) (*Peer, error) {
	begin, err := makeRules(&cfg, opt.Source.Files, time.Now())
	if err != nil {
		return nil, err
	}
	if opt.Logger == nil {
		opt.Logger = hclog.NewNullLogger()
	}
	p := &Peer{source: opt.Source, version: opt.Version, log: opt.Logger, stdout: opt.Stdout, clock: newClock(), registry: prometheus.NewRegistry(), hangup: make(chan struct{}, 1)}
	p.rules.Store(begin)
	if _, err := crand.Read(p.id[:]); err != nil {
		return nil, fmt.Errorf("draw a peer id: %w", err)
	}
	p.name = cfg.Mesh.Name
	if p.name == "" {
		host, _ := os.Hostname()
		host, _, _ = strings.Cut(host, ".")
		p.name = fmt.Sprintf("%.40s-%s", host, p.id.String()[:6])
	}
	p.metrics = newMetrics(p.registry, opt.Version)
	p.usage = newUsage(p.registry)
	p.metrics.startAtZero(cfg.Policy)
	secret, err := p.hashSecret()
	if err != nil {
		return nil, err
	}
	p.hasher, p.seal = radix.NewHasher(secret), newSeal(secret)
	p.loads = load.New(p.id, func() int64 { return p.clock.ms(time.Now()) })
	p.departed.after = opt.departed
	p.book = requests.NewBook(requests.KeptOrdinary, requests.KeptNotable)
	p.console = console.New(p.pageStatus)
	p.console.Serve(console.Sources{Find: p.findRequest, Notable: p.notableRequests, Runbook: deploy.Runbook})
	if err := p.compose(); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// config is what the peer goes by now. A reload stores another one, so read it
// once where two settings must agree.
func (p *Peer) config() *Config { return p.rules.Load().cfg }

// hashSecret reads the mesh-wide secret that keys every block hash, or derives
// one from the label.
func (p *Peer) hashSecret() ([]byte, error) {
	if p.config().Mesh.HashSecret == "" {
		p.log.Warn("mesh.hash_secret is not set: block hashes are keyed with the cluster label, which is not secret")
		sum := sha256.Sum256([]byte("banyan hash secret\x00" + p.config().Mesh.Label))
		return sum[:], nil
	}
	secret, err := readBoundedFile(p.config().Mesh.HashSecret, 64<<10)
	if err != nil {
		return nil, fmt.Errorf("mesh.hash_secret: %w", err)
	}
	if len(secret) < 16 {
		return nil, fmt.Errorf("mesh.hash_secret: %s holds %d bytes, want 16 or more", p.config().Mesh.HashSecret, len(secret))
	}
	return secret, nil
}

// compose makes the parts and binds the listeners.
func (p *Peer) compose() error {
	cfg := p.config()
	p.index = index.New(index.Config{
		Facts: p.factsLimit, Memory: treeMemory(cfg.Limits.Memory),
		Hasher: p.hasher, Grid: cfg.Grid, RingBytes: int(cfg.Limits.RingBytes), Predictions: cfg.Limits.Predictions,
	})
	p.transport = proxy.NewTransport()
	var err error
	if p.tokens, err = token.New(token.Config{Hasher: p.hasher, Grid: cfg.Grid, Mode: cfg.Tokenizer, Deadline: cfg.Limits.Tokenize, Inexact: p.lostExact}); err != nil {
		return err
	}
	if p.public, err = net.Listen("tcp", cfg.HTTP.Listen); err != nil {
		return fmt.Errorf("http.listen: %w (give another address, or end what has this one)", err)
	}
	if p.admin, err = net.Listen("tcp", cfg.Admin.Listen); err != nil {
		return fmt.Errorf("admin.listen: %w (give another address, or end what has this one)", err)
	}
	p.core, err = gossip.New(gossip.Config{
		Self: p.id, Name: p.name, Label: cfg.Mesh.Label, Fingerprint: p.fingerprint(),
		Differs: func(theirs uint64) string { return differs(p.fingerprint(), theirs) },
		State:   pick.State{Index: p.index, Table: p.loads, Wants: p.wants}, Rand: rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())),
		JoinGrace: joinGrace(len(cfg.Mesh.Join)), Wants: p.wants,
		Fits: func(id crdt.StreamID, d *crdt.Digest) bool { return p.index.Fits(id, d, p.clock.ms(time.Now())) },
	})
	if err != nil {
		return err
	}
	p.picker = pick.New(pick.Config{
		Index: p.index, Loads: p.loads, Late: p.metrics.announcedLate.Inc,
		Changed:   func() { p.mesh.loadChanged(true) },
		Announced: p.announced,
	})
	if p.mesh, err = newLink(p); err != nil {
		if errors.Is(err, syscall.EADDRINUSE) {
			return fmt.Errorf("mesh.bind: %w (give another address, or end what has this one)", err)
		}
		return err
	}
	if p.ingest, err = newIngest(p); err != nil {
		return err
	}
	p.told = &toldLoads{peer: p, last: map[crdt.StreamID]time.Time{}}
	p.fleet = fleet.New(fleet.Config{
		Owned: func(id crdt.StreamID) bool {
			return p.ingest.owns(id) && !p.told.fresh(id, time.Now())
		},
		Scraped: p.ingest.scraped,
		Changed: p.ingest.wake,
		Logger:  p.log.Named("fleet"),

		SlowStart: cfg.Discovery.SlowStart,
	})
	p.fleet.Set(cfg.Replicas, time.Now())
	if p.discovery, err = newDiscovery(cfg.Discovery, p.log.Named("discovery")); err != nil {
		return err
	}
	if cfg.Tracing.Endpoint != "" {
		if p.tracing, err = tracing.New(cfg.Tracing, tracing.Origin{Name: p.name, ID: p.id.String(), Version: p.version}, p.traceFailed); err != nil {
			return err
		}
	}
	if err := p.openAccessLog(); err != nil {
		return err
	}
	p.registry.MustRegister(newCollector(p))
	return nil
}

// joinGrace is how long a peer whose company, if any, joins as well waits before
// it calls itself ready, ms: longer if it was told seeds.
func joinGrace(seeds int) int64 {
	if seeds == 0 {
		return 1
	}
	return 3000
}

// Addresses returns where the peer listens.
func (p *Peer) Addresses() Addresses {
	return Addresses{p.name, p.public.Addr().String(), p.admin.Addr().String(), p.mesh.address()}
}

// Ready reports whether an L4 balancer should send requests here, and why. A
// peer that was caught up once stays ready when it falls behind: it routes on
// what it knows, and when all peers are short of CPU at once a balancer would
// find none.
func (p *Peer) Ready() (bool, string) {
	c := p.caught.Load()
	switch {
	case p.draining.Load():
		return false, "draining"
	case c == nil:
		return false, "joining the mesh"
	case !c.Ready && !p.joined.Load():
		return false, c.Reason
	case len(p.fleet.List()) == 0:
		return false, "no replica is configured or discovered"
	}
	if !c.Ready {
		return true, "behind the mesh: " + c.Reason
	}
	return true, c.Reason
}

// behind is why a peer that was caught up once is not now; empty if it is.
func (p *Peer) behind() string {
	if c := p.caught.Load(); c != nil && !c.Ready && p.joined.Load() {
		return c.Reason
	}
	return ""
}

// close releases what New bound.
func (p *Peer) close() {
	for _, l := range []net.Listener{p.public, p.admin} {
		if l != nil {
			l.Close()
		}
	}
	if p.tracing != nil {
		if err := p.tracing.Close(); err != nil {
			p.log.Warn("spans were not sent", "err", err)
		}
	}
	if p.access != nil {
		p.access.Close()
	}
	if p.tokens != nil {
		p.tokens.Close()
	}
	if p.index != nil {
		p.index.Close()
	}
}

// proxyConfig wires the data path.
func (p *Peer) proxyConfig() proxy.Config {
	l := p.config().Limits
	cfg := proxy.Config{
		MintID: p.mintID, Began: p.began, Ended: p.ended,
		Peer: p.name, Pick: p.Pick, FirstToken: p.FirstToken, Done: p.Done,
		Room: p.headroom, Serves: p.serves, Waited: p.waited, Hedge: p.config().Hedge.proxy(), Admission: p.config().Admission.proxy(),
		Transport: p.transport,
		Models:    p.models, Draining: p.draining.Load,
		Hedged:   func(how proxy.HedgeOutcome) { p.metrics.hedges.WithLabelValues(string(how)).Inc() },
		Retried:  func(c proxy.Cause) { p.metrics.retries.WithLabelValues(string(c)).Inc() },
		Refused:  func(status int) { p.metrics.answered(p.config().Policy, policy.ReasonOnly, status) },
		Overhead: func(d time.Duration) { p.metrics.overhead.Observe(d.Seconds()) },
		Salt:     p.seal.salt, ResponseID: p.responseID,
		TenantHeader: p.config().IsolateBy, PolicyOverride: true, // policyFor decides
		KeepAuthorization: true, // a key of this router's is off by now
		Limits:            proxyLimits(&l),
	}
	if p.tracing != nil {
		cfg.Tracer = p.tracing.Tracer()
	}
	if p.config().Routing.Disagg.On() {
		cfg.Attempt = p.attempt
	}
	return cfg
}

// proxyLimits are the limits in the proxy's terms, where 0 means its default.
func proxyLimits(l *LimitsConfig) proxy.Limits {
	out := proxy.Limits{
		BodyBytes: l.BodyBytes, BodyTimeout: l.BodyTime, Concurrency: l.Concurrency, Queue: l.Queue, QueueTimeout: l.QueueTimeout, FirstByte: l.TTFT, Retries: l.Retries,
		Answer: l.Answer, Idle: l.Idle, Deadline: l.Deadline,
	}
	if l.Queue == 0 {
		out.Queue = -1
	}
	if l.Retries == 0 {
		out.Retries = -1
	}
	return out
}

// models lists the fleet's models for /v1/models.
func (p *Peer) models() []proxy.Model {
	var out []proxy.Model
	for _, m := range p.fleet.ModelNames() {
		out = append(out, proxy.Model{
			ID: m.ID, Object: "model", Created: p.clock.began.Unix(), OwnedBy: "banyan", Root: m.Root, Parent: m.Parent, MaxModelLen: m.MaxLen,
		})
	}
	return out
}

// Run serves until ctx ends, then drains. It returns when everything has
// ended (R3).
func (p *Peer) Run(ctx context.Context) error { return p.live(ctx) }

// waiting is who waits for admission.
func (p *Peer) waiting() proxy.Stats {
	if h := p.api.Load(); h != nil {
		return h.Stats()
	}
	return proxy.Stats{}
}
