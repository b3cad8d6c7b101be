package workload

import "math"

// Shrink divides every length and time by a number: a small machine plays the
// sessions of a large fleet, with prompts that share what they shared. Nothing
// becomes shorter than one token. O(requests and segments).
func (w *Workload) Shrink(by float64) {
	tokens := func(n int) int { return max(1, int(math.Round(float64(n)/by))) }
	for i := range w.Requests {
		r := &w.Requests[i]
		r.At, r.Think, r.Output = r.At/by, r.Think/by, tokens(r.Output)
		if r.PromptIDs != nil {
			r.PromptIDs = r.PromptIDs[:tokens(len(r.PromptIDs))]
			r.ReplyIDs = r.ReplyIDs[:min(len(r.ReplyIDs), r.Output)]
			r.Tokens = len(r.PromptIDs)
			continue
		}
		r.Tokens = 0
		prompt := make([]Segment, len(r.Prompt)) // requests may share one
		for k, s := range r.Prompt {
			s.Tokens = tokens(s.Tokens)
			prompt[k] = s
			r.Tokens += s.Tokens
		}
		r.Prompt = prompt
	}
}
