package replica

import "slices"

// begin plans a step that starts at now, if there is anything to do.
func (r *Replica) begin(now float64) {
	budget := r.cfg.Chunk
	budget, preempted := r.planRunning(budget)
	if !preempted {
		r.admit(budget)
	}
	if len(r.running) == 0 {
		if r.waiting.len() > 0 {
			panic("invariant: a request that fits the cache cannot be admitted to an empty replica")
		}
		r.stepping = false
		return
	}
	work := r.work()
	took := r.cfg.Profile.StepTime(work)
	if r.cfg.Noise > 0 {
		took *= 1 + r.cfg.Noise*(2*r.cfg.Rand.Float64()-1)
	}
	r.stepping, r.start, r.end, r.prefill = true, now, now+took, work.Prefill > 0
}

// planRunning gives every running request its share of the step: one token to
// those that decode, the rest of the prompt within the budget to the others.
// A request that finds no page preempts the youngest.
func (r *Replica) planRunning(budget int) (left int, preempted bool) {
	for i := 0; i < len(r.running); i++ {
		s := r.running[i]
		s.planned = 0
		want := min(s.total()-s.computed, budget)
		if want == 0 {
			continue
		}
		for !r.grow(s, s.computed+want) {
			preempted = true
			victim := r.running[len(r.running)-1]
			r.running = r.running[:len(r.running)-1]
			r.preempt(victim)
			if victim == s {
				return budget, preempted
			}
		}
		s.planned = want
		budget -= want
		r.publish(s)
	}
	return budget, preempted
}

// admit moves waiting requests into the batch, in order, while they fit.
func (r *Replica) admit(budget int) {
	for r.waiting.len() > 0 && budget > 0 && len(r.running) < r.cfg.MaxSeqs {
		s := r.waiting.front()
		if s.gen != r.pool.gen {
			s.depth, s.gen = r.pool.depth(s.Keys), r.pool.gen
		}
		hit := r.usable(s.depth, s.total())
		if !r.fits(s, hit) {
			return
		}
		r.waiting.popFront()
		for _, key := range s.Keys[:hit] {
			at := r.pool.find(key)
			r.pool.pin(at)
			s.pages = append(s.pages, at)
		}
		s.computed, s.named = max(hit*r.cfg.Page, min(s.Given, s.total()-1)), hit
		if s.cached < 0 {
			s.cached = s.computed
			r.stats.Queries += uint64(s.Prompt)
			r.stats.Hits += uint64(s.computed)
		}
		s.planned = min(s.total()-s.computed, budget)
		if !r.grow(s, s.computed+s.planned) {
			panic("invariant: admitted request finds no pages")
		}
		budget -= s.planned
		r.running = append(r.running, s)
		r.publish(s)
	}
}

// fits reports whether all of a waiting request's tokens have room now. The
// watermark keeps room for the growth of those that run already.
func (r *Replica) fits(s *sequence, hit int) bool {
	free := r.pool.free()
	if len(r.running) > 0 {
		free -= r.watermark
	}
	return r.pagesFor(s.total())-hit+r.pool.idle(s.Keys[:hit]) <= free
}

// grow gives a sequence pages for n tokens in all; false if none are left (it
// keeps what it got).
func (r *Replica) grow(s *sequence, n int) bool {
	for len(s.pages)*r.cfg.Page < n {
		at := r.pool.take()
		if at == none {
			return false
		}
		s.pages = append(s.pages, at)
	}
	return true
}

// publish names the pages that the planned tokens fill. As in vLLM they are
// findable from the moment they are scheduled (a follower in the same step
// shares them) and told when the step ends.
func (r *Replica) publish(s *sequence) {
	full := min((s.computed+s.planned)/r.cfg.Page, len(s.Keys))
	from := s.named
	for i := s.named; i < full; i++ {
		if r.pool.name(s.pages[i], s.Keys[i]) {
			continue
		}
		r.tell(s, from, i)
		from = i + 1
	}
	r.tell(s, from, full)
	s.named = max(s.named, full)
}

func (r *Replica) tell(s *sequence, from, to int) {
	if from >= to {
		return
	}
	ev := KVEvent{Kind: Stored, ID: s.ID, First: from, Keys: s.Keys[from:to:to]}
	if from > 0 {
		ev.Parent = s.Keys[from-1]
	}
	r.pool.events = append(r.pool.events, ev)
}

// preempt takes everything from a sequence and puts it at the head of the
// queue; it will be recomputed, prompt and produced tokens alike.
func (r *Replica) preempt(s *sequence) {
	r.drop(s)
	s.computed, s.planned, s.named, s.Given = 0, 0, 0, 0
	r.stats.Preempted++
	if s.aborted {
		delete(r.live, s.ID)
		r.recycle(s)
		return
	}
	s.gen = r.pool.gen - 1
	r.waiting.pushFront(s)
}

// drop releases a sequence's pages, last page first. I3.
func (r *Replica) drop(s *sequence) {
	for _, page := range slices.Backward(s.pages) {
		r.pool.release(page)
	}
	s.pages = s.pages[:0]
}

// work sums up what the planned step does.
func (r *Replica) work() Work {
	var w Work
	for _, s := range r.running {
		switch {
		case s.planned == 0:
		case s.produced > 0 && s.planned == 1 && s.computed+1 == s.total():
			w.Decodes++
			w.Context += s.total()
		default:
			u, c := float64(s.planned), float64(s.computed)
			w.Prefill += s.planned
			w.Square += u * (u + 2*c) // (c+u)^2 - c^2
		}
	}
	return w
}

// complete applies the step that ends: tokens appear, finished and aborted
// requests leave.
func (r *Replica) complete() {
	r.stats.Steps++
	r.stats.Busy += r.end - r.start
	if r.prefill {
		r.stats.PrefillBusy += r.end - r.start
	}
	stay := r.running[:0]
	for _, s := range r.running {
		r.settle(s)
		if s.aborted || s.produced == s.Output {
			r.leave(s)
			continue
		}
		stay = append(stay, s)
	}
	clear(r.running[len(stay):])
	r.running = stay
}

// settle books one sequence's share of the step.
func (r *Replica) settle(s *sequence) {
	before := s.computed
	s.computed += s.planned
	if s.planned > 0 && (s.produced == 0 || before+1 < s.total()) {
		r.stats.Computed += uint64(s.planned)
		if again := min(s.computed, s.peak) - before; again > 0 {
			r.stats.RecomputedToken += uint64(again)
		}
	}
	s.peak = max(s.peak, s.computed)
	if s.planned == 0 || s.computed < s.total() || s.aborted {
		s.planned = 0
		return
	}
	s.planned = 0
	s.produced++
	r.stats.Generated++
	first, done := s.produced == 1, s.produced == s.Output
	if first || done || r.cfg.EveryToken {
		r.tokens = append(r.tokens, Progress{ID: s.ID, Produced: s.produced, Cached: s.cached, First: first, Done: done})
	}
}

func (r *Replica) leave(s *sequence) {
	r.drop(s)
	delete(r.live, s.ID)
	if !s.aborted {
		r.stats.Finished++
	}
	r.recycle(s)
}
