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
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/deploy"
	"github.com/banyan-llm/banyan/gossip"
	"github.com/banyan-llm/banyan/radix"
	"github.com/banyan-llm/banyan/router/access"
	"github.com/banyan-llm/banyan/router/console"
	"github.com/banyan-llm/banyan/router/disagg"
	"github.com/banyan-llm/banyan/router/fleet"
	"github.com/banyan-llm/banyan/router/index"
	"github.com/banyan-llm/banyan/router/load"
	"github.com/banyan-llm/banyan/router/metrics"
	"github.com/banyan-llm/banyan/router/pick"
	"github.com/banyan-llm/banyan/router/policy"
	"github.com/banyan-llm/banyan/router/proxy"
	"github.com/banyan-llm/banyan/router/report"
	"github.com/banyan-llm/banyan/router/requests"
	"github.com/banyan-llm/banyan/router/token"
	"github.com/banyan-llm/banyan/router/tracing"
	"github.com/banyan-llm/banyan/router/workingset"
)

// Options are what a Peer gets from its process rather than its configuration.
type Options struct {
	Version string
	Logger  hclog.Logger
	// LogDropped counts the lines that Logger lost since the start because
	// nobody took them; nil: none.
	LogDropped func() uint64
	// Stdout takes the access log where its path is stdout; nil: nobody.
	Stdout io.Writer
	// Source is where the configuration came from, to follow its changes. The
	// zero Source follows only the files that the configuration names.
	Source Source

	departed time.Duration // for tests; 0: departedAfter
}

// self is who a peer is.
type self struct {
	id            crdt.PeerID
	name, version string
}

// Peer is one router process, made of its parts.
type Peer struct {
	self
	log     hclog.Logger
	clock   clock
	rules   *inForce
	metrics *metrics.Metrics

	index   *index.Index
	loads   *load.Table
	fleet   *fleet.Fleet
	tokens  *token.Tokenizer
	mesh    *link
	ingest  *follower
	told    *toldLoads       // loads that engines publish
	tracing *tracing.Tracing // nil: off

	path      *requestPath
	journal   *journal
	census    *census
	readiness *readiness
	report    *statusReport
	house     *housekeeping
	front     *front
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
	p := &Peer{self: self{version: opt.Version}, log: opt.Logger, clock: newClock(), front: &front{}}
	if _, err := crand.Read(p.id[:]); err != nil {
		return nil, fmt.Errorf("draw a peer id: %w", err)
	}
	p.name = cfg.Mesh.Name
	if p.name == "" {
		host, _ := os.Hostname()
		host, _, _ = strings.Cut(host, ".")
		p.name = fmt.Sprintf("%.40s-%s", host, p.id.String()[:6])
	}
	registry := prometheus.NewRegistry()
	p.metrics = metrics.New(registry, opt.Version)
	if opt.LogDropped == nil {
		opt.LogDropped = func() uint64 { return 0 }
	}
	registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "banyan_log_lines_dropped_total", Help: "Lines of this peer's own log that were dropped because the reader of the log is too slow.",
	}, func() float64 { return float64(opt.LogDropped()) }))
	p.metrics.StartAtZero(cfg.Policy)
	p.rules = &inForce{source: opt.Source, hangup: make(chan struct{}, 1), metrics: p.metrics, log: p.log, takeUp: p.takeUp}
	p.rules.Store(begin)
	if cfg.Mesh.HashSecret == "" {
		p.log.Warn("mesh.hash_secret is not set: block hashes are keyed with mesh.label, so whoever sees them can test guesses of prompts; set it to the same file on all peers")
	}
	p.loads = load.New(p.id, func() int64 { return p.clock.ms(time.Now()) })
	if err := p.compose(begin.secret, &opt); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// hashSecret reads the mesh-wide secret that keys every block hash, or derives
