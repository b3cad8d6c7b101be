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

// Peer is one router process: its parts, and the listeners they answer at.
type Peer struct {
	rules    *inForce
	version  string
	id       crdt.PeerID
	name     string
	log      hclog.Logger
	clock    clock
	registry *prometheus.Registry
	metrics  *metrics
	usage    *usage
	rate     rateMeter // of requests

	hasher  *radix.Hasher
	index   *index.Index
	loads   *load.Table
	fleet   *fleet.Fleet
	tokens  *token.Tokenizer
	core    *gossip.Core
	mesh    *link
	ingest  *follower
	told    *toldLoads       // loads that engines publish
	tracing *tracing.Tracing // nil: off

	path      *requestPath
	directory *directory
	prompts   *prompts
	journal   *journal
	census    *census
	ceilings  *ceilings
	view      *meshView
	readiness *readiness
	doors     *doors
	operators *operators

	console *console.Console
	unheard map[string]bool // replicas whose events cannot be heard, as logged; observeChanges alone touches it
	shared  sharedPrefixes
	hits    promptHits
	recent  recent
	history history

	public, admin net.Listener
	api           atomic.Pointer[proxy.Handler]
	tagged        atomic.Bool // what the tag ready says
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
	p := &Peer{version: opt.Version, log: opt.Logger, clock: newClock(), registry: prometheus.NewRegistry()}
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
	p.rules = &inForce{source: opt.Source, hangup: make(chan struct{}, 1), metrics: p.metrics, log: p.log, takeUp: p.takeUp}
	p.rules.Store(begin)
	secret, err := hashSecret(p.rules.config(), p.log)
	if err != nil {
		return nil, err
	}
	p.loads = load.New(p.id, func() int64 { return p.clock.ms(time.Now()) })
	p.console = console.New(p.pageStatus)
	if err := p.compose(secret, &opt); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// hashSecret reads the mesh-wide secret that keys every block hash, or derives
// one from the label.
func hashSecret(cfg *Config, log hclog.Logger) ([]byte, error) {
	if cfg.Mesh.HashSecret == "" {
		log.Warn("mesh.hash_secret is not set: block hashes are keyed with the cluster label, which is not secret")
		sum := sha256.Sum256([]byte("banyan hash secret\x00" + cfg.Mesh.Label))
		return sum[:], nil
	}
	secret, err := readBoundedFile(cfg.Mesh.HashSecret, 64<<10)
	if err != nil {
		return nil, fmt.Errorf("mesh.hash_secret: %w", err)
	}
	if len(secret) < 16 {
		return nil, fmt.Errorf("mesh.hash_secret: %s holds %d bytes, want 16 or more", cfg.Mesh.HashSecret, len(secret))
	}
	return secret, nil
}

// compose makes the parts and binds the listeners.
func (p *Peer) compose(secret []byte, opt *Options) error {
	cfg := p.rules.config()
	p.hasher = radix.NewHasher(secret)
	p.fleet = fleet.New(fleet.Config{
		Owned: func(id crdt.StreamID) bool {
			return p.ingest.owns(id) && !p.told.fresh(id, time.Now())
		},
		Scraped: func(id crdt.StreamID, s crdt.Scrape) { p.ingest.scraped(id, s) },
		Changed: func() { p.ingest.wake() },
		Logger:  p.log.Named("fleet"),

		SlowStart: cfg.Discovery.SlowStart,
	})
	p.ceilings = &ceilings{rules: p.rules, loads: p.loads, fleet: p.fleet, log: p.log}
	p.index = index.New(index.Config{
		Facts: p.ceilings.factsLimit, Memory: treeMemory(cfg.Limits.Memory),
		Hasher: p.hasher, Grid: cfg.Grid, RingBytes: int(cfg.Limits.RingBytes), Predictions: cfg.Limits.Predictions,
	})
	p.ceilings.index = p.index
	p.prompts = &prompts{fleet: p.fleet, metrics: p.metrics, log: p.log}
	var err error
	if p.tokens, err = token.New(token.Config{Hasher: p.hasher, Grid: cfg.Grid, Mode: cfg.Tokenizer, Deadline: cfg.Limits.Tokenize, Inexact: p.prompts.lostExact}); err != nil {
		return err
	}
	p.prompts.tokens = p.tokens
	if p.public, err = net.Listen("tcp", cfg.HTTP.Listen); err != nil {
		return fmt.Errorf("http.listen: %w (give another address, or end what has this one)", err)
	}
	if p.admin, err = net.Listen("tcp", cfg.Admin.Listen); err != nil {
		return fmt.Errorf("admin.listen: %w (give another address, or end what has this one)", err)
	}
	p.readiness = &readiness{fleet: p.fleet, log: p.log}
	p.census = &census{rules: p.rules, fleet: p.fleet, index: p.index, loads: p.loads, usage: p.usage, log: p.log}
	p.census.departed.after = opt.departed
	if p.census.discovery, err = newDiscovery(cfg.Discovery, p.log.Named("discovery")); err != nil {
		return err
	}
	p.core, err = gossip.New(gossip.Config{
		Self: p.id, Name: p.name, Label: cfg.Mesh.Label, Fingerprint: p.fingerprint(),
		Differs: func(theirs uint64) string { return differs(p.fingerprint(), theirs) },
		State:   pick.State{Index: p.index, Table: p.loads, Wants: p.census.wants}, Rand: rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())),
		JoinGrace: joinGrace(len(cfg.Mesh.Join)), Wants: p.census.wants,
		Fits: func(id crdt.StreamID, d *crdt.Digest) bool { return p.index.Fits(id, d, p.clock.ms(time.Now())) },
	})
	if err != nil {
		return err
	}
	if p.mesh, err = newLink(p); err != nil {
		if errors.Is(err, syscall.EADDRINUSE) {
			return fmt.Errorf("mesh.bind: %w (give another address, or end what has this one)", err)
		}
		return err
	}
	if p.ingest, err = newIngest(p); err != nil {
		return err
	}
	p.prompts.ingest = p.ingest
	p.told = &toldLoads{peer: p, last: map[crdt.StreamID]time.Time{}}
	p.fleet.Set(cfg.Replicas, time.Now())
	if cfg.Tracing.Endpoint != "" {
		if p.tracing, err = tracing.New(cfg.Tracing, tracing.Origin{Name: p.name, ID: p.id.String(), Version: p.version}, p.traceFailed); err != nil {
			return err
		}
	}
	p.view = &meshView{id: p.id, clock: p.clock, loads: p.loads, mesh: p.mesh}
	p.directory = &directory{rules: p.rules, clock: p.clock, fleet: p.fleet, index: p.index, loads: p.loads, hasher: p.hasher, seal: newSeal(secret)}
	p.operators = &operators{fleet: p.fleet, loads: p.loads, mesh: p.mesh, log: p.log}
	p.journal = &journal{
		rules: p.rules, id: p.id, name: p.name, mesh: p.mesh, directory: p.directory, usage: p.usage, log: p.log,
		book: requests.NewBook(requests.KeptOrdinary, requests.KeptNotable), stdout: opt.Stdout,
	}
	if err := p.journal.openAccessLog(); err != nil {
		return err
	}
	p.doors = &doors{rules: p.rules, journal: p.journal, metrics: p.metrics}
	p.console.Serve(console.Sources{Find: p.journal.findRequest, Notable: p.journal.notableRequests, Runbook: deploy.Runbook})
	p.composePath()
	p.registry.MustRegister(newCollector(p))
	return nil
}

