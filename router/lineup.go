package router

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/banyan-llm/banyan/router/fleet"
	"github.com/banyan-llm/banyan/router/index"
	"github.com/banyan-llm/banyan/router/proxy"
)

// seat is a replica with its places in the index and on the board, found once.
type seat struct {
	replica *fleet.Replica
	id      uint64 // hash of the name
	ref     *index.Ref
	place   *place
}

// lineup is who serves one model. Immutable.
type lineup struct {
	known bool   // somebody serves it
	told  bool   // somebody has told what it serves
	lora  string // the adapter, if the model is one
	seats []*seat
}

// lineups are those of one state of the fleet and of the configuration.
// Immutable.
type lineups struct {
	gen uint64
	of  *rules
	by  map[string]*lineup // by model
}

// maxLineups bounds the models whose line-up is kept. Only those that somebody
// serves are.
const maxLineups = 4096

// lineupCache keeps the present lineups: who serves a model changes when
// replicas come, go or load adapters, not from request to request.
type lineupCache struct {
	now atomic.Pointer[lineups]
	mu  sync.Mutex // serialises who replaces them
}

// lineup returns who serves a model. Mostly a pointer to load and one look-up.
func (p *Peer) lineup(model string) *lineup {
	gen, of := p.fleet.Generation(), p.rules.Load()
	if now := p.lineups.now.Load(); now != nil && now.gen == gen && now.of == of {
		if l := now.by[model]; l != nil {
			return l
		}
	}
	l := p.newLineup(model, of.cfg.Routing.Disagg.On())
	if !l.known {
		return l
	}
	p.lineups.mu.Lock()
	defer p.lineups.mu.Unlock()
	next := &lineups{gen: gen, of: of, by: map[string]*lineup{}}
	if now := p.lineups.now.Load(); now != nil && now.gen == gen && now.of == of && len(now.by) < maxLineups {
		maps.Copy(next.by, now.by)
	}
	next.by[model] = l
	p.lineups.now.Store(next)
	return l
}

func (p *Peer) newLineup(model string, split bool) *lineup {
	l := &lineup{}
	for _, r := range p.fleet.List() {
		if r.Spec.Kind == "pool" || r.Spec.Role == "decode" && !split {
			continue
		}
		l.told = l.told || len(r.Models()) > 0
		name, ok := r.Serves(model)
		if !ok && model != "" {
			continue
		}
		l.known, l.lora = true, name
		l.seats = append(l.seats, p.seatOf(r))
	}
	return l
}

func (p *Peer) seatOf(r *fleet.Replica) *seat {
	if s, ok := r.Mark.Load().(*seat); ok {
		return s
	}
	s := &seat{replica: r, id: p.hash(r.Name()), ref: p.index.Ref(r.Stream), place: p.board.place(r.Stream)}
	r.Mark.Store(s)
	return s
}

// candidates lists the replicas that serve the call's model and may be tried.
func (p *Peer) candidates(s *scratch, call *proxy.Call) (lora string, err error) {
	s.replicas, s.seats = s.replicas[:0], s.seats[:0]
	l := p.lineup(call.Body.Model)
	for _, at := range l.seats {
		r := at.replica
		if r.Up() && (len(call.Tried) == 0 || !slices.Contains(call.Tried, r.Name())) {
			s.replicas, s.seats = append(s.replicas, r), append(s.seats, at)
		}
	}
	switch {
	case len(s.seats) > 0:
		return l.lora, nil
	case !l.known && l.told:
		return "", proxy.ErrUnknownModel
	}
	return "", proxy.ErrNoReplica
}
