package simulation

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"

	realindex "github.com/banyan-llm/banyan/router/index"
)

// FaultConfig is one run of the fault simulation. Equal configurations give
// equal runs, to the bit.
type FaultConfig struct {
	Seed     uint64
	Peers    int           // at the start; default 4
	Replicas int           // default 3
	Duration time.Duration // of the faulty time; default 20 s, virtual as all times here
	Faults   []Fault       // nil: RandomFaults of the seed; empty and not nil: none

	Bound     time.Duration // within which a healed mesh must be equal, ready and at rest; default 90 s
	RingBytes int           // a peer's slot ring; default drawn: often so short that snapshots are needed
	DelayMs   int64         // one way between peers; default 1
	JitterMs  int64         // added at random; default 4
	DetectMs  int64         // from a failure to MemberDown; default 4,000
	RejoinMs  int64         // from a way back to MemberUp; default 3,000
	BatchMs   int64         // mean time between an engine's batches; default 100
	NoTraffic bool          // no requests: neither loads nor predictions

	// Trace, if not nil, is given every line of the trace as it is written.
	Trace func(line string)

	startless   []bool // engines that tell no start time, by number; nil: every fourth
	predictions int    // predicted blocks a peer keeps per replica; default 4,096
	grid        int    // tokens of a block; 0: peers keep no working set
	together    bool   // all peers hear of a new one at once
	terse       bool   // no line a frame in the trace
}

// FaultReport is what came of a run.
type FaultReport struct {
	Seed        uint64         `json:"seed"`
	Peers       int            `json:"peers"` // alive at the end
	Replicas    int            `json:"replicas"`
	Batches     int            `json:"batches"`
	Faults      int            `json:"faults"`
	Injected    map[string]int `json:"injected"` // faults that came about, by verb
	Reached     map[string]int `json:"reached"`  // what they brought about, see faults_corners.go
	Checks      int            `json:"checks"`   // states held against the oracle
	Snapshots   uint64         `json:"snapshots"`
	Lost        int            `json:"lost_batches"` // declared lost and not healed, at the end
	Restarts    int            `json:"engine_restarts"`
	Quarantined int            `json:"quarantined"`
	GossipBytes uint64         `json:"gossip_bytes"`
	Converged   bool           `json:"converged"`
	ConvergedMs int64          `json:"converged_ms"` // from the end of the faults until all peers were equal
	Properties  []Held         `json:"properties"`
	Violations  []Violation    `json:"violations"`
	TraceHash   string         `json:"trace_hash"`
	Schedule    string         `json:"schedule"` // a faults file
	Tail        []string       `json:"-"`        // the last lines of the trace
}

// OK reports whether every property held.
func (r *FaultReport) OK() bool { return len(r.Violations) == 0 && r.Converged }

func (c FaultConfig) complete() (FaultConfig, error) {
	def := func(at *int64, v int64) {
		if *at == 0 {
			*at = v
		}
	}
	if c.Peers == 0 {
		c.Peers = 4
	}
	if c.Replicas == 0 {
		c.Replicas = 3
	}
	if c.Duration == 0 {
		c.Duration = 20 * time.Second
	}
	if c.Bound == 0 {
		c.Bound = 90 * time.Second
	}
	if c.predictions == 0 {
		c.predictions = 4096
	}
	def(&c.JitterMs, 4)
	def(&c.DelayMs, 1)
	def(&c.DetectMs, 4_000)
	def(&c.RejoinMs, 3_000)
	def(&c.BatchMs, 100)
	if c.Faults == nil && c.Peers > 0 && c.Replicas > 0 {
		c.Faults = RandomFaults(c.Seed, c.Peers, c.Replicas, c.Duration)
	}
	if c.RingBytes == 0 {
		c.RingBytes = []int{1_000, 20_000, 1 << 20}[c.Seed%3]
	}
	return c, c.check()
}

// check joins all faults of a configuration.
func (c *FaultConfig) check() error {
	var errs []error
	if c.Peers < 1 || c.Peers > 64 {
		errs = append(errs, fmt.Errorf("%d peers: want 1 to 64", c.Peers))
	}
	if c.Replicas < 1 || c.Replicas > 256 {
		errs = append(errs, fmt.Errorf("%d replicas: want 1 to 256", c.Replicas))
	}
	if c.Duration < 0 || c.Duration > maxFaultAt {
		errs = append(errs, fmt.Errorf("duration %v: want at most %v", c.Duration, maxFaultAt))
	}
	peers := c.Peers
	for _, f := range c.Faults {
		if f.Verb == "join" {
			peers++
		}
	}
	for _, f := range c.Faults {
		for _, name := range []string{f.Peer, f.Other} {
			if peerSlot(name) >= peers {
				errs = append(errs, fmt.Errorf("%s: no peer %s among %d", f, name, peers))
			}
		}
		for _, name := range []string{f.Target, f.Other} {
			if replicaSlot(name) >= c.Replicas {
				errs = append(errs, fmt.Errorf("%s: no replica %s among %d", f, name, c.Replicas))
			}
		}
	}
	return errors.Join(errs...)
}

