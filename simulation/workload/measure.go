package workload

import "math"

// IdealHit is the share of prompt tokens that one cache which never forgets
// would find, counted in whole segments in order of the list. For a trace of
// blocks this is min(block size x matched depth, input length) over the sum
// of the input lengths. O(segments).
func (w *Workload) IdealHit() float64 {
	seen := make(map[uint64]struct{})
	hits, tokens := 0, 0
	for i := range w.Requests {
		r := &w.Requests[i]
		key, deep := uint64(keySeed), true
		for _, s := range r.Prompt {
			key = mix(key, s.ID)
			if _, ok := seen[key]; !ok {
				seen[key], deep = struct{}{}, false
			} else if deep {
				hits += s.Tokens
			}
		}
		seen[mix(key, r.Reply)] = struct{}{}
		tokens += r.Tokens
	}
	return float64(hits) / float64(max(tokens, 1))
}

// Hash names the workload's content: equal hashes, equal requests.
func (w *Workload) Hash() uint64 {
	h := nameHash(w.Name)
	for i := range w.Requests {
		r := &w.Requests[i]
		h = mix(h, math.Float64bits(r.At))
		h = mix(h, math.Float64bits(r.Think))
		h = mix(h, uint64(r.After)<<32|uint64(uint32(r.Session)))
		h = mix(h, uint64(r.Tokens)<<32|uint64(r.Output))
		for _, s := range r.Prompt {
			h = mix(mix(h, s.ID), uint64(s.Tokens)<<8|uint64(s.Role))
		}
		h = mix(h, r.Reply)
		for _, id := range r.PromptIDs {
			h = mix(h, uint64(id))
		}
	}
	return h
}

// Rate is the workload's own arrivals, requests a second; later turns of a
// session count as arrived with it. +Inf if all are there at once.
func (w *Workload) Rate() float64 {
	reqs := w.Requests
	return float64(len(reqs)) / (reqs[len(reqs)-1].At - reqs[0].At)
}
