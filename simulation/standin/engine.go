package standin

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/banyan-llm/banyan/simulation/replica"
	"github.com/banyan-llm/banyan/simulation/workload"
)

// generation is one prompt being answered. The engine's goroutine writes
// produced and state; the handler reads them after a wake-up.
type generation struct {
	id     uint64
	tokens []uint32 // prompt
	output int      // tokens to produce
	seed   uint64   // of the answer
	lora   string
	salt   string
	given  int      // prompt tokens whose KV came with the request
	keys   []uint64 // names of its pages in the model
	hashes []uint64 // the same pages' block hashes on the wire

	everyToken bool // wake the handler for each token, not only the last
	gone       bool // the client left; guarded by engine.mu

	produced atomic.Int32
	cached   atomic.Int32 // prompt tokens found cached; set with the first token
	state    atomic.Int32 // see the constants below
	wake     chan struct{}
}

// States of a generation.
const (
	running int32 = iota
	finished
	killed // the engine died under it
)

// token is the i-th token of prompt and answer together. I2.
func (g *generation) token(i int) uint32 {
	if i < len(g.tokens) {
		return g.tokens[i]
	}
	return workload.FirstWord + uint32(mix(g.seed, uint64(i-len(g.tokens)))%workload.Words)
}

// answer is the i-th generated token.
func (g *generation) answer(i int) uint32 { return g.token(len(g.tokens) + i) }

func (g *generation) notify(state int32) {
	if state != running {
		g.state.Store(state)
	}
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// engine is one incarnation: the model under the wall clock, its publisher
// and the requests in it. A restart makes a new one.
type engine struct {
	cfg    *Config
	faults *faults
	pub    *publisher
	polled *polled // TensorRT-LLM only
	wire   wire
	wake   chan struct{} // the idle loop has work

	mu     sync.Mutex // guards below; publishing under it never blocks
	model  *replica.Replica
	start  time.Time // model time 0; a stall moves it
	last   float64   // model time never goes back
	live   map[uint64]*generation
	gone   []*generation // aborted, but the model's step still holds them
	nextID uint64
	dead   bool
	events []event           // scratch
	alias  map[uint64]uint64 // key -> block hash, where they differ
}

func newEngine(cfg *Config, f *faults, pub *publisher) (*engine, error) {
	profile, err := replica.ProfileByName(cfg.Profile)
	if err != nil {
		return nil, err
	}
	model, err := replica.New(replica.Config{
		Profile: profile, Page: cfg.Page, Blocks: cfg.Blocks, MaxSeqs: cfg.MaxSeqs,
		Unique: cfg.Engine != VLLM, EveryToken: true,
		Noise: cfg.Noise, Rand: rand.New(rand.NewPCG(cfg.Seed, fold(0, cfg.Name))),
	})
	if err != nil {
		return nil, err
	}
	e := &engine{
		cfg: cfg, faults: f, pub: pub, model: model, start: time.Now(),
		wire: wire{engine: cfg.Engine, layout: cfg.Layout, bytes: cfg.HashBytes, page: cfg.Page, rank: cfg.Rank},
		wake: make(chan struct{}, 1), live: make(map[uint64]*generation), alias: make(map[uint64]uint64),
	}
	switch cfg.Engine {
	case SGLang:
		e.publish([]event{{kind: allCleared}}) // its first batch after a start
	case TRTLLM:
		e.polled = new(polled)
		e.polled.add(maxModelLen, polledCreated{Type: "created", Blocks: [2]int{model.Stats().Blocks, 0}})
	}
	return e, nil
}

// clock is the model's time in seconds as the wall clock has it.
func (e *engine) clock() float64 { return time.Since(e.start).Seconds() * e.cfg.TimeScale }

// nowLocked is the model's time; it stands still during a stall.
func (e *engine) nowLocked() float64 {
	e.last = max(e.last, e.clock())
	return e.last
}

// stall stops the model for d, as a hung GPU does.
func (e *engine) stall(d time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.advanceLocked(e.nowLocked())
	e.start = e.start.Add(d)
}

// run drives the model until ctx ends: one timer on the end of the running
// step, and a wake-up when an idle model gets work.
func (e *engine) run(ctx context.Context) {
	defer e.kill()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-e.wake:
		}
		timer.Reset(e.drive())
	}
}