// one from the label.
func hashSecret(cfg *Config) ([]byte, error) {
	if cfg.Mesh.HashSecret == "" {
		sum := sha256.Sum256([]byte("banyan hash secret\x00" + cfg.Mesh.Label))
		return sum[:], nil
	}
	secret, err := access.ReadFile(cfg.Mesh.HashSecret, 64<<10)
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
	hasher := radix.NewHasher(secret)
	p.fleet = fleet.New(fleet.Config{
		Owned: func(id crdt.StreamID) bool {
			return p.ingest.owns(id, p.mesh.eligible()) && !p.told.fresh(id, time.Now())
		},
		Scraped: func(id crdt.StreamID, s crdt.Scrape) { p.ingest.scraped(id, s) },
		Changed: func() { p.ingest.wake() },
		Logger:  p.log.Named("fleet"),

		SlowStart: cfg.Discovery.SlowStart,
	})
	used := workingset.New(cfg.Grid)
	parts := p.memory()
	bounds := &ceilings{rules: p.rules, loads: p.loads, fleet: p.fleet, log: p.log}
	p.index = index.New(index.Config{
		Facts: bounds.factsLimit, Memory: parts.tree, RingBytes: int(parts.ring), AboveBytes: int(parts.above),
		Hasher: hasher, Grid: cfg.Grid, Predictions: cfg.Limits.Predictions,
		Used: func(at crdt.StreamID, blocks []uint64, atMs int64) {
			used.Use(at, blocks, atMs, p.clock.ms(time.Now()))
		},
	})
	bounds.index = p.index
	keys := &prompts{fleet: p.fleet, metrics: p.metrics, log: p.log}
	var err error
	if p.tokens, err = token.New(token.Config{Hasher: hasher, Grid: cfg.Grid, Mode: cfg.Tokenizer, Deadline: cfg.Limits.Tokenize, AskBytes: parts.questions, Inexact: keys.lostExact}); err != nil {
		return err
	}
	keys.tokens = p.tokens
	if p.front.public, err = net.Listen("tcp", cfg.HTTP.Listen); err != nil {
		return fmt.Errorf("http.listen: %w (set a different address, or stop the process that uses this one)", err)
	}
	if p.front.admin, err = net.Listen("tcp", cfg.Admin.Listen); err != nil {
		return fmt.Errorf("admin.listen: %w (set a different address, or stop the process that uses this one)", err)
	}
	p.readiness = &readiness{fleet: p.fleet, log: p.log}
	p.census = &census{rules: p.rules, fleet: p.fleet, index: p.index, loads: p.loads, usage: p.metrics.Usage, log: p.log}
	p.census.departed.after = opt.departed
	if p.census.discovery, err = newDiscovery(cfg.Discovery, p.log.Named("discovery")); err != nil {
		return err
	}
	if err := p.composeMesh(hasher); err != nil {
		return err
	}
	keys.ingest = p.ingest
	p.fleet.Set(cfg.Replicas, time.Now())
	if cfg.Tracing.Endpoint != "" {
		failed := func(err error) { p.log.Debug("the collector did not take trace spans", "err", err) }
		if p.tracing, err = tracing.New(cfg.Tracing, tracing.Origin{Name: p.name, ID: p.id.String(), Version: p.version}, failed); err != nil {
			return err
		}
	}
	serving := &directory{rules: p.rules, clock: p.clock, fleet: p.fleet, index: p.index, loads: p.loads, hasher: hasher, seal: newSeal(secret)}
	p.journal = &journal{
		rules: p.rules, id: p.id, name: p.name, mesh: p.mesh, directory: serving, usage: p.metrics.Usage, log: p.log,
		book: requests.NewBook(requests.KeptOrdinary, requests.KeptNotable), stdout: opt.Stdout,
	}
	if err := p.journal.openAccessLog(); err != nil {
		return err
	}
	p.composePath(keys, serving, used)
	p.composeFront(bounds)
	p.metrics.Registry.MustRegister(metrics.Collector(func() *metrics.State { return stateOf(p) }))
	return nil
}

