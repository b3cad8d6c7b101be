// Package openai reads and edits the bodies of the OpenAI API.
//
// It owns the bounded JSON scanner, what a router needs to know of a request
// (model, prompt, stream, limits, tenant fields), edits of top-level fields
// that leave every other byte of a value as the client wrote it, the shape of
// errors, and the incremental reading of server-sent events and of usage. It
// does not know replicas, policies, HTTP or time.
//
// Invariants, each held by a test of the same number:
//
//	I1  Parse reads every byte at most a constant number of times, nests at
//	    most MaxDepth deep and never panics; what it accepts encoding/json
//	    accepts too.
//	I2  An unedited Request renders to exactly the bytes it was parsed from;
//	    an edit leaves the raw bytes of every other member as they were.
//	I3  No accepted body names one top-level field twice, however the name is
//	    escaped: router and engine cannot read different values.
//	I4  The Raw bytes of the events a Scanner emits, joined, are the bytes it
//	    was fed; it holds at most its limit of them back.
//	I5  Equal messages give equal canonical bytes, however they are escaped or
//	    spaced; appending a message appends to the canonical bytes.
//
// Sources: the OpenAI API reference; vLLM's and SGLang's protocol.py for
// fields beyond it; WHATWG HTML section 9.2 for the event stream.
package openai
