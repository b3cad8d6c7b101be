package simulation

import "github.com/banyan-llm/banyan/crdt"

// habits are what tells an engine's events from another's.
type habits struct {
	perPage int    // grid blocks a page
	salts   bool   // requests come in several namespaces; a Flagged engine's handles leave them out
	same    bool   // a prefix has one handle in all processes
	disk    bool   // it has a disk tier, and cache groups that do not describe the prefix
	seed    uint64 // of its handles
	mode    crdt.Mode
}

// entry is what an engine counts: a handle in a space.
type entry struct{ handle, space uint64 }

// habit is that of the present process.
func (e *faultEngine) habit() *habits { return &e.habits[e.life-1] }

// next are the habits of a process that begins.
func (e *faultEngine) next() habits {
	if e.of != nil {
		return *e.of.habit()
	}
	h := e.ways
	h.mode = e.mode
	if h.seed = uint64(e.life); h.same {
		h.seed = 0
	}
	return h
}

// become gives the engine a habit: at once if it has said nothing yet, else with
// a restart.
func (e *faultEngine) become(habit string) {
	switch habit {
	case "pages":
		e.ways.perPage = 2 + int(e.run.cfg.Seed%3)
	case "salts":
		e.ways.salts = true
	case "same-handles":
		e.ways.same = true
	case "disk":
		e.ways.disk = true
	}
	if len(e.log()) > 0 {
		e.run.restarts++
		e.restart(0)
		return
	}
	e.habits[e.life-1] = e.next()
	for _, twin := range e.also {
		twin.habits[twin.life-1] = e.next()
	}
}

// pagesOf are the whole pages of a prompt in a namespace.
func (e *faultEngine) pagesOf(life int, p *prompt, space int) []entry {
	h := &e.habits[life-1]
	var out []entry
	for end := h.perPage; end <= len(p.nodes); end += h.perPage {
		out = append(out, e.entryOf(life, p.nodes[end-1], space))
	}
	return out
}

// entryOf is where a process keeps the page that ends a prefix.
func (e *faultEngine) entryOf(life int, node uint64, space int) entry {
	at := entry{handle: handleIn(e.habits[life-1].seed, node)}
	switch {
	case space == 0:
	case e.habits[life-1].mode == crdt.Flagged:
		at.space = uint64(e.run.library.roots[space])
	default: // the salt is in the hash
		at.handle ^= uint64(e.run.library.roots[space])
	}
	return at
}

// handle is the present process's own hash of a prefix.
func (e *faultEngine) handle(node uint64) uint64 { return handleIn(e.habit().seed, node) }

func handleIn(seed, node uint64) uint64 {
	h := node ^ seed*0x9e3779b97f4a7c15
	return h ^ h>>29
}

// spaces is how many namespaces a process has.
func (e *faultEngine) spaces(life int) int {
	if life > 0 && e.habits[life-1].salts {
		return spaces
	}
	return 1
}

// aside says what is none of the tree's business: blocks of a group that does
// not describe the prefix.
func (e *faultEngine) aside(b *crdt.Builder) {
	if !e.habit().disk || len(e.order) == 0 || e.rng.IntN(4) > 0 {
		return
	}
	at := e.order[e.rng.IntN(len(e.order))]
	op := crdt.Op{Mode: e.mode, Tier: crdt.TierGPU, Group: 1, Space: at.space}
	if e.rng.IntN(2) == 0 {
		b.Store(op, []uint64{at.handle}, nil)
		return
	}
	b.Remove(op, []uint64{at.handle})
}

// noteRestart counts what a restart is there for.
func (e *faultEngine) noteRestart() {
	if n := len(e.logs); n > 1 && len(e.logs[n-2]) > 0 {
		if e.habit().same {
			e.run.reached("equal handles across a restart")
		}
		if e.starts[n-1] < e.starts[n-2] {
			e.run.reached("a start before the one before")
		}
	}
	if n := len(e.began); n >= 3 && e.run.now-e.began[n-3] < 60_000 {
		e.run.reached("three restarts in a minute")
	}
}
