// Package disagg speaks the protocols by which one replica computes a prompt's
// KV cache and another one decodes from it.
//
// It owns the bodies of both legs and the reading of the first leg's answer:
// vLLM's NIXL connector (prefill, then decode), TensorRT-LLM's context and
// generation legs (likewise) and SGLang's bootstrap rooms (both at once). It
// does not know replicas, policies, HTTP or time.
//
// Invariants, each held by a test of the same number:
//
//	I1  The request given is never edited: a failed first leg leaves the
//	    client's own body to be sent elsewhere.
//	I2  What an engine says for its fellow is passed on byte for byte, but for
//	    TensorRT-LLM's request_type.
//	I3  Rooms are positive 63-bit numbers drawn for one try: they are never
//	    derived from clocks or counters, which collide between peers.
//
// Sources: vLLM toy_proxy_server.py and llm-d connector_nixlv2.go; SGLang
// mini_lb.py; TensorRT-LLM openai_disagg_service.py.
package disagg
