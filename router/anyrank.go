package router

import "github.com/banyan-llm/banyan/router/policy"

// picksRank reports whether the request may be computed at another rank than
// the candidate, whatever it says.
func (s *scratch) picksRank(c *policy.Candidate) bool {
	r := s.replicas[c.Index]
	return s.anyRank && r.OneOfMany() && r.Engine() == "vllm"
}

// creditEveryRank leaves candidates whose engine picks the rank no more than
// what each rank behind their URL has.
func (s *scratch) creditEveryRank() {
	var least map[string]policy.Candidate // by URL
	for i := range s.Cands {
		c := &s.Cands[i]
		if !s.picksRank(c) {
			continue
		}
		if least == nil {
			least = map[string]policy.Candidate{}
		}
		url := s.replicas[c.Index].Spec.URL
		l, known := least[url]
		if !known {
			l = *c
		}
		l.GPU, l.CPU, l.Disk = min(l.GPU, c.GPU), min(l.CPU, c.CPU), min(l.Disk, c.Disk)
		l.Predicted, l.Suspect = min(l.Predicted, c.Predicted), max(l.Suspect, c.Suspect)
		least[url] = l
	}
	for i := range s.Cands {
		if c := &s.Cands[i]; s.picksRank(c) {
			l := least[s.replicas[c.Index].Spec.URL]
			c.GPU, c.CPU, c.Disk, c.Predicted, c.Suspect = l.GPU, l.CPU, l.Disk, l.Predicted, min(l.Suspect, l.GPU)
		}
	}
}
