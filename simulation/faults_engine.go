package simulation

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/radix"
	realindex "github.com/banyan-llm/banyan/router/index"
)

// library is the prompts of a run: chains that share prefixes.
type library struct {
	hasher  *radix.Hasher
	root    radix.Key         // of the first namespace
	roots   [spaces]radix.Key // of all
	prompts []prompt
}

// spaces is how many namespaces there are: no salt and two of them.
const spaces = 3

// prompt is one chain of blocks; node i stands for the prefix up to block i.
type prompt struct {
	nodes  []uint64 // names of prefixes, the same in every prompt that shares them
	hash   []radix.TokenHash
	keys   []radix.Key             // in the first namespace
	salted [spaces - 1][]radix.Key // and in the others
}

// keysIn are a prompt's keys in a namespace.
func (p *prompt) keysIn(space int) []radix.Key {
	if space == 0 {
		return p.keys
	}
	return p.salted[space-1]
}

func newLibrary(rng *rand.Rand) *library {
	h := radix.NewHasher([]byte("faults"))
	l := &library{hasher: h, root: h.Root("model")}
	l.roots = [spaces]radix.Key{l.root, h.Root("model", "one salt"), h.Root("model", "another")}
	for len(l.prompts) < 24 {
		var p prompt
		if n := len(l.prompts); n > 0 && rng.IntN(4) > 0 { // continues a prefix of an older one
			old := l.prompts[rng.IntN(n)]
			k := rng.IntN(len(old.keys))
			p.nodes, p.hash, p.keys = append(p.nodes, old.nodes[:k]...), append(p.hash, old.hash[:k]...), append(p.keys, old.keys[:k]...)
		}
		for more := 2 + rng.IntN(8); more > 0; more-- {
			parent := l.root
			if n := len(p.keys); n > 0 {
				parent = p.keys[n-1]
			}
			t := radix.TokenHash(rng.Uint64())
			p.hash, p.keys = append(p.hash, t), append(p.keys, h.Chain(parent, t))
			p.nodes = append(p.nodes, rng.Uint64())
		}
		l.prompts = append(l.prompts, p)
	}
	for i := range l.prompts {
		p := &l.prompts[i]
		for space := range p.salted {
			parent := l.roots[space+1]
			for _, t := range p.hash {
				parent = h.Chain(parent, t)
				p.salted[space] = append(p.salted[space], parent)
			}
		}
	}
	return l
}

// chain is a prompt as the index wants it.
func (l *library) chain(p *prompt) *realindex.Chain {
	return &realindex.Chain{Root: l.root, Keys: p.keys, Exact: true}
}

// faultEngine is one replica's cache and its event log, and the truth about
// both.
type faultEngine struct {
	run    *faultRun
	name   string
	url    string
	stream crdt.StreamID
	mode   crdt.Mode
	rng    *rand.Rand

	up       bool
	calm     bool // emits nothing by itself
	life     int  // incarnation
	logs     [][]crdt.Slot
	ways     habits                    // of processes to come
	habits   []habits                  // of its processes; the present one's last
	began    []int64                   // when they began
	of       *faultEngine              // whose process it is under another URL; nil: its own
	also     []*faultEngine            // the other URLs of its process
	gone     bool                      // it left for good: peers stop listing it
	wild     bool                      // it was in quarantine after the faults ended
	held     map[entry][crdt.Tiers]int // copies: what is true now
	order    []entry                   // what is held, in order of coming
	blocks   int                       // copies on the GPU
	lastTS   int64
	dropped  float64
	repeated float64
	replay   int                                // batches that its replay still has
	cutOff   map[int]int                        // slots of peers that cannot hear it
	said     map[uint64]*account                // what owners delivered, by epoch
	known    []knowledge                        // what peers knew when the faults ended
	still    map[uint64]map[uint64][]*faultPeer // slots kept then and ever since, and by whom last, by epoch
	clock    int64                              // its clock less the true time, ms
	starts   []uint64                           // start times of its processes, by its clock; the present one's last
	tells    bool                               // it tells them
	speak    func()                             // makes the next batch; nil: a random one
	ended    func()                             // told when the process ends; nil: nobody
}

