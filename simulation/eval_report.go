package simulation

import (
	"fmt"
	"math"
	"slices"
)

// report sums up the jobs that were not for warming.
func (r *run) report() Report {
	w := r.cfg.Workload
	rep := Report{
		Trace: w.Name, Told: w.Told, Policy: r.cfg.Policy, Peers: r.cfg.Peers, Replicas: r.cfg.Replicas,
		IdealHitRatio: w.IdealHit(), Seed: r.cfg.Seed, TraceHash: fmt.Sprintf("%016x", w.Hash()),
		ViewAge: Pair{1000 * r.cfg.DispatchDelay, 1000 * math.Max(r.cfg.DispatchDelay, r.cfg.LoadDelay)},
		Speedup: r.cfg.Speedup, Reasons: r.reasons, PerReplica: make([]int, r.cfg.Replicas), Shared: r.remote, Retried: r.retried, Fetched: r.fetched, Fetches: r.fetches,
	}
	if r.wire != nil {
		rep.GossipBytes, rep.Gossip = r.wire.total(), r.wire.bytes
	}
	var t tally
	start, end := math.Inf(1), 0.0
	for i := range r.jobs {
		j := &r.jobs[i]
		if j.req.At < r.cfg.From {
			continue
		}
		rep.Requests++
		if j.done == 0 {
			continue
		}
		rep.Completed++
		rep.PerReplica[j.replica]++
		start, end = math.Min(start, j.came()), math.Max(end, j.done)
		t.add(j, r)
	}
	if rep.Seconds = end - start; rep.Completed == 0 {
		rep.Seconds = 0
	}
	t.fill(&rep)
	if r.working != nil {
		rep.Waited = r.working.waits
	}
	rep.Again = int64(float64(t.prompt)*rep.IdealHitRatio) - int64(t.cached)
	r.reportSessions(&rep)
	r.reportStages(&rep)
	for _, e := range r.engines {
		st := e.Stats()
		rep.Recomputed += int64(st.RecomputedToken)
		rep.Preempted += int64(st.Preempted)
	}
	return rep
}

// reportStages tells the stages apart and makes the throughput their mean and
// the percentiles of TTFT their means weighed with the requests, as the
// published summaries have it. The mean TTFT is the same both ways.
func (r *run) reportStages(rep *Report) {
	stages := r.cfg.Workload.Stages
	sum, answered := 0.0, 0
	var whole Spread
	for i, s := range stages {
		end := len(r.jobs)
		if i+1 < len(stages) {
			end = stages[i+1].First
		}
		if s.At < r.cfg.From || s.First == end {
			continue
		}
		st := StageReport{Rate: s.Rate * r.cfg.Speedup, Requests: end - s.First}
		var ttft []float64
		output, first, last := 0, math.Inf(1), 0.0
		for k := s.First; k < end; k++ {
			j := &r.jobs[k]
			if j.done == 0 {
				continue
			}
			st.Completed++
			ttft = append(ttft, j.first-j.came())
			output += r.output(j)
			first, last = math.Min(first, j.came()), math.Max(last, j.done)
		}
		st.TTFT = spread(ttft)
		if last > first {
			st.Seconds = last - first
			st.OutputPerSecond = float64(output) / st.Seconds
		}
		sum += st.OutputPerSecond
		n := float64(st.Completed)
		answered += st.Completed
		whole = Spread{0, whole.P50 + n*st.TTFT.P50, whole.P90 + n*st.TTFT.P90, whole.P99 + n*st.TTFT.P99}
		rep.Stages = append(rep.Stages, st)
	}
	if answered > 0 {
		n := float64(answered)
		rep.TTFT = Spread{rep.TTFT.Mean, whole.P50 / n, whole.P90 / n, whole.P99 / n}
		rep.OutputPerSecond = sum / float64(len(rep.Stages))
	}
}

// output is how many tokens a job asks for.
func (r *run) output(j *job) int {
	if r.cfg.Prefill {
		return 1
	}
	return j.req.Output
}

// tally collects what finished jobs say.
type tally struct {
	ttft, tpot     []float64
	e2e            float64
	prompt, cached int
	output         int
	work           []float64 // prefill seconds by replica

	turns, found, stayed int
	before               map[int]*job // session -> its last finished turn
}

func (t *tally) add(j *job, r *run) {
	if t.work == nil {
		t.work = make([]float64, r.cfg.Replicas)
		t.before = make(map[int]*job)
	}
	t.ttft = append(t.ttft, j.first-j.came())
	t.e2e += j.done - j.came()
	if n := r.output(j) - 1; n > 0 {
		t.tpot = append(t.tpot, (j.done-j.first)/float64(n))
	}
	t.output += r.output(j)
	t.prompt += j.req.Tokens
	t.cached += j.cached
	t.work[j.replica] += r.truth[j.replica].Prefill(max(j.req.Tokens-j.cached, 1), j.req.Tokens)
	t.followUp(j, r.cfg.Page)
}

// followUp counts a later turn of a session: cached if the engine had all
// whole pages of the turn before, the same replica if it went there.
func (t *tally) followUp(j *job, page int) {
	if j.req.Session < 0 {
		return
	}
	if last := t.before[j.req.Session]; last != nil && j.req.Turn > 0 && last.req.Tokens <= j.req.Tokens {
		t.turns++
		if j.cached >= last.req.Tokens/page*page-page {
			t.found++
		}
		if j.replica == last.replica {
			t.stayed++
		}
	}
	t.before[j.req.Session] = j
}

func (t *tally) fill(rep *Report) {
	rep.TTFT = spread(t.ttft)
	tpot := spread(t.tpot)
	rep.TPOT = Pair{tpot.P50, tpot.P99}
	rep.E2E = t.e2e / float64(max(rep.Completed, 1))
	rep.HitRatio = ratio(t.cached, t.prompt)
	rep.FollowUpCached = ratio(t.found, t.turns)
	rep.SameReplica = ratio(t.stayed, t.turns)
	if rep.Seconds > 0 {
		rep.OutputPerSecond = float64(t.output) / rep.Seconds
	}
	sum, square, most := 0.0, 0.0, 0.0
	for _, w := range t.work {
		sum, square, most = sum+w, square+w*w, math.Max(most, w)
	}
	if n := float64(len(t.work)); sum > 0 {
		mean := sum / n
		rep.LoadCV = math.Sqrt(math.Max(square/n-mean*mean, 0)) / mean
		rep.MaxOverMean = most / mean
	}
}

// spread turns seconds into a description in milliseconds.
func spread(seconds []float64) Spread {
	if len(seconds) == 0 {
		return Spread{}
	}
	slices.Sort(seconds)
	sum := 0.0
	for _, s := range seconds {
		sum += s
	}
	at := func(q float64) float64 {
		return 1000 * seconds[min(int(math.Ceil(q*float64(len(seconds))))-1, len(seconds)-1)]
	}
	return Spread{1000 * sum / float64(len(seconds)), at(0.5), at(0.9), at(0.99)}
}

func ratio(part, whole int) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}
