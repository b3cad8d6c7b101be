package simulation

import (
	"fmt"
	"math/rand/v2"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/radix"
	realindex "github.com/banyan-llm/banyan/router/index"
)

// library is the prompts of a run: chains that share prefixes.
type library struct {
	hasher  *radix.Hasher
	root    radix.Key
	prompts []prompt
}

// prompt is one chain of blocks; node i stands for the prefix up to block i.
type prompt struct {
	nodes []uint64 // names of prefixes, the same in every prompt that shares them
	hash  []radix.TokenHash
	keys  []radix.Key
}

func newLibrary(rng *rand.Rand) *library {
	h := radix.NewHasher([]byte("faults"))
	l := &library{hasher: h, root: h.Root("model")}
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
	stream crdt.StreamID
	mode   crdt.Mode
	rng    *rand.Rand

	up       bool
	calm     bool // emits nothing by itself
	life     int  // incarnation
	logs     [][]crdt.Slot
	held     map[uint64][crdt.Tiers]int // handle -> copies: what is true now
	order    []uint64                   // handles held, in order of coming
	blocks   int                        // copies on the GPU
	lastTS   int64
	dropped  float64
	repeated float64
	replay   int                 // batches that its replay still has
	cutOff   map[int]int         // slots of peers that cannot hear it
	said     map[uint64]*account // what owners delivered, by epoch
	known    []knowledge         // what peers knew when the faults ended
	clock    int64               // its clock less the true time, ms
	starts   []uint64            // start times of its processes, by its clock; the present one's last
	tells    bool                // it tells them
	speak    func()              // makes the next batch; nil: a random one
	ended    func()              // told when the process ends; nil: nobody
}

// engineBlocks is how many blocks an engine holds on the GPU.
const engineBlocks = 60

func (r *faultRun) newEngine(i int) *faultEngine {
	e := &faultEngine{
		run: r, name: fmt.Sprintf("r%d", i), stream: crdt.NewStreamID(fmt.Sprintf("http://r%d:8000", i), 0), up: true,
		mode: crdt.Mode(i % 2), rng: rand.New(rand.NewPCG(r.cfg.Seed, 0xe9<<16|uint64(i))),
		cutOff: map[int]int{}, said: map[uint64]*account{},
	}
	e.replay = []int{0, 10, 150}[e.rng.IntN(3)]
	e.tells = i%4 != 3
	e.begin()
	r.after(e.rng.Int64N(200), e.work)
	return e
}

// begin is a new process with an empty cache.
func (e *faultEngine) begin() {
	e.life++
	e.starts = append(e.starts, uint64(e.run.now+e.clock))
	e.logs = append(e.logs, nil)
	e.held, e.order, e.blocks = map[uint64][crdt.Tiers]int{}, nil, 0
}

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
	e.run.after(downMs, func() { e.up = true })
}

// work emits batches at random times, for ever.
func (e *faultEngine) work() {
	if e.up && !e.calm {
		e.emit()
	}
	e.run.after(20+e.rng.Int64N(2*e.run.cfg.BatchMs), e.work)
}

// handle is the engine's own hash of a prefix: another in each process.
func (e *faultEngine) handle(node uint64) uint64 { return handleIn(e.life, node) }

func handleIn(life int, node uint64) uint64 {
	h := node ^ uint64(life)*0x9e3779b97f4a7c15
	return h ^ h>>29
}

// emit makes one batch and sends it to whoever listens.
func (e *faultEngine) emit() {
	if e.speak != nil {
		e.speak()
		return
	}
	e.run.check(e.stream) // the state as the batch before left it
	var b crdt.Builder
	if e.rng.IntN(60) == 0 {
		b.Clear()
		e.held, e.order, e.blocks = map[uint64][crdt.Tiers]int{}, nil, 0
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
	e.logs[e.life-1] = append(e.log(), slot)
	for _, p := range e.run.peers {
		if f := p.follows[e.stream]; f != nil && p.alive {
			f.publish(slot)
		}
	}
}

// serve computes what is missing of a prompt, and everything behind it.
func (e *faultEngine) serve(b *crdt.Builder, p *prompt) {
	from := 0
	for from < len(p.nodes) && e.held[e.handle(p.nodes[from])][crdt.TierGPU] > 0 {
		from++
	}
	if from == len(p.nodes) {
		return
	}
	op := crdt.Op{Mode: e.mode, Tier: crdt.TierGPU, PerPage: 1, Main: true, Root: uint64(e.run.library.root)}
	if from > 0 {
		op.HasParent, op.Parent, op.Root = true, e.handle(p.nodes[from-1]), 0
	}
	var handles, hashes []uint64
	for i := from; i < len(p.nodes); i++ {
		h := e.handle(p.nodes[i])
		handles, hashes = append(handles, h), append(hashes, uint64(p.hash[i]))
		e.add(h, crdt.TierGPU)
	}
	b.Store(op, handles, hashes)
}

func (e *faultEngine) add(h uint64, tier crdt.Tier) {
	c := e.held[h]
	if c == [crdt.Tiers]int{} {
		e.order = append(e.order, h)
	}
	if e.mode == crdt.Counted || c[tier] == 0 {
		c[tier]++
		if tier == crdt.TierGPU {
			e.blocks++
		}
	}
	e.held[h] = c
}

// evict drops one copy, of an old block mostly: parents may go before their
// children.
func (e *faultEngine) evict(b *crdt.Builder) {
	i := min(e.rng.IntN(len(e.order)), e.rng.IntN(len(e.order)))
	h := e.order[i]
	c := e.held[h]
	tier := crdt.TierGPU
	if c[tier] == 0 {
		tier = crdt.TierCPU
	} else {
		e.blocks--
	}
	c[tier]--
	b.Remove(crdt.Op{Mode: e.mode, Tier: tier, Main: true}, []uint64{h})
	e.held[h] = c
	if c == [crdt.Tiers]int{} {
		delete(e.held, h)
		e.order = append(e.order[:i], e.order[i+1:]...)
	}
}

// offload copies a block to the CPU, without saying its tokens again.
func (e *faultEngine) offload(b *crdt.Builder) {
	h := e.order[e.rng.IntN(len(e.order))]
	if e.held[h][crdt.TierCPU] > 0 {
		return
	}
	e.add(h, crdt.TierCPU)
	b.Store(crdt.Op{Mode: e.mode, Tier: crdt.TierCPU, Main: true}, []uint64{h}, nil)
}