// drive completes what is due and returns how long nothing will be.
func (e *engine) drive() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.advanceLocked(e.nowLocked())
	next := e.model.Next()
	if math.IsInf(next, 1) {
		return time.Hour
	}
	return max(0, time.Duration((next-e.clock())/e.cfg.TimeScale*float64(time.Second)))
}

// submit starts a generation.
func (e *engine) submit(g *generation) error {
	e.name(g)
	g.wake = make(chan struct{}, 1)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.dead {
		return errDead
	}
	now := e.nowLocked()
	e.advanceLocked(now)
	e.nextID++
	g.id = e.nextID
	idle := math.IsInf(e.model.Next(), 1)
	err := e.model.Submit(now, replica.Request{ID: g.id, Prompt: len(g.tokens), Output: g.output, Keys: g.keys, Given: g.given})
	if err != nil {
		return fmt.Errorf("submit: %w", err)
	}
	e.live[g.id] = g
	if idle {
		select {
		case e.wake <- struct{}{}:
		default:
		}
	}
	return nil
}

// abort ends a generation early; its place is free when the step ends. I6.
func (e *engine) abort(g *generation) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, ok := e.live[g.id]; ok && !g.gone && e.model.Abort(g.id) {
		g.gone = true
		e.gone = append(e.gone, g)
		e.sweepLocked()
	}
}

// sweepLocked forgets aborted generations that the model has let go. Until
// then the events of their last step need their tokens.
func (e *engine) sweepLocked() {
	e.gone = slices.DeleteFunc(e.gone, func(g *generation) bool {
		if e.model.Live(g.id) {
			return false
		}
		delete(e.live, g.id)
		return true
	})
}

// kill ends the incarnation: everything in it fails.
func (e *engine) kill() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.dead = true
	for _, g := range e.live {
		g.notify(killed)
	}
	clear(e.live)
}

// advanceLocked completes every step that ends by now.
func (e *engine) advanceLocked(now float64) {
	for {
		res, ok := e.model.Step(now)
		if !ok {
			return
		}
		e.tellLocked(res.KV)
		for _, p := range res.Tokens {
			e.progressLocked(p)
		}
		if len(e.gone) > 0 {
			e.sweepLocked()
		}
	}
}

func (e *engine) progressLocked(p replica.Progress) {
	g, ok := e.live[p.ID]
	if !ok {
		return
	}
	if e.cfg.DropLast { // of what was found, the last page is computed again
		p.Cached = max(0, p.Cached-e.cfg.Page)
	}
	g.cached.Store(int32(p.Cached))
	g.produced.Store(int32(p.Produced))
	if p.Done {
		delete(e.live, p.ID)
		g.notify(finished)
		return
	}
	if g.everyToken {
		g.notify(running)
	}
}

// clear drops the prefix cache; false while requests run.
func (e *engine) clear() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.advanceLocked(e.nowLocked())
	held := slices.Sorted(maps.Keys(e.model.Copies()))
	if !e.model.Clear() {
		return false
	}
	e.tellLocked(e.model.Drain())
	if e.polled != nil && len(held) > 0 { // it knows no event that clears
		e.polled.addEvent(maxModelLen, e.cfg.Page, &event{kind: blockRemoved, hashes: held})
	}
	return true
}

// cache reads what is cached as of the events published so far.
func (e *engine) cache() map[uint64]int {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.advanceLocked(e.nowLocked())
	out := make(map[uint64]int)
	for key, n := range e.model.Copies() {
		if hash, ok := e.alias[key]; ok {
			key = hash
		}
		out[key] += n
	}
	return out
}

// stats reads the model's counters as of now.
func (e *engine) stats() replica.Stats {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.advanceLocked(e.nowLocked())
	return e.model.Stats()
}

// tellLocked publishes the events of one step as one batch.
func (e *engine) tellLocked(kv []replica.KVEvent) {
	if len(kv) == 0 || !e.pub.enabled() && e.polled == nil {
		return
	}
	events := e.events[:0]
	for i := range kv {
		events = append(events, e.eventLocked(&kv[i]))
	}
	e.events = events
	if e.polled != nil {
		for i := range events {
			e.polled.addEvent(maxModelLen, e.cfg.Page, &events[i])
		}
		return
	}
	e.publish(events)
}

func (e *engine) publish(events []event) {
	if e.pub.enabled() {
		ts := float64(time.Now().UnixMicro()) / 1e6
		e.pub.publish(e.wire.batch(ts, events), e.faults.fate())
	}
}