// faultStart is the virtual time of the first event, ms since 1970.
const faultStart = 1_700_000_000_000

// faultRun is one run of the mesh under faults.
type faultRun struct {
	*agenda
	cfg        FaultConfig
	net        *network
	rng        *rand.Rand
	news       *rand.Rand // when peers hear of new ones
	library    *library
	peers      []*faultPeer // by slot, dead ones too
	engines    []*faultEngine
	skews      map[int]int64
	births     int
	restarts   int
	checks     map[string]int // by property
	broken     map[string]int
	injected   map[string]int // faults, by verb
	corners    map[string]int // see faults_corners.go
	healed     bool           // the faulty time is over
	view       realindex.View
	log        faultTrace
	ring       ring     // that peers are to have
	rotating   bool     // not all have it
	undo       []func() // of faults in force
	severed    []Fault  // links that never come back
	told       map[spreadSlot]bool
	toldBytes  uint64 // of told, each in a frame of its own
	violations []Violation
	folds      []folded // of the check under way
}

func newFaultRun(cfg FaultConfig) *faultRun {
	r := &faultRun{agenda: &agenda{now: faultStart}, cfg: cfg, skews: map[int]int64{}, checks: map[string]int{}, broken: map[string]int{}, injected: map[string]int{}, corners: map[string]int{}, told: map[spreadSlot]bool{}, rng: rand.New(rand.NewPCG(cfg.Seed, 0x3e5)), news: rand.New(rand.NewPCG(cfg.Seed, 0x4e35))}
	r.log = faultTrace{hash: fnv.New64a(), tell: cfg.Trace}
	r.net = newNetwork(r.agenda, &cfg, cfg.Seed)
	r.net.late, r.net.torn = func() { r.reached("slow reader") }, func() { r.reached("torn connection") }
	r.library = newLibrary(rand.New(rand.NewPCG(cfg.Seed, 0x11b)))
	for i := range cfg.Peers {
		r.boot(i)
	}
	r.every(membersMs, r.lookAround)
	for i := range cfg.Replicas {
		r.engines = append(r.engines, r.newEngine(i))
	}
	for _, p := range r.peers {
		p.list(func(*faultEngine) bool { return true })
	}
	if !cfg.NoTraffic {
		r.after(500, r.traffic)
	}
	for _, f := range cfg.Faults {
		r.after(f.At.Milliseconds(), func() { r.begin(f) })
	}
	return r
}

// RunFaults plays a schedule against a mesh of real cores, indexes and event
// trackers. Every batch of an engine and every look of membership is followed by
// checks of what must hold at any moment. Then everything heals, and within the
// bound the mesh must be equal, true and at rest. Properties lists all that is
// checked.
func RunFaults(cfg FaultConfig) (FaultReport, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return FaultReport{}, err
	}
	r := newFaultRun(cfg)
	defer r.close()
	r.runUntil(faultStart + cfg.Duration.Milliseconds())
	r.heal()
	took, ok := r.converge()
	if ok {
		r.finish()
	}
	return r.report(took, ok), nil
}

func (r *faultRun) close() {
	for _, p := range r.peers {
		p.index.Close()
	}
}

// report sums a run up.
func (r *faultRun) report(took int64, ok bool) FaultReport {
	out := FaultReport{
		Seed: r.cfg.Seed, Replicas: len(r.engines), Faults: len(r.cfg.Faults), Checks: r.checks["Oracle"], Restarts: r.restarts,
		GossipBytes: r.net.bytes, Converged: ok, ConvergedMs: took, Properties: r.held(), Violations: append([]Violation{}, r.violations...),
		Injected: r.injected, Reached: r.corners,
		TraceHash: fmt.Sprintf("%016x", r.log.hash.Sum64()), Schedule: FaultsText(r.cfg.Faults), Tail: r.log.lines(),
	}
	for _, e := range r.engines {
		for _, log := range e.logs {
			out.Batches += len(log)
		}
	}
	for _, p := range r.live() {
		out.Peers++
		for _, n := range p.core.Stats().Snapshots {
			out.Snapshots += n
		}
		out.Quarantined += p.index.Stats().Quarantined
	}
	if live := r.live(); len(live) > 0 {
		for _, e := range r.engines {
			d, _ := live[0].index.Digest(e.stream)
			for _, v := range d.Context.Voids {
				out.Lost += int(v.To - v.From + 1)
			}
		}
	}
	return out
}

// live are the peers that run.
func (r *faultRun) live() (out []*faultPeer) {
	for _, p := range r.peers {
		if p.alive {
			out = append(out, p)
		}
	}
	return out
}
