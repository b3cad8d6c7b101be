// Package standin is an inference replica without a GPU: the model of
// simulation/replica behind the HTTP interface of vLLM (or SGLang, or
// TensorRT-LLM), with a tokenizer and chat template of its own, a prefix
// cache, KV events on a real PUB socket with replay, and metrics under the
// engine's names. `banyan replica` runs it; the demo and the end-to-end tests
// route to it.
//
// It owns the wall clock that drives the model, the wire forms of the engines
// and faults on demand. It does not know routers.
//
// Invariants, each held by a test:
//
//	I1  the tokens of the render endpoints are the tokens the engine itself
//	    uses and announces
//	I2  equal prompts give equal answers, on every stand-in
//	I3  a chat that carries the answer back begins with the earlier prompt and
//	    answer, token by token
//	I4  events of one incarnation are numbered from 0 without gaps; a dropped
//	    batch can be replayed, a burnt number cannot
//	I5  folding the events gives the cache: every handle with its number of
//	    copies
//	I6  a client that leaves frees its place and its pages
//	I7  Close waits for every goroutine
//
// Sources: vllm/distributed/kv_events.py, and the servers of vLLM, SGLang and
// TensorRT-LLM, whose answers it imitates.
package standin
