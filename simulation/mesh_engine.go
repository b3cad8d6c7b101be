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

// submit starts a job; false if it can never fit.
func (g *meshEngine) submit(i int, id uint64) bool {
	j := &g.run.books.jobs[i]
	g.settle()
	output := j.req.Output
	if g.run.books.cfg.Prefill {
		output = 1
	}
	err := g.model.Submit(g.run.seconds(), replica.Request{ID: id, Prompt: j.req.Tokens, Output: output, Keys: j.keys})
	if err != nil {
		return false
	}
	g.jobs[id] = i
	g.plan()
	return true
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
		case replica.Removed:
			g.removed(e.Key)
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
	handles := make([]uint64, len(e.Keys))
	for i, node := range e.Keys {
		handles[i] = g.handle(node)
		g.held[entry{handle: handles[i]}] = [crdt.Tiers]int{crdt.TierGPU: 1}
	}
	g.batch.Store(op, handles, e.Keys)
}

func (g *meshEngine) removed(node uint64) {
	h := g.handle(node)
	delete(g.held, entry{handle: h})
	g.batch.Remove(crdt.Op{Mode: g.mode, Tier: crdt.TierGPU, Main: true}, []uint64{h})
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
