package simulation

import (
	"math"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/simulation/replica"
)

// meshReplay is how many batches an engine's replay has: vLLM's default.
const meshReplay = 10_000

// meshEngine is a modelled replica whose events are the batches of a stream.
type meshEngine struct {
	*faultEngine
	run   *meshRun
	k     int
	model *replica.Replica
	jobs  map[uint64]int // request of the model -> job
	rose  int64          // when its process began after another had ended; 0: it is the first
	wake  int64          // when the next look at the model is planned; 0: none
	words uint64
	batch crdt.Builder
}

// employ puts a model behind the k-th event stream.
func (m *meshRun) employ(k int) error {
	g := &meshEngine{faultEngine: m.engines[k], run: m, k: k}
	g.mode, g.replay, g.calm = crdt.Flagged, meshReplay, true
	g.speak, g.ended = g.lastWord, g.restarted
	m.fleet = append(m.fleet, g)
	return g.fresh()
}

// fresh is a new process of the engine.
func (g *meshEngine) fresh() error {
	books := g.run.books
	truth := books.truth
	model, err := books.newEngine(g.k)
	if len(truth) > g.k { // known since the first process
		books.truth = truth
	}
	g.model, g.jobs, g.wake = model, map[uint64]int{}, 0
	g.run.links.lose(g.k)
	return err
}

// restarted loses everything that the last process had; who asked it notices.
func (g *meshEngine) restarted() {
	gone := g.jobs
	g.rose = g.run.now
	if err := g.fresh(); err != nil {
		panic("invariant: " + err.Error()) // it was made of this configuration before
	}
	for _, i := range append([]int(nil), g.run.active...) {
		if t := &g.run.trips[i]; t.engine == g && t.id != 0 && gone[t.id] == i {
			g.run.replicaGone(i)
		}
	}
}

// submit gives the engine a trip's request, which starts when all that it brings
// from host memories is there.
func (g *meshEngine) submit(i int) {
	t := &g.run.trips[i]
	g.settle()
	g.jobs[t.id] = i
	at, given := g.bring(i)
	if at <= g.run.seconds() {
		g.start(i, t.id, given)
		return
	}
	id, source, life := t.id, t.source, 0
	if source != nil {
		life = source.life
	}
	g.run.after(g.run.inMs(at), func() {
		if _, live := g.jobs[id]; !live {
			return
		}
		if source != nil && source.life != life {
			given = 0 // it ended in the middle of it
		}
		g.settle()
		g.start(i, id, given)
	})
}

// bring moves what the engine lacks of a prompt to it: when it is there, in seconds
// of the workload, and how many tokens that are.
func (g *meshEngine) bring(i int) (at float64, tokens int) {
	m := g.run
	if m.links == nil {
		return m.seconds(), 0
	}
	j, source := &m.books.jobs[i], -1
	if s := m.trips[i].source; s != nil && s.up {
		source = s.k
	}
	keys := m.books.whole(j)
	at, tokens, fetched := m.links.bring(m.seconds(), g.k, source, keys, j.req.Tokens, g.model.Cached(keys, j.req.Tokens))
	m.books.fetched += int64(fetched)
	return at, tokens
}

// start hands a request to the model, which refuses what can never fit.
func (g *meshEngine) start(i int, id uint64, given int) {
	j := &g.run.books.jobs[i]
	output := g.run.books.output(j)
	if err := g.model.Submit(g.run.seconds(), replica.Request{ID: id, Prompt: j.req.Tokens, Output: output, Keys: j.keys, Given: given}); err != nil {
		delete(g.jobs, id)
		g.run.refused(i, id)
		return
	}
	g.plan()
}

// abort takes a job out.
func (g *meshEngine) abort(id uint64) {
	g.settle()
	g.model.Abort(id)
	delete(g.jobs, id)
	g.plan()
}

// plan sees to it that the model is looked at when its step ends.
func (g *meshEngine) plan() {
	next := g.model.Next()
	if math.IsInf(next, 1) {
		return
	}
	at := g.run.now + max(g.run.inMs(next), 1) // all that ended by now is settled
	if at == g.wake {
		return
	}
	g.wake = at
	g.run.after(at-g.run.now, func() {
		if g.wake == at {
			g.wake = 0
			g.settle()
			g.plan()
		}
	})
}

// settle completes the steps that have ended by now.
func (g *meshEngine) settle() {
	for now := g.run.seconds(); ; {
		res, ok := g.model.Step(now)
		if !ok {
			return
		}
		g.tell(res.KV)
		for _, t := range res.Tokens {
			i, live := g.jobs[t.ID]
			if !live {
				continue
			}
			if t.Done {
				delete(g.jobs, t.ID)
			}
			g.run.token(i, t)
		}
	}
}

// tell makes one batch of a step's events.
func (g *meshEngine) tell(events []replica.KVEvent) {
	if len(events) == 0 {
		return
	}
	g.batch.Reset()
	for i := range events {
		switch e := &events[i]; e.Kind {
		case replica.Stored:
			g.stored(e)
			g.kept(e.Keys)
		case replica.Removed:
			g.removed(e.Key, crdt.TierGPU)
		case replica.Cleared:
			panic("invariant: nobody clears a cache in an evaluation")
		}
	}
	g.say(&g.batch)
}

func (g *meshEngine) stored(e *replica.KVEvent) {
	op := crdt.Op{Mode: g.mode, Tier: crdt.TierGPU, PerPage: 1, Main: true, Root: uint64(g.run.library.root)}
	if e.First > 0 {
		op.HasParent, op.Parent, op.Root = true, g.handle(e.Parent), 0
	}
	g.batch.Store(op, g.copied(e.Keys, crdt.TierGPU), e.Keys)
}

// kept tells what the host memory keeps of pages that were stored, and what goes
// for them.
func (g *meshEngine) kept(nodes []uint64) {
	if g.run.links == nil {
		return
	}
	gone := g.run.links.memories[g.k].put(nodes)
	g.batch.Store(crdt.Op{Mode: g.mode, Tier: crdt.TierCPU, Main: true}, g.copied(nodes, crdt.TierCPU), nil)
	for _, node := range gone {
		g.removed(node, crdt.TierCPU)
	}
}

// copied enters copies into what is held, and names them.
func (g *meshEngine) copied(nodes []uint64, tier crdt.Tier) []uint64 {
	handles := make([]uint64, len(nodes))
	for i, node := range nodes {
		handles[i] = g.handle(node)
		at := entry{handle: handles[i]}
		copies := g.held[at]
		copies[tier] = 1
		g.held[at] = copies
	}
	return handles
}

func (g *meshEngine) removed(node uint64, tier crdt.Tier) {
	at := entry{handle: g.handle(node)}
	copies := g.held[at]
	copies[tier] = 0
	if g.held[at] = copies; copies == [crdt.Tiers]int{} {
		delete(g.held, at)
	}
	g.batch.Remove(crdt.Op{Mode: g.mode, Tier: tier, Main: true}, []uint64{at.handle})
}

// lastWord stores a block of nobody's, so that what was missed at the end
// shows.
func (g *meshEngine) lastWord() {
	g.words++
	node := g.words<<8 | uint64(g.k)
	g.batch.Reset()
	g.stored(&replica.KVEvent{Kind: replica.Stored, Keys: []uint64{node}})
	g.say(&g.batch)
}
