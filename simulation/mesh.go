package simulation

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/banyan-llm/banyan/radix"
	"github.com/banyan-llm/banyan/router/pick"
	"github.com/banyan-llm/banyan/router/policy"
)

// MeshReport is a workload's report with what its mesh went through.
type MeshReport struct {
	Report
	Failed       int         `json:"failed"`         // requests that got no whole answer
	InFlightLost int         `json:"in_flight_lost"` // of them: cut by the end of their peer or replica in mid-answer, or of two peers before it
	Retried      int         `json:"retried"`        // tries after the first, before a byte had come
	Mesh         FaultReport `json:"mesh"`
}

// OK reports whether the mesh kept every property and no request failed but
// those whose peer or replica ended in mid-answer.
func (r *MeshReport) OK() bool { return r.Mesh.OK() && r.Failed == r.InFlightLost }

// Constants of a workload's mesh.
const (
	meshWarmMs   = 2_000            // it has this long to form before the first request
	meshOverMs   = 6 * 3600 * 1_000 // and this long to answer after the last: sessions take hours where caches are too small
	meshSample   = 24               // prompts whose matches all peers must agree on
	meshRing     = 16 << 20         // bytes of recent slots a peer keeps
	meshPredicts = 1 << 16          // predicted blocks it keeps per replica
)

// EvaluateMesh plays a workload against a whole mesh: in every peer the real
// core, index, event trackers and policy, modelled replicas that say what they
// cache, a network with the faults of a schedule, and clients behind a
// balancer. Delays are what frames on that network take: cfg.DispatchDelay one
// way, at least 1 ms; cfg.LoadDelay, IndexDelay, ViewAge and PredictFor do not
// count. A client sends its request once more when its peer ends before the
// first byte; a peer tries another replica likewise. Conversations that wait for
// room (cfg.WorkingSet) wait without end: who is turned away comes again.
//
// When the last answer is over all faults end, and the mesh must come to rest
// as RunFaults says. Gossip bytes are those of the real frames.
func EvaluateMesh(cfg Config, faults FaultConfig) (MeshReport, error) {
	m, err := newMeshRun(cfg, faults)
	if err != nil {
		return MeshReport{}, fmt.Errorf("evaluate mesh: %w", err)
	}
	defer m.close()
	if err := m.play(); err != nil {
		return MeshReport{}, fmt.Errorf("evaluate mesh: %w", err)
	}
	return m.sumUp(), nil
}

// meshRun is one workload on its way through a mesh.
type meshRun struct {
	*faultRun
	books  *run // configuration, truth and what the report is made of
	fleet  []*meshEngine
	links  *links // nil: replicas have no host memory
	desks  map[*faultPeer]*desk
	trips  []trip // one per job of books
	active []int  // jobs at an engine, in order of dispatch
	silent map[int]int64

	over, failed, lost, retried int
	moved                       int // decisions that were changed before they were sent
	waited                      int // conversations that had to wait
}

func newMeshRun(cfg Config, faults FaultConfig) (*meshRun, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	if cfg.Policy == Pooled {
		return nil, errors.New("policy: the pooled reference has no mesh")
	}
	if _, err := policy.New(cfg.Policy, *cfg.Routing); err != nil {
		return nil, err
	}
	if cfg.Load > 0 {
		if cfg.Speedup, err = speedup(cfg); err != nil {
			return nil, err
		}
	}
	if faults, err = meshFaults(cfg, faults); err != nil {
		return nil, err
	}
	n := len(cfg.Workload.Requests)
	m := &meshRun{
		books: &run{
			cfg: cfg, jobs: make([]job, n), after: make(map[int][]int), reasons: make(map[policy.Reason]int),
			fetches: make(map[pick.FetchOutcome]int),
		},
		links: newLinks(&cfg), desks: map[*faultPeer]*desk{}, trips: make([]trip, n), silent: map[int]int64{},
	}
	m.faultRun = newFaultRun(faults)
	m.sample()
	for k := range m.engines {
		if err := m.employ(k); err != nil {
			return nil, err
		}
	}
	m.books.believe()
	m.planArrivals()
	m.every(sweepMs, m.sweep)
	m.every(max(1, int64(1000*cfg.Scrape)), m.scrape)
	return m, nil
}

