package simulation

import (
	"slices"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/gossip"
	realindex "github.com/banyan-llm/banyan/router/index"
)

// checkedStream remembers what was checked of a stream last.
type checkedStream struct {
	ctx   crdt.Context
	epoch uint64
}

// check holds the safety properties of one stream against every peer.
func (r *faultRun) check(id crdt.StreamID) {
	e := r.engineOf(id)
	r.folds = r.folds[:0]
	for _, p := range r.live() {
		r.checkPeer(p, e)
	}
}

func (r *faultRun) engineOf(id crdt.StreamID) *faultEngine {
	i := slices.IndexFunc(r.engines, func(e *faultEngine) bool { return e.stream == id })
	return r.engines[i]
}

func (r *faultRun) checkPeer(p *faultPeer, e *faultEngine) {
	d, ok := p.index.Digest(e.stream)
	if !ok {
		return
	}
	last := p.checked[e.stream]
	if last == nil {
		last = &checkedStream{}
		p.checked[e.stream] = last
	}
	if d.Context.Equal(&last.ctx) {
		return
	}
	r.checked("EpochFence", "Bounded", "Codec")
	last.ctx = d.Context
	if d.Context.Epoch < last.epoch {
		r.violate("EpochFence", p, "%s went back from epoch %d to %d", e.name, last.epoch, d.Context.Epoch)
	}
	last.epoch = d.Context.Epoch
	r.checkBounds(p, &d.Context)
	if e.said[d.Context.Epoch] == nil {
		r.violate("EpochFence", p, "%s has epoch %d, which no owner minted", e.name, d.Context.Epoch)
		return
	}
	r.checkFacts(p, e, &d)
}

// checkFacts compares what a peer shows with the fold of what it knows.
func (r *faultRun) checkFacts(p *faultPeer, e *faultEngine, d *crdt.Digest) {
	c := &d.Context
	log, life := e.logUnder(c.Epoch)
	r.checked("Oracle", "NoResurrection", "NoPhantom", "NoLocalDelete")
	if len(c.Above) > 0 {
		r.checked("GapSafety")
	}
	last := uint64(0)
	if n := len(log); n > 0 {
		last = log[n-1].Seq
	}
	if top := max(c.Floor, topOf(c.Above)); top > last {
		r.violate("NoPhantom", p, "%s knows slot %d of %d", e.name, top, last)
		return
	}
	base := r.foldOnce(log, c, c.Floor)
	if count, facts := base.sum(); count != d.Base.Count || facts != d.Base.Facts {
		r.violate("Oracle", p, "%s at floor %d: base of %d facts (%x), the log's are %d (%x)", e.name, c.Floor, d.Base.Count, d.Base.Facts, count, facts)
	}
	all := base
	if len(c.Above) > 0 {
		all = r.foldOnce(log, c, crdt.MaxSeq)
	}
	ref := p.index.Ref(e.stream)
	for space := range e.spaces(life) {
		for i := range r.library.prompts {
			r.checkPrompt(p, e, all, i, space, life, ref, c)
		}
	}
}

// folded is a fold that peers which know the same share within one check.
type folded struct {
	ctx  *crdt.Context
	upTo uint64
	is   *oracle
}

// foldOnce is foldKnown, once for all peers that know the same.
func (r *faultRun) foldOnce(log []crdt.Slot, c *crdt.Context, upTo uint64) *oracle {
	for _, f := range r.folds {
		if f.upTo == upTo && f.ctx.Equal(c) {
			return f.is
		}
	}
	o := r.library.foldKnown(log, c, upTo)
	r.folds = append(r.folds, folded{c, upTo, o})
	return o
}

func (r *faultRun) checkPrompt(p *faultPeer, e *faultEngine, all *oracle, i, space, life int, ref *realindex.Ref, c *crdt.Context) {
	chain := &r.library.prompts[i]
	p.index.Match(chain.keysIn(space), &r.view)
	got := r.view.Depth(ref)
	if life == 0 { // a name without a batch
		if got.Any > 0 {
			r.violate("NoPhantom", p, "%s shows %d blocks of prompt %d and said nothing", e.name, got.Any, i)
		}
		return
	}
	pages, perPage := e.pagesOf(life, chain, space), e.habits[life-1].perPage
	most, least := all.depths(pages, perPage, false), all.depths(pages, perPage, true)
	for class, depth := range wholePages(got, perPage) {
		switch {
		case depth > most[class]:
			property := "NoPhantom"
			if all.stored(pages, perPage, most[class]) {
				property = "NoResurrection"
			}
			r.violate(property, p, "%s shows %d blocks of prompt %d in %d, class %d; its known slots say %d", e.name, depth, i, space, class, most[class])
		case depth < least[class]:
			property := "NoLocalDelete"
			if len(c.Above) > 0 {
				property = "GapSafety"
			}
			r.violate(property, p, "%s shows %d blocks of prompt %d in %d, class %d; its known slots say %d", e.name, depth, i, space, class, least[class])
		}
	}
}

// wholePages is a depth in whole pages, as an engine reuses them: the index also
// finds the first blocks of a page that goes on otherwise.
func wholePages(d realindex.Depth, perPage int) [3]int {
	return [3]int{d.GPU / perPage * perPage, d.CPU / perPage * perPage, d.Any / perPage * perPage}
}

func topOf(s []crdt.Span) uint64 {
	if len(s) == 0 {
		return 0
	}
	return s[len(s)-1].To
}

// checkBounds holds what one peer may make another hold.
func (r *faultRun) checkBounds(p *faultPeer, c *crdt.Context) {
	limits := gossip.DefaultLimits()
	s := p.core.Stats()
	switch {
	case s.StagedBytes > limits.StagedBytes:
		r.violate("Bounded", p, "%d bytes staged", s.StagedBytes)
	case len(c.Above) > crdt.MaxHoles+1 || len(c.Voids) > crdt.MaxVoidSpans:
		r.violate("Bounded", p, "%d spans above the floor, %d voids", len(c.Above), len(c.Voids))
	case s.Pulls > len(r.engines):
		r.violate("Bounded", p, "%d pulls for %d streams", s.Pulls, len(r.engines))
	case len(s.Rejected) > 0:
		r.violate("Codec", p, "rejected frames of correct peers: %v", s.Rejected)
	}
	for _, info := range p.core.Peers() {
		if info.Unacked > 2*(limits.UnackedBytes+limits.FragmentBytes) {
			r.violate("Bounded", p, "%d unacknowledged bytes at %s", info.Unacked, info.Name)
		}
	}
}
