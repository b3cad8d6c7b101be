package fleet

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/banyan-llm/banyan/router/load"
)

// How long a replica whose answers fail is left out, and how it comes back: each
// time twice as long, until it did well for outlierMemory; then with a growing
// part of its weight.
const (
	outlierMinMs  = 10_000
	outlierMaxMs  = 300_000
	outlierMemory = 2 * 60_000
	outlierRamp   = 30 * time.Second
	leastTrust    = 0.1
)

// outlier is a replica judged by its answers, beside the breaker, which judges
// connections and probes. Times are in ms of one clock; 0: never.
type outlier struct {
	answers
	until  int64 // it is left out until then
	wait   int64 // length of the last time
	reason string
}

// leave leaves the replica out. What it answered before does not count when it
// comes back.
func (o *outlier) leave(ms int64, reason string) {
	if o.wait == 0 || ms-o.until > outlierMemory {
		o.wait = outlierMinMs / 2
	}
	o.wait = min(2*o.wait, outlierMaxMs)
	o.until, o.reason, o.answers = ms+o.wait, reason, answers{}
}

// Answered counts an answer of the replica that says nothing against it.
func (f *Fleet) Answered(r *Replica, now time.Time, client uint64, k Kind) {
	r.count(r.ms(now), By{Client: client}, k)
}

// Misanswered counts an answer of the replica that failed where another replica
// answered, or that broke off; reason is what it did, in a few words. It reports
// whether the replica is left out from now on: its answers fail much more often
// than those of the others that serve its models. At most half of them are left
// out at a time, so never the last one.
func (f *Fleet) Misanswered(r *Replica, now time.Time, by By, reason string) bool {
	ms := r.ms(now)
	own := r.count(ms, by, AnswerBad)
	others, left, total := f.siblings(r, ms, AnswerBad)
	excess, much := odd(own, others, AnswerBad)
	r.trust.Store(math.Float64bits(max(leastTrust, 1-excess)))
	r.doubted.Store(ms + windowMs)
	if !much || 2*(left+1) > total || r.out.Load() > ms {
		return false
	}
	r.mu.Lock()
	r.outlier.leave(ms, fmt.Sprintf("%d of %d answers failed, more than at other replicas (last: %s)", own[AnswerBad], own.total(), reason))
	until := r.outlier.until
	r.mu.Unlock()
	r.out.Store(until)
	r.doubted.Store(0)
	f.changed()
	return true
}

// count counts an answer and returns the last ones.
func (r *Replica) count(ms int64, by By, k Kind) tally {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outlier.add(ms, by, k)
	if k != AnswerBad {
		return tally{}
	}
	return r.outlier.sum(ms, k)
}

// Doubtful reports whether the replica refuses an odd share of its requests: a
// refusal is then worth another replica's opinion.
func (f *Fleet) Doubtful(r *Replica, now time.Time) bool {
	ms := r.ms(now)
	r.mu.Lock()
	own := r.outlier.sum(ms, AnswerRefused)
	r.mu.Unlock()
	if own[AnswerRefused] < oddCount {
		return false
	}
	others, _, total := f.siblings(r, ms, AnswerRefused)
	_, much := odd(own, others, AnswerRefused)
	return much && total > 1
}

// siblings sums the last answers of the others that serve a model of the replica's, and
// counts those that are left out and all, the replica included.
func (f *Fleet) siblings(r *Replica, ms int64, k Kind) (sum tally, left, total int) {
	for _, o := range f.List() {
		if o == r {
			total++
			continue
		}
		if !o.Up() || o.Spec.Kind != r.Spec.Kind || o.Spec.Role != r.Spec.Role || !shareModel(o, r) {
			continue
		}
		total++
		if o.out.Load() > ms {
			left++
		}
		o.mu.Lock()
		t := o.outlier.sum(ms, k)
		o.mu.Unlock()
		sum.plus(&t)
	}
	return sum, left, total
}

func shareModel(a, b *Replica) bool {
	return slices.ContainsFunc(a.Models(), func(m Model) bool {
		return slices.ContainsFunc(b.Models(), func(n Model) bool { return m.ID == n.ID })
	})
}

// Rest keeps requests away from a replica that asked for it, while others can take
// them.
func (r *Replica) Rest(now time.Time, length time.Duration) {
	if until := r.ms(now) + length.Milliseconds(); until > r.rest.Load() {
		r.rest.Store(until)
	}
}

// LeftOut reports whether other replicas go first, however much this one caches:
// its answers failed, or it asked to be left alone. Two atomic loads.
func (r *Replica) LeftOut(now time.Time) bool {
	ms := r.ms(now)
	return r.out.Load() > ms || r.rest.Load() > ms
}

// Ejected says why the replica is left out for its answers, and for how long yet:
// 0 while it comes back by degrees. No reason: neither.
func (r *Replica) Ejected(now time.Time) (why string, left time.Duration) {
	ms, until := r.ms(now), r.out.Load()
	if until == 0 || ms-until >= outlierRamp.Milliseconds() {
		return "", 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.outlier.reason, max(0, time.Duration(until-ms)*time.Millisecond)
}

// FailedShare tells how many of the last answers failed where another replica
// answered, and of how many.
func (r *Replica) FailedShare(now time.Time) (failed, answered int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.outlier.sum(r.ms(now), AnswerBad)
	return int(t[AnswerBad]), int(t.total())
}

// trusted is what its answers leave of the replica's weight.
func (r *Replica) trusted(ms int64) float64 {
	w := 1.0
	if r.doubted.Load() > ms {
		w = math.Float64frombits(r.trust.Load())
	}
	if out := r.out.Load(); out > 0 && ms >= out {
		w *= load.SlowStart(time.Duration(ms-out)*time.Millisecond, outlierRamp)
	}
	return w
}