// memory is how the memory of the process is divided.
func (p *Peer) memory() shares {
	l := &p.rules.config().Limits
	return sharesOf(processMemory(), l.Memory, l.BodyBytes)
}

// composeMesh makes what peers and engines tell each other by.
func (p *Peer) composeMesh(hasher *radix.Hasher) error {
	cfg := p.rules.config()
	print := fingerprint(cfg, hasher)
	core, err := gossip.New(gossip.Config{
		Self: p.id, Name: p.name, Label: cfg.Mesh.Label, Fingerprint: print,
		Differs: func(theirs uint64) string { return differs(print, theirs) },
		State:   pick.State{Index: p.index, Table: p.loads, Wants: p.census.wants}, Rand: rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())),
		JoinGrace: joinGrace(len(cfg.Mesh.Join)), Wants: p.census.wants, Limits: gossip.Limits{StagedBytes: int(p.memory().staged)},
		Fits: func(id crdt.StreamID, d *crdt.Digest) bool { return p.index.Fits(id, d, p.clock.ms(time.Now())) },
	})
	if err != nil {
		return err
	}
	if p.mesh, err = newLink(p, core); err != nil {
		if errors.Is(err, syscall.EADDRINUSE) {
			return fmt.Errorf("mesh.bind: %w (set a different address, or stop the process that uses this one)", err)
		}
		return err
	}
	p.ingest = &follower{
		self: p.self, rules: p.rules, clock: p.clock, hasher: hasher, fleet: p.fleet, index: p.index, loads: p.loads, mesh: p.mesh, metrics: p.metrics, log: p.log,
		room: semaphore.NewWeighted(p.memory().events),
	}
	p.mesh.ingest = p.ingest
	p.told = &toldLoads{fleet: p.fleet, ingest: p.ingest, last: map[crdt.StreamID]time.Time{}}
	return p.ingest.open()
}

// composePath makes what a request goes through.
func (p *Peer) composePath(keys *prompts, serving *directory, used *workingset.Set) {
	uses := &prefixUse{rules: p.rules, fleet: p.fleet, index: p.index, roots: &keys.roots}
	p.front.prefixes = uses
	picker := pick.New(pick.Config{
		Index: p.index, Loads: p.loads, Late: p.metrics.AnnouncedLate.Inc,
		Changed: func() { p.mesh.loadChanged(true) },
		Announced: func(n *pick.Notice) {
			p.mesh.predicted()
			uses.note(n)
		},
	})
	view := &meshView{id: p.id, clock: p.clock, loads: p.loads, mesh: p.mesh}
	p.front.console = console.New(func() *console.Status { return p.report.page.pageStatus() })
	p.path = &requestPath{
		rules: p.rules, clock: p.clock, prompts: keys, directory: serving, picker: picker, view: view, index: p.index, loads: p.loads,
		tokens: p.tokens, mesh: p.mesh, metrics: p.metrics, usage: p.metrics.Usage, console: p.front.console, health: &health{fleet: p.fleet, log: p.log},
		capacity: &capacity{rules: p.rules, clock: p.clock, fleet: p.fleet, loads: p.loads, picker: picker, view: view, metrics: p.metrics, used: used},
		pairs:    p.newPairs(proxy.NewTransport()),
	}
}

// newPairs makes what sends a try to a prefill and a decode replica.
func (p *Peer) newPairs(transport *http.Transport) *pairs {
	return &pairs{
		clock: p.clock, fleet: p.fleet, loads: p.loads, mesh: p.mesh, metrics: p.metrics, log: p.log, transport: transport,
		legs: &disagg.Legs{
			Transport: transport, Timeout: func() time.Duration { return p.rules.config().Routing.Disagg.Timeout }, Log: p.log, Trace: traceLegs(p.tracing),
		},
	}
}