// engineBlocks is how many blocks an engine holds on the GPU.
const engineBlocks = 60

func (r *faultRun) newEngine(i int) *faultEngine {
	e := &faultEngine{
		run: r, name: fmt.Sprintf("r%d", i), url: fmt.Sprintf("http://r%d:8000", i), up: true,
		mode: crdt.Mode(i % 2), rng: rand.New(rand.NewPCG(r.cfg.Seed, 0xe9<<16|uint64(i))),
		cutOff: map[int]int{}, said: map[uint64]*account{}, ways: habits{perPage: 1},
	}
	e.stream = crdt.NewStreamID(e.url, 0)
	e.replay = []int{0, 10, 150}[e.rng.IntN(3)]
	e.tells = i%4 != 3
	if i < len(r.cfg.startless) {
		e.tells = !r.cfg.startless[i]
	}
	e.begin()
	r.after(e.rng.Int64N(200), e.work)
	return e
}

// begin is a new process with an empty cache.
func (e *faultEngine) begin() {
	e.life++
	e.starts, e.began = append(e.starts, uint64(e.run.now+e.clock)), append(e.began, e.run.now)
	if e.of != nil {
		e.starts[e.life-1] = e.of.starts[e.of.life-1]
	}
	e.logs = append(e.logs, nil)
	e.habits = append(e.habits, e.next())
	e.empty()
}

// empty forgets what is held.
func (e *faultEngine) empty() { e.held, e.order, e.blocks = map[entry][crdt.Tiers]int{}, nil, 0 }

// log is what the present process said.
func (e *faultEngine) log() []crdt.Slot { return e.logs[e.life-1] }

// restart ends the process; the next one begins downMs later.
func (e *faultEngine) restart(downMs int64) {
	e.run.trace(e.name, "restarts after %d batches", len(e.log()))
	e.up = false
	e.begin()
	if e.ended != nil {
		e.ended()
	}
	for _, p := range e.run.peers {
		if f := p.follows[e.stream]; f != nil {
			f.disconnect()
		}
	}
	e.noteRestart()
	for _, twin := range e.also {
		twin.restart(downMs)
	}
	e.run.after(downMs, func() { e.up = !e.gone || len(e.also) > 0 })
}

// work emits batches at random times, for ever.
func (e *faultEngine) work() {
	if e.up && !e.calm {
		e.emit()
	}
	e.run.after(20+e.rng.Int64N(2*e.run.cfg.BatchMs), e.work)
}

// emit makes one batch and sends it to whoever listens.
func (e *faultEngine) emit() {
	switch {
	case e.speak != nil:
		e.speak()
		return
	case e.of != nil: // the process speaks under its first URL
		return
	}
	e.run.check(e.stream) // the state as the batch before left it
	for _, twin := range e.also {
		e.run.check(twin.stream)
	}
	var b crdt.Builder
	if e.rng.IntN(60) == 0 {
		b.Clear()
		e.empty()
	}
	for range 1 + e.rng.IntN(3) {
		e.serve(&b, &e.run.library.prompts[e.rng.IntN(len(e.run.library.prompts))])
	}
	for e.blocks > engineBlocks {
		e.evict(&b)
	}
	if e.rng.IntN(8) == 0 && len(e.order) > 0 {
		e.offload(&b)
	}
	e.aside(&b)
	e.say(&b)
}

// say numbers a batch and sends it to whoever listens.
func (e *faultEngine) say(b *crdt.Builder) {
	if ts := (e.run.now + e.clock) * 1000; ts > e.lastTS || ts < e.lastTS-1_000 {
		e.lastTS = ts // its clock may have been set back
	} else {
		e.lastTS++
	}
	slot, err := b.Slot(uint64(len(e.log()))+1, e.lastTS)
	if err != nil {
		panic("invariant: " + err.Error())
	}
	e.spread(slot)
	for _, twin := range e.also {
		twin.run.reached("one process under two URLs")
		twin.spread(slot)
	}
}

