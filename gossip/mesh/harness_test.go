package mesh

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/serf/serf"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/gossip"
	"github.com/banyan-llm/banyan/simulation/freeport"
)

// patience bounds every wait of the tests; nothing is asserted about time. Who
// waits for tests to fail sets it lower.
var patience = func() time.Duration {
	if d, err := time.ParseDuration(os.Getenv("BANYAN_TEST_PATIENCE")); err == nil {
		return d
	}
	return time.Minute
}()

// eventually waits for ok.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("not in %v: %s", patience, what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// syncBuffer is a log that may be read while it is written.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) count(what string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Count(s.b.String(), what)
}

// node is one peer under test, with the real core over loads alone.
type node struct {
	*Mesh
	id     crdt.PeerID
	state  *loadState
	reg    *prometheus.Registry
	log    *syncBuffer
	closed bool
}

// key makes a ring key out of a word.
func key(word string) string {
	sum := sha256.Sum256([]byte(word))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// quick makes serf notice a death within a second or two, and no delay of a
// busy machine for one.
func quick(c *serf.Config) {
	c.BroadcastTimeout = time.Second
	c.LeavePropagateDelay = 200 * time.Millisecond
	c.ReconnectInterval = 300 * time.Millisecond
	m := c.MemberlistConfig
	m.ProbeInterval = 250 * time.Millisecond
	m.ProbeTimeout = 200 * time.Millisecond
	m.SuspicionMult = 2
	m.SuspicionMaxTimeoutMult = 2
	m.GossipInterval = 20 * time.Millisecond
	m.PushPullInterval = time.Second
	m.TCPTimeout = 5 * time.Second
}

// bindAddress is where a peer may listen, and once it is away nobody else: peers
// of other tests have the same key and label.
func bindAddress() string {
	address, err := freeport.Address()
	if err != nil {
		panic(err)
	}
	return address
}

// config is a working configuration of a peer.
func config(name string, join ...string) Config {
	var id crdt.PeerID
	for i := range id {
		id[i] = byte(rand.Uint32())
	}
	return Config{
		Name: name, PeerID: id, Bind: bindAddress(), Join: join, Label: "test",
		Keyring: []string{key("k1")}, Version: "v1", HTTP: "127.0.0.1:8080",
		Timing: Timing{JoinEvery: 200 * time.Millisecond, Hello: 4 * time.Second, Dial: 4 * time.Second, Stall: 8 * time.Second},
		tune:   quick,
	}
}

// newNode makes a peer that is bound but not started.
func newNode(t testing.TB, cfg Config) *node {
	t.Helper()
	n := &node{id: cfg.PeerID, state: newLoadState(cfg.PeerID), reg: prometheus.NewRegistry(), log: &syncBuffer{}}
	cfg.Registerer = n.reg
	cfg.Logger = hclog.New(&hclog.LoggerOptions{Name: cfg.Name, Level: hclog.Debug, Output: n.log})
	if cfg.Core == nil {
		core, err := gossip.New(gossip.Config{
			Self: cfg.PeerID, Name: cfg.Name, Label: cfg.Label, Fingerprint: 7, State: n.state,
			Rand: rand.New(rand.NewPCG(1, uint64(cfg.PeerID[0]))),
		})
		if err != nil {
			t.Fatal(err)
		}
		cfg.Core = core
	}
	m, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	n.Mesh = m
	t.Cleanup(func() {
		n.close(t)
		if t.Failed() && testing.Verbose() {
			n.log.mu.Lock()
			t.Logf("log of %s:\n%s", cfg.Name, n.log.b.String())
			n.log.mu.Unlock()
		}
	})
	return n
}

// start makes a peer and starts it.
func start(t *testing.T, cfg Config) *node {
	t.Helper()
	n := newNode(t, cfg)
	if err := n.Start(); err != nil {
		t.Fatal(err)
	}
	return n
}

// close ends a peer without a goodbye; once.
func (n *node) close(t testing.TB) {
	t.Helper()
	if n.closed {
		return
	}
	n.closed = true
	if err := n.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

// sees reports whether n has both connections to the other and takes it for
// alive.
func (n *node) sees(o *node) bool {
	for _, m := range n.Members() {
		if m.ID == o.id {
			return m.State == Alive && m.Connected == [gossip.Classes]bool{true, true}
		}
	}
	return false
}

// stateOf is what n's membership says of the other, empty if nothing.
func (n *node) stateOf(o *node) MemberState {
	for _, m := range n.Members() {
		if m.ID == o.id {
			return m.State
		}
	}
	return ""
}

// whole waits until all peers are connected to each other.
func whole(t *testing.T, nodes ...*node) {
	t.Helper()
	for _, a := range nodes {
		for _, b := range nodes {
			if a != b {
				eventually(t, fmt.Sprintf("%s sees %s", a.cfg.Name, b.cfg.Name), func() bool { return a.sees(b) })
			}
		}
	}
}

// value is a metric of n by its name and label values; the sum of all if no
// labels are given.
func (n *node) value(t testing.TB, name string, labels ...string) float64 {
	t.Helper()
	families, err := n.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
	metrics:
		for _, m := range f.GetMetric() {
			for _, want := range labels {
				found := false
				for _, l := range m.GetLabel() {
					found = found || l.GetValue() == want
				}
				if !found {
					continue metrics
				}
			}
			sum += m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return sum
}

func (n *node) refusedFor(t *testing.T, why cause) float64 {
	t.Helper()
	return n.value(t, "banyan_mesh_refused_total", string(why))
}

const replica = crdt.StreamID("http://replica:8000#0")

// dispatch sets n's own load and tells the core.
func (n *node) dispatch(waiting int32) {
	n.state.set(replica, waiting)
	n.Post(gossip.LoadChanged{Urgent: true})
}

// knows waits until n has the other's load.
func (n *node) knows(t *testing.T, o *node, waiting int32) {
	t.Helper()
	eventually(t, fmt.Sprintf("%s knows load %d of %s", n.cfg.Name, waiting, o.cfg.Name), func() bool {
		l, ok := n.state.of(o.id)
		return ok && l.Waiting == waiting
	})
}

// loadState is a replicated state of loads only.
type loadState struct {
	gossip.KeyState // nil: there are no streams, so nobody asks
	self            crdt.PeerID

	mu    sync.Mutex // guards below
	ahead int64      // ms: the wall clock's lead
	dirty bool
	loads map[crdt.PeerID]map[crdt.StreamID]crdt.Load
}

var _ gossip.State = (*loadState)(nil)

func newLoadState(self crdt.PeerID) *loadState {
	return &loadState{self: self, loads: map[crdt.PeerID]map[crdt.StreamID]crdt.Load{self: {}}}
}

func (s *loadState) Predicting(bool) {}

func (s *loadState) ClockSet(aheadMs int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead = aheadMs
}

func (s *loadState) set(id crdt.StreamID, waiting int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.loads[s.self][id]
	l.Version, l.Waiting = l.Version+1, waiting
	s.loads[s.self][id] = l
	s.dirty = true
}

func (s *loadState) of(p crdt.PeerID) (crdt.Load, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, ok := s.loads[p][replica]
	return l, ok
}

func (s *loadState) OwnLoads(dst []crdt.LoadEntry, dirty bool) []crdt.LoadEntry {
	s.mu.Lock()
	defer s.mu.Unlock()
	if dirty && !s.dirty {
		return dst
	}
	s.dirty = s.dirty && !dirty
	for id, l := range s.loads[s.self] {
		dst = append(dst, crdt.LoadEntry{Replica: id, Load: l})
	}
	return dst
}

func (s *loadState) JoinLoads(at crdt.PeerID, loads []crdt.LoadEntry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at == s.self {
		return
	}
	if s.loads[at] == nil {
		s.loads[at] = make(map[crdt.StreamID]crdt.Load)
	}
	for _, l := range loads {
		if l.Load.Version > s.loads[at][l.Replica].Version {
			s.loads[at][l.Replica] = l.Load
		}
	}
}

func (s *loadState) DropLoads(at crdt.PeerID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.loads, at)
}

func (s *loadState) AllLoads(dst []crdt.PeerLoads) []crdt.PeerLoads { return dst }

func (s *loadState) Streams(dst []crdt.StreamID) []crdt.StreamID    { return dst }
func (s *loadState) Digest(crdt.StreamID) (d crdt.Digest, ok bool)  { return d, false }
func (s *loadState) Apply(*crdt.Delta, int64) (o crdt.Outcome)      { return o }
func (s *loadState) Forget(crdt.StreamID)                           {}
func (s *loadState) PredictionSums(int64) []crdt.PredictionSum      { return nil }
func (s *loadState) JoinPredictions([]crdt.Prediction, int64) int   { return 0 }
func (s *loadState) Scrapes() map[crdt.StreamID]crdt.Scrape         { return nil }
func (s *loadState) JoinScrapes(map[crdt.StreamID]crdt.Scrape)      {}
func (s *loadState) Vitals() map[crdt.PeerID]crdt.Vitals            { return nil }
func (s *loadState) JoinVitals(map[crdt.PeerID]crdt.Vitals)         {}
func (s *loadState) Intents() map[crdt.StreamID]crdt.Intent         { return nil }
func (s *loadState) JoinIntents(map[crdt.StreamID]crdt.Intent) bool { return false }

func (s *loadState) SumAt(crdt.StreamID, uint64, uint64) (sum crdt.Sum, ok bool) { return sum, false }

func (s *loadState) Since(crdt.StreamID, *crdt.Context, int) (d crdt.Delta, ok bool) {
	return d, false
}
func (s *loadState) Slots(crdt.StreamID, uint64, []crdt.Span, int) []crdt.Slot { return nil }
func (s *loadState) OwnPredictions(dst []crdt.Prediction, _ int) []crdt.Prediction {
	return dst
}

func (s *loadState) PredictionsOf(crdt.PredictionSpace, int64) []crdt.Prediction { return nil }