// composeFront makes what people and scripts are told, and the handlers of both
// listeners.
func (p *Peer) composeFront(bounds *ceilings) {
	f := p.front
	f.rules, f.journal, f.ingest, f.readiness, f.metrics, f.status = p.rules, p.journal, p.ingest, p.readiness, p.metrics, p.Status
	f.doors = &access.Doors{
		Rules:    func() *access.Rules { return &p.rules.Load().Rules },
		Refused:  func(listener, why string) { p.metrics.Refused.WithLabelValues(listener, why).Inc() },
		TurnAway: p.journal.turnAway, Deny: writeError,
	}
	f.operators = &operators{fleet: p.fleet, loads: p.loads, mesh: p.mesh, log: p.log}
	f.console.Serve(console.Sources{Find: p.journal.findRequest, Notable: p.journal.notableRequests, Runbook: deploy.Runbook})
	p.report = &statusReport{
		self: p.self, rules: p.rules, clock: p.clock, index: p.index, loads: p.loads, fleet: p.fleet, tokens: p.tokens, mesh: p.mesh,
		path: p.path, journal: p.journal, readiness: p.readiness, front: f, metrics: p.metrics, prefixes: f.prefixes,
		recent: report.LastMinute{Take: p.metrics.Sample},
		replicas: &replicaReport{
			rules: p.rules, clock: p.clock, index: p.index, loads: p.loads, fleet: p.fleet, tokens: p.tokens, ingest: p.ingest, census: p.census, metrics: p.metrics,
		},
	}
	p.report.page = &page{
		report: p.report, replicas: p.report.replicas, prefixes: f.prefixes, readiness: p.readiness, loads: p.loads, console: f.console, metrics: p.metrics, log: p.log,
	}
	p.house = &housekeeping{
		self: p.self, rules: p.rules, clock: p.clock, index: p.index, loads: p.loads, mesh: p.mesh, path: p.path, journal: p.journal, census: p.census, ceilings: bounds,
		readiness: p.readiness, front: f, report: p.report, page: p.report.page, metrics: p.metrics,
		heap: newHeapLimit(processMemory()),
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
	return Addresses{p.name, p.front.public.Addr().String(), p.front.admin.Addr().String(), p.mesh.address()}
}

// Ready reports whether an L4 balancer should send requests here, and why.
func (p *Peer) Ready() (bool, string) { return p.readiness.ready() }

// close releases what New bound.
func (p *Peer) close() {
	for _, l := range []net.Listener{p.front.public, p.front.admin} {
		if l != nil {
			l.Close()
		}
	}
	if p.tracing != nil {
		if err := p.tracing.Close(); err != nil {
			p.log.Warn("trace spans not sent; requests are not affected", "err", err)
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
		Room: p.path.capacity.headroom, RoomToBegin: p.path.capacity.roomToBegin, Serves: p.path.directory.serves, Waited: p.path.capacity.waited, Hedge: p.rules.config().Hedge.proxy(), Admission: p.rules.config().Admission.proxy(),
		Transport: p.path.pairs.transport,
		Down:      p.path.down,
		Models:    p.path.directory.models, Draining: p.readiness.draining.Load,
		Hedged:   func(how proxy.HedgeOutcome) { p.metrics.Hedges.WithLabelValues(string(how)).Inc() },
		Retried:  func(c proxy.Cause) { p.metrics.Retries.WithLabelValues(string(c)).Inc() },
		Resumed:  p.metrics.Resumed,
		Doubts:   p.path.health.doubts,
		Refused:  func(status int) { p.metrics.Answered(p.rules.config().Policy, policy.ReasonOnly, status) },
		Overhead: func(d time.Duration) { p.metrics.Overhead.Observe(d.Seconds()) },
		Salt:     p.path.directory.seal.salt, ResponseID: p.path.directory.responseID,
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
		Answer: l.Answer, Idle: l.Idle, Deadline: l.Deadline, Continue: l.Continue,
		BodiesBytes: sharesOf(processMemory(), l.Memory, l.BodyBytes).bodies,
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
