// Package openai reads and edits the bodies of the APIs that engines serve:
// OpenAI's, Anthropic's Messages, and vLLM's and SGLang's own.
//
// It owns the bounded JSON scanner, what a router needs to know of a request
// (model, prompt, stream, limits, tenant and session fields), edits of top-level
// fields that leave every other byte of a value as the client wrote it, the
// shapes of errors, and the incremental reading of server-sent events and of
// usage. It does not know replicas, policies, HTTP or time.
//
// It judges nothing that the engine judges: a field of the wrong type leaves a
// router without that knowledge, and the body goes on as it came. Refused is
// what the engine's json.loads refuses, and a little that it takes: nesting
// beyond MaxDepth, more than 256 fields, halves of surrogate pairs.
//
// Invariants, each held by a test of the same number:
//
//	I1  Parse reads every byte at most a constant number of times, nests at
//	    most MaxDepth deep and never panics; what it accepts encoding/json
//	    accepts too, but for NaN and the infinities of Python's JSON.
//	I2  An unedited Request renders to exactly the bytes it was parsed from (a
//	    byte order mark is not one of them, nor a field that a later one of its
//	    name replaces); an edit leaves the raw bytes of
//	    every other member as they were.
//	I3  No rendered body names one top-level field twice, however the name is
//	    escaped: router and engine cannot read different values.
//	I4  The Raw bytes of the events a Scanner emits, joined, are the bytes it
//	    was fed; it holds at most its limit of them back.
//	I5  Equal messages give equal canonical bytes, however they are escaped or
//	    spaced; appending a message appends to the canonical bytes.
//
// Sources: the OpenAI and Anthropic API references; the protocol classes of vLLM
// 0.32 (entrypoints/*/protocol.py) and SGLang for fields beyond them; pydantic's
// conversion table; WHATWG HTML section 9.2 for the event stream.
package openai