// spread sends a batch to whoever listens.
func (e *faultEngine) spread(slot crdt.Slot) {
	e.logs[e.life-1] = append(e.log(), slot)
	for _, p := range e.run.peers {
		if f := p.follows[e.stream]; f != nil && p.alive {
			f.publish(slot)
		}
	}
}

// serve computes what is missing of a prompt, and everything behind it.
func (e *faultEngine) serve(b *crdt.Builder, p *prompt) {
	space, h := 0, e.habit()
	if h.salts {
		space = e.rng.IntN(spaces)
	}
	pages := e.pagesOf(e.life, p, space)
	from := 0
	for from < len(pages) && e.held[pages[from]][crdt.TierGPU] > 0 {
		from++
	}
	if from == len(pages) {
		return
	}
	op := crdt.Op{Mode: e.mode, Tier: crdt.TierGPU, PerPage: h.perPage, Main: true, Root: uint64(e.run.library.roots[space]), Space: pages[0].space}
	if from > 0 {
		op.HasParent, op.Parent, op.Root = true, pages[from-1].handle, 0
	}
	var handles, hashes []uint64
	for i := from; i < len(pages); i++ {
		handles = append(handles, pages[i].handle)
		for _, t := range p.hash[i*h.perPage : (i+1)*h.perPage] {
			hashes = append(hashes, uint64(t))
		}
		e.add(pages[i], crdt.TierGPU)
	}
	b.Store(op, handles, hashes)
	if h.perPage > 1 {
		e.run.reached("pages of several blocks")
	}
	if space > 0 {
		e.run.reached("salts")
	}
}

func (e *faultEngine) add(at entry, tier crdt.Tier) {
	c := e.held[at]
	if c == [crdt.Tiers]int{} {
		e.order = append(e.order, at)
	}
	if e.mode == crdt.Counted || c[tier] == 0 {
		c[tier]++
		if tier == crdt.TierGPU {
			e.blocks++
		}
	}
	e.held[at] = c
}

// evict drops one copy, of an old block mostly: parents may go before their
// children.
func (e *faultEngine) evict(b *crdt.Builder) {
	at := e.order[min(e.rng.IntN(len(e.order)), e.rng.IntN(len(e.order)))]
	c := e.held[at]
	tier := crdt.TierGPU
	for c[tier] == 0 {
		tier++
	}
	op := crdt.Op{Mode: e.mode, Tier: tier, Main: true, Space: at.space}
	// An engine whose handles leave the salt out does not say whose entry it
	// means, or not always.
	if e.habit().salts && e.mode == crdt.Flagged && (at.space == 0 || e.rng.IntN(2) == 0) {
		op.Space, op.AnySpace = 0, true
	}
	b.Remove(op, []uint64{at.handle})
	if !op.AnySpace {
		e.drop(at, tier)
		return
	}
	for _, root := range append([]radix.Key{0}, e.run.library.roots[1:]...) {
		e.drop(entry{at.handle, uint64(root)}, tier)
	}
}

// drop takes one copy away.
func (e *faultEngine) drop(at entry, tier crdt.Tier) {
	c := e.held[at]
	if c[tier] == 0 {
		return
	}
	if c[tier]--; tier == crdt.TierGPU {
		e.blocks--
	}
	e.held[at] = c
	if c == [crdt.Tiers]int{} {
		delete(e.held, at)
		i := slices.Index(e.order, at)
		e.order = append(e.order[:i], e.order[i+1:]...)
	}
}

// offload copies a block to a slower medium, without saying its tokens again.
func (e *faultEngine) offload(b *crdt.Builder) {
	at := e.order[e.rng.IntN(len(e.order))]
	tier := crdt.TierCPU
	if e.habit().disk && e.rng.IntN(2) == 0 {
		tier = crdt.TierDisk
		e.run.reached("disk")
	}
	if e.held[at][tier] > 0 {
		return
	}
	e.add(at, tier)
	b.Store(crdt.Op{Mode: e.mode, Tier: tier, Main: true, Space: at.space}, []uint64{at.handle}, nil)
}
