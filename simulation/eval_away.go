package simulation

import (
	"cmp"
	"math"
	"slices"
)

// Away is a replica that is not there for a while: killed at From with all it
// held and had in hand, started anew with an empty cache at To. One that is
// added in mid-run is away From 0.
type Away struct {
	Replica  int
	From, To float64 // seconds of the original arrivals; To 0: it does not come back
}

// passing is one end of an Away, in virtual seconds.
type passing struct {
	at      float64
	replica int
	up      bool
}

func (r *run) plan() {
	for _, a := range r.cfg.Away {
		r.passings = append(r.passings, passing{a.From / r.cfg.Speedup, a.Replica, false})
		if a.To > 0 {
			r.passings = append(r.passings, passing{a.To / r.cfg.Speedup, a.Replica, true})
		}
	}
	slices.SortStableFunc(r.passings, func(a, b passing) int { return cmp.Compare(a.at, b.at) })
	r.down = make([]bool, r.cfg.Replicas)
}

// pass plays what comes first of the passings. Every peer knows at once: what
// they lose by hearing of it late, a connection refused and tried elsewhere, is
// not modelled. Requests that the replica had in hand are sent again as from
// their start, by the peers that had sent them.
func (r *run) pass() {
	p := r.passings[0]
	r.passings = r.passings[1:]
	k, now := p.replica, p.at
	if r.down[k] = !p.up; p.up {
		if r.shared != nil {
			r.feed(now)
		}
		return
	}
	engine, err := r.newEngine(k)
	if err != nil {
		panic("invariant: a replica that could be made once can be made again: " + err.Error())
	}
	r.engines[k] = engine
	r.index.lose(k)
	r.hosts.lose(k)
	r.views.advance(now)
	var again []int
	for i := range r.jobs {
		j := &r.jobs[i]
		if !j.sent || j.replica != k || j.done > 0 {
			continue
		}
		if j.first == 0 {
			r.books().firstToken(now, j)
		}
		r.books().finish(now, j)
		r.learnFetch(j, false)
		j.first, j.cached, j.due, j.sent = 0, 0, 0, false
		again = append(again, i)
	}
	for session, at := range r.pinned {
		if at == k {
			delete(r.pinned, session)
		}
	}
	r.retried += len(again)
	for _, i := range again {
		r.place(now, i)
	}
}

// nextPassing is when the next passing is; +Inf if there is none.
func (r *run) nextPassing() float64 {
	if len(r.passings) == 0 {
		return math.Inf(1)
	}
	return r.passings[0].at
}

// lose forgets a replica.
func (x *index) lose(k int) {
	bit := uint64(1) << k
	for key, held := range x.holders {
		if held &^= bit; held == 0 {
			delete(x.holders, key)
		} else {
			x.holders[key] = held
		}
	}
	x.held[k] = 0
	for i := x.pending.head; i < len(x.pending.items); i++ {
		if f := &x.pending.items[i]; f.replica == k {
			f.keys, f.removed = nil, false
		}
	}
	for key, list := range x.predicted {
		list = slices.DeleteFunc(slices.Clone(list), func(p prediction) bool { return p.replica == k })
		if len(list) == 0 {
			delete(x.predicted, key)
		} else {
			x.predicted[key] = list
		}
	}
}
