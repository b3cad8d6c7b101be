package openai

// Uncached reports whether the engine reads no cache for the request: the
// probabilities of the prompt's own tokens are asked for, so all of it is
// computed (vLLM's skip_reading_prefix_cache). Beams are requests of their own,
// without that wish.
func (r *Request) Uncached() bool {
	switch {
	case r.beams:
		return false
	case r.promptLogprobs:
		return true
	case !r.echo:
		return false
	case r.Endpoint == Completions:
		return r.logprobs
	}
	// A chat that comes back has its prompt's top_logprobs told: 0, unless the
	// client writes null.
	top := r.body.get("top_logprobs")
	return (r.Endpoint == Chat || r.Endpoint == ChatBatch) && (top == nil || !isNull(top))
}

// TakesRank reports whether vLLM computes the request at the data-parallel rank
// that a header of it names. At other endpoints, and of beams, it picks the rank
// itself (0.32.0: entrypoints/*/serving.py, what passes data_parallel_rank on).
func (r *Request) TakesRank() bool {
	switch r.Endpoint {
	case Chat, Completions, Messages:
		return !r.beams
	case ChatBatch, Generate:
		return true
	}
	return false
}
