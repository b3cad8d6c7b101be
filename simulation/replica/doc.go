// Package replica models one inference replica: a continuous-batching
// scheduler with chunked prefill, a paged KV cache with prefix reuse, and a
// timing model, under virtual time.
//
// It owns no clock, no goroutine and no randomness of its own: a caller
// submits requests, asks when the running step ends (Next) and completes it
// (Step). A discrete-event simulation and a live server drive it the same
// way. It does not know tokens: a prompt is a length and the keys that name
// its pages, chosen by the caller so that equal prefixes have equal keys.
//
// The scheduler follows vLLM's v1 scheduler: running requests first, each
// with one token or the rest of its prefill within the step's token budget;
// then waiting requests in order of arrival while the budget, the sequence
// limit and the KV pages last; preemption of the youngest by recompute.
//
// Invariants, each held by a test:
//
//	I1  a page is free, cached and free, or referenced; free + referenced = total
//	I2  a referenced page is never evicted
//	I3  a request's pages go back to the free list tail first, so that its
//	    last page is evicted before its first
//	I4  the events of a key add up: stores minus removals = physical copies
//	I5  a request never counts its whole prompt as cached: at least the last
//	    token is computed
//	I6  every accepted request that is not aborted finishes with exactly
//	    Output tokens, and then holds no page
//	I7  equal inputs give equal outputs, to the bit
//	I8  a step never computes more than the chunk budget
//
// Sources: vllm/v1/core/sched/scheduler.py and kv_cache_manager.py (the
// scheduler and the block pool), traces/timing.json (coefficients).
package replica