// meshFaults completes a schedule for a workload.
func meshFaults(cfg Config, f FaultConfig) (FaultConfig, error) {
	f.Seed, f.Peers, f.Replicas, f.NoTraffic = cfg.Seed, cfg.Peers, cfg.Replicas, true
	f.DelayMs, f.JitterMs = max(1, int64(math.Round(1000*cfg.DispatchDelay))), 1
	f.predictions, f.terse = meshPredicts, f.Trace == nil
	if cfg.WorkingSet > 0 {
		f.grid = cfg.Page
	}
	if f.RingBytes == 0 {
		f.RingBytes = meshRing
	}
	if f.Duration == 0 {
		f.Duration = lastArrival(cfg)
	}
	if f.Faults == nil && f.Peers > 0 && f.Replicas > 0 {
		f.Faults = slices.DeleteFunc(RandomFaults(f.Seed, f.Peers, f.Replicas, f.Duration), ofEngines)
	}
	if i := slices.IndexFunc(f.Faults, ofEngines); i >= 0 {
		return f, fmt.Errorf("%q: engines that serve a workload cannot %s", f.Faults[i], f.Faults[i].Verb)
	}
	return f.complete()
}

// ofEngines reports whether a fault is in what engines say: those of a workload
// say what they compute.
func ofEngines(f Fault) bool {
	return slices.Contains([]string{"become", "clears", "twice", "depart"}, f.Verb)
}

// lastArrival is when the workload's last request comes at the earliest.
func lastArrival(cfg Config) time.Duration {
	last := 0.0
	for i := range cfg.Workload.Requests {
		last = math.Max(last, cfg.Workload.Requests[i].At/cfg.Speedup)
	}
	return min(time.Duration(last*float64(time.Second))+meshWarmMs*time.Millisecond, maxFaultAt)
}

// planArrivals plans the requests that wait for no other.
func (m *meshRun) planArrivals() {
	cfg := &m.books.cfg
	for i := range cfg.Workload.Requests {
		req := &cfg.Workload.Requests[i]
		m.books.jobs[i].req = req
		if req.After >= 0 {
			m.books.after[req.After] = append(m.books.after[req.After], i)
			continue
		}
		m.comes(req.At/cfg.Speedup, i)
	}
}

// seconds is the time of the workload.
func (m *meshRun) seconds() float64 { return float64(m.now-faultStart-meshWarmMs) / 1000 }

// inMs is how far a second of the workload lies ahead.
func (m *meshRun) inMs(second float64) int64 {
	return faultStart + meshWarmMs + int64(math.Ceil(1000*second-1e-6)) - m.now
}

func (m *meshRun) comes(at float64, i int) { m.after(m.inMs(at), func() { m.arrive(i) }) }

// sample takes prompts of the workload for those that all peers must match
// alike at the end.
func (m *meshRun) sample() {
	cfg := &m.books.cfg
	m.library.prompts = nil
	for i := 0; i < len(cfg.Workload.Requests); i += 1 + len(cfg.Workload.Requests)/meshSample {
		req := &cfg.Workload.Requests[i]
		nodes := req.AppendKeys(nil, cfg.Page)
		m.library.prompts = append(m.library.prompts, m.library.promptOf(nodes[:min(len(nodes), req.Tokens/cfg.Page)]))
	}
}

// promptOf is the chain of blocks of named prefixes: a prefix's name is the
// hash of its last block's tokens too.
func (l *library) promptOf(nodes []uint64) prompt {
	p := prompt{nodes: nodes}
	parent := l.root
	for _, node := range nodes {
		t := radix.TokenHash(node)
		parent = l.hasher.Chain(parent, t)
		p.hash, p.keys = append(p.hash, t), append(p.keys, parent)
	}
	return p
}

// play runs until all requests are over.
func (m *meshRun) play() error {
	cfg := &m.books.cfg
	end := m.now + max(m.cfg.Duration, lastArrival(*cfg)).Milliseconds() + meshOverMs
	for m.over < len(m.trips) && m.now < end {
		m.runUntil(m.now + 1_000)
		if cfg.Progress != nil && !cfg.Progress(m.over, len(m.trips)) {
			return ErrStopped
		}
	}
	m.runUntil(max(m.now, faultStart+m.cfg.Duration.Milliseconds()))
	return nil
}

// sumUp heals the mesh, sees whether it comes to rest, and reports.
func (m *meshRun) sumUp() MeshReport {
	var ages []float64
	for _, p := range m.live() {
		for _, info := range p.core.Peers() {
			if info.Member {
				ages = append(ages, float64(info.ViewAge)/1000)
			}
		}
	}
	m.heal()
	took, ok := m.converge()
	if ok {
		m.finish()
	}
	for _, g := range m.fleet {
		m.books.engines = append(m.books.engines, g.model)
	}
	rep := MeshReport{
		Report: m.books.report(), Failed: m.failed + len(m.trips) - m.over, InFlightLost: m.lost, Retried: m.retried,
		Mesh: m.report(took, ok),
	}
	rep.Waited = m.waited
	rep.GossipBytes = int64(rep.Mesh.GossipBytes)
	age := spread(ages)
	rep.ViewAge = Pair{age.P50, age.P99}
	return rep
}
