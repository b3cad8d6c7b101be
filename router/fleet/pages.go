package fleet

import (
	"context"
	"sync"
)

// urlPages are what one URL answers, each page read once for all its ranks: an
// engine of a hundred ranks, or one that says so, is asked no more than any other.
// One goroutine uses it.
type urlPages struct {
	fleet   *Fleet
	replica *Replica // asks: its URL and credentials are those of all
	got     map[string]pageRead
}

type pageRead struct {
	body []byte
	err  error
}

func (f *Fleet) pagesOf(r *Replica) *urlPages {
	return &urlPages{fleet: f, replica: r, got: map[string]pageRead{}}
}

// read is Fleet.read, once for each path.
func (p *urlPages) read(ctx context.Context, path string, limit int64) ([]byte, error) {
	if have, ok := p.got[path]; ok {
		return have.body, have.err
	}
	body, err := p.fleet.read(ctx, p.replica, path, limit)
	p.got[path] = pageRead{body, err}
	return body, err
}

// origin is what tells apart whom to ask: replicas of one origin are ranks of one
// server.
type origin struct{ url, credentials string }

func (r *Replica) origin() origin { return origin{r.Spec.URL, r.Spec.Credentials} }

// group is the listed ranks of one server, whom one goroutine watches.
type group struct {
	cancel context.CancelFunc

	mu    sync.Mutex // guards ranks
	ranks []*Replica
}

func (g *group) list() []*Replica {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.ranks
}

func (g *group) set(ranks []*Replica) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ranks = ranks
}

// regroup starts the goroutines of servers that are new in the list, and ends those
// of servers that have left it.
func (f *Fleet) regroup(ctx context.Context, wg *sync.WaitGroup, groups map[origin]*group) {
	now := map[origin][]*Replica{}
	for _, r := range f.List() {
		now[r.origin()] = append(now[r.origin()], r)
	}
	for at, ranks := range now {
		g := groups[at]
		if g == nil {
			gctx, cancel := context.WithCancel(ctx)
			g = &group{cancel: cancel}
			groups[at] = g
			g.set(ranks)
			wg.Go(func() { f.watch(gctx, g) })
			continue
		}
		g.set(ranks)
	}
	for at, g := range groups {
		if now[at] == nil {
			g.cancel()
			delete(groups, at)
		}
	}
}