// composePath makes what a request goes through.
func (p *Peer) composePath() {
	picker := pick.New(pick.Config{
		Index: p.index, Loads: p.loads, Late: p.metrics.announcedLate.Inc,
		Changed:   func() { p.mesh.loadChanged(true) },
		Announced: p.announced,
	})
	p.path = &requestPath{
		rules: p.rules, clock: p.clock, prompts: p.prompts, directory: p.directory, picker: picker, view: p.view, index: p.index, loads: p.loads,
		tokens: p.tokens, mesh: p.mesh, metrics: p.metrics, usage: p.usage, console: p.console, health: &health{fleet: p.fleet, log: p.log},
		capacity: &capacity{rules: p.rules, clock: p.clock, fleet: p.fleet, loads: p.loads, picker: picker, view: p.view, metrics: p.metrics},
		pairs: &pairs{
			rules: p.rules, clock: p.clock, fleet: p.fleet, loads: p.loads, mesh: p.mesh, metrics: p.metrics, log: p.log,
			tracing: p.tracing, transport: proxy.NewTransport(),
		},
	}
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

// Ready reports whether an L4 balancer should send requests here, and why.
func (p *Peer) Ready() (bool, string) { return p.readiness.ready() }

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
	if p.journal != nil && p.journal.access != nil {
		p.journal.access.Close()
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
	l := p.rules.config().Limits
	cfg := proxy.Config{
		MintID: p.journal.mintID, Began: p.journal.began, Ended: p.journal.ended,
		Peer: p.name, Pick: p.path.Pick, FirstToken: p.path.FirstToken, Done: p.path.Done,
		Room: p.path.capacity.headroom, Serves: p.directory.serves, Waited: p.path.capacity.waited, Hedge: p.rules.config().Hedge.proxy(), Admission: p.rules.config().Admission.proxy(),
		Transport: p.path.pairs.transport,
		Models:    p.directory.models, Draining: p.readiness.draining.Load,
		Hedged:   func(how proxy.HedgeOutcome) { p.metrics.hedges.WithLabelValues(string(how)).Inc() },
		Retried:  func(c proxy.Cause) { p.metrics.retries.WithLabelValues(string(c)).Inc() },
		Refused:  func(status int) { p.metrics.answered(p.rules.config().Policy, policy.ReasonOnly, status) },
		Overhead: func(d time.Duration) { p.metrics.overhead.Observe(d.Seconds()) },
		Salt:     p.directory.seal.salt, ResponseID: p.directory.responseID,
		TenantHeader: p.rules.config().IsolateBy, PolicyOverride: true, // policyFor decides
		KeepAuthorization: true, // a key of this router's is off by now
		Limits:            proxyLimits(&l),
	}
	if p.tracing != nil {
		cfg.Tracer = p.tracing.Tracer()
	}
	if p.rules.config().Routing.Disagg.On() {
		cfg.Attempt = p.path.pairs.attempt
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
