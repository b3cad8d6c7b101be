// Package workload makes and reads request sequences: seeded generators for
// the named workloads and readers for recorded traces.
//
// It owns what a request asks for (when, how long, which pieces of prompt it
// shares with others) and the made-up language in which live clients write
// it. It does not know replicas, routers or clocks.
//
// A prompt is a list of segments. A segment's tokens are a function of its id
// alone, so two prompts share a prefix exactly as far as their segment lists
// agree. The same prompt can be had as page keys (for a simulation, without
// making tokens), as token ids, as text or as chat messages.
//
// Invariants, each held by a test:
//
//	I1  one seed, one workload
//	I2  page keys, token ids and text agree: the keys of two prompts are equal
//	    up to page i exactly if their tokens are
//	I3  a request that waits for another one comes after it in the list
//	I4  a follow-up's prompt begins with its predecessor's prompt and reply,
//	    unless a coding agent compacted its context or waited for subagents
//	I5  reading never panics; a bad line is an error that names the line
//
// Sources: the sharegpt, Mooncake and agent formats are those of the published
// traces and of agentx-harness 1.0.12 (PyPI, Apache-2.0; testdata/agentx.jsonl
// is what it generates: numbers alone); named.go says what each generated workload is made of.
package workload
