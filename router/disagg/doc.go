// Package disagg lets two replicas answer one request: one computes the
// prompt's KV cache, the other one decodes from it.
//
// It owns which requests two replicas can share, the protocols and the HTTP of
// both legs: vLLM's NIXL connector (prefill, then decode), TensorRT-LLM's
// context and generation legs (likewise) and SGLang's bootstrap rooms (both at
// once). Legs.Send makes one try; what becomes of it is told to a Book.
//
// It does not know how the pair was chosen, what is booked for it, the health
// of replicas, policies, retries or metrics: a try comes as values, and
// whoever made it counts it.
//
// Invariants, each held by a test of the same number:
//
//	I1  The request given is never edited: a failed first leg leaves the
//	    client's own body to be sent elsewhere.
//	I2  What an engine says for its fellow is passed on byte for byte, but for
//	    TensorRT-LLM's request_type.
//	I3  Rooms are positive 63-bit numbers drawn for one try: they are never
//	    derived from clocks or counters, which collide between peers.
//	I4  The end of a prefill leg is told exactly once for each try sent,
//	    whatever became of it.
//	I5  What names or authorizes a request at one replica never reaches the
//	    other one.
//	I6  A failed prefill leg never fails a try that can go on: of legs in turn
//	    the decode replica answers alone; of legs at once, which cannot, the
//	    decode leg ends at once instead of waiting.
//	I7  Both legs end with the client. The end of an answer ends no prefill
//	    leg, which may still be handing over.
//	I8  Stop returns when every prefill leg has ended.
//
// Sources: vLLM toy_proxy_server.py and llm-d connector_nixlv2.go; SGLang
// mini_lb.py; TensorRT-LLM openai_disagg_service.py.
package disagg
