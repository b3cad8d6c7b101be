package simulation

// expect lets the requests from one index to another arrive, shifted by
// seconds.
func (r *run) expect(from, to int, shift float64) {
	for i := from; i < to; i++ {
		req := r.jobs[i].req
		if req.After >= 0 {
			r.after[req.After] = append(r.after[req.After], i)
			continue
		}
		r.arrivals.push(arrival{at: req.At/r.cfg.Speedup + shift, job: i})
	}
}

// stageEnd is the index after the running stage's last request.
func (r *run) stageEnd() int {
	if stages := r.cfg.Workload.Stages; r.stage+1 < len(stages) {
		return stages[r.stage+1].First
	}
	return len(r.jobs)
}

// advanceStage begins the next stage when the running one is over.
func (r *run) advanceStage(now float64) {
	w := r.cfg.Workload
	for end := r.stageEnd(); r.completed+r.failed == end && end < len(r.jobs); end = r.stageEnd() {
		r.stage++
		r.expect(end, r.stageEnd(), now+w.Pause-w.Stages[r.stage].At/r.cfg.Speedup)
	}
}
