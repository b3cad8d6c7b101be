package workload

import "slices"

// Fit shortens what does not go into a context of so many tokens, prompt and
// answer together, where a token of the workload becomes perToken of the model's:
// answers to a quarter of the context, then prompts from their end. It returns
// how many requests it shortened. The workload's own requests are replaced.
func (w *Workload) Fit(context int, perToken float64) (shortened int) {
	w.Requests = slices.Clone(w.Requests)
	for i := range w.Requests {
		r := &w.Requests[i]
		output := r.Output
		if float64(r.Tokens)*perToken+float64(output) <= float64(context) {
			continue
		}
		shortened++
		r.Output = max(1, min(output, context/4))
		room := max(1, int(float64(context-r.Output)/perToken))
		r.Prompt = cut(r.Prompt, room)
		r.PromptIDs = r.PromptIDs[:min(room, len(r.PromptIDs)):min(room, len(r.PromptIDs))]
		r.Tokens = min(r.Tokens, room)
	}
	return shortened
}

// cut is the first tokens of a prompt.
func cut(prompt []Segment, tokens int) (out []Segment) {
	for _, s := range prompt {
		if s.Tokens = min(s.Tokens, tokens); s.Tokens > 0 {
			out = append(out, s)
		}
		tokens -= s.Tokens
	}
	return out
}
