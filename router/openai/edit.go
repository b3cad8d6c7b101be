package openai

import (
	"slices"
	"strings"
)

// Get returns the raw JSON value of a top-level field, nil if it is missing.
func (r *Request) Get(name string) []byte { return r.body.get(name) }

// Set replaces or adds a top-level field. value must be valid JSON and name
// must need no escapes; neither is checked.
func (r *Request) Set(name string, value []byte) { r.body.set(name, value) }

// Delete removes a top-level field and reports whether it was there.
func (r *Request) Delete(name string) bool { return r.body.remove(name) }

// Bytes renders the body: the bytes as received if nothing was edited (I2).
func (r *Request) Bytes() []byte { return r.body.bytes() }

// Clone copies the request so that edits of one do not show in the other; a
// two-leg dispatch edits one body in two ways. Raw bytes are shared.
func (r *Request) Clone() *Request {
	c := *r
	c.body.members = slices.Clone(r.body.members)
	return &c
}

// internalFields are set between routers and engines only: where to fetch KV
// blocks from, which rank serves, the name a request has inside the engine.
// From a client they would be requests to connect elsewhere or to collide
// with others. kv_cache_report_mode makes vLLM announce blocks again that it
// stored long ago. The names are those of vLLM, SGLang, TensorRT-LLM and Dynamo.
var internalFields = []string{
	"kv_transfer_params", "ec_transfer_params", "disaggregated_params", "kv_cache_report_mode",
	"rid", "request_id",
	"backend_instance_id", "prefill_worker_id", "decode_worker_id",
}

func isInternal(name string) bool {
	return slices.Contains(internalFields, name) ||
		strings.HasPrefix(name, "bootstrap_") || strings.HasPrefix(name, "disagg_") || strings.HasPrefix(name, "kv.") ||
		strings.HasPrefix(name, "data_parallel_rank") || strings.HasSuffix(name, "dp_rank")
}

// carriers are fields whose members engines read like top-level ones, or copy
// to the same place; each may hold an object or a list of objects.
var carriers = []string{"vllm_xargs", "extra_args", "extra_body", "nvext", "sampling_params", "custom_params", "requests"}

// maxCarriers is how deep carriers are looked for in each other: vLLM reads
// sampling_params.extra_args.
const maxCarriers = 4

// StripInternal deletes the fields that only routers may set, and reports how
// many there were.
func (r *Request) StripInternal() int { return stripMembers(&r.body, 0) }

func stripMembers(o *object, depth int) int {
	n := stripObject(o)
	for _, carrier := range carriers {
		value := o.get(carrier)
		if value == nil || value[0] != '{' && value[0] != '[' {
			continue
		}
		stripped, k, ok := stripValue(value, depth+1)
		switch {
		case !ok:
			o.remove(carrier)
			n++
		case k > 0:
			o.set(carrier, stripped)
			n += k
		}
	}
	return n
}

// stripValue strips an object, or every object of a list. It fails where they
// nest too deep or have too many fields.
func stripValue(value []byte, depth int) (stripped []byte, n int, ok bool) {
	if depth > maxCarriers {
		return nil, 0, false
	}
	if value[0] == '{' {
		o, err := parseObject(value, 1)
		if err != nil {
			return nil, 0, false
		}
		n = stripMembers(&o, depth)
		return o.bytes(), n, true
	}
	stripped = append(make([]byte, 0, len(value)), '[')
	_, err := eachElement(value, 0, 1, func(element []byte) error {
		if element[0] == '{' || element[0] == '[' {
			inner, k, ok := stripValue(element, depth+1)
			if !ok {
				return errDepth
			}
			element, n = inner, n+k
		}
		if len(stripped) > 1 {
			stripped = append(stripped, ',')
		}
		stripped = append(stripped, element...)
		return nil
	})
	return append(stripped, ']'), n, err == nil
}

// StripList strips a body that is a list: every object in it, as StripInternal
// does. The error is an *Error.
func StripList(body []byte) ([]byte, error) {
	start := skipSpace(body, 0)
	end, err := skipValue(body, start, 0)
	if err != nil || skipSpace(body, end) != len(body) {
		return nil, Invalid("", "the body is not valid JSON")
	}
	stripped, n, ok := stripValue(body[start:end], 1)
	switch {
	case !ok:
		return nil, Invalid("", "the body nests too deep, or an object in it has too many fields")
	case n == 0:
		return body, nil
	}
	return stripped, nil
}

func stripObject(o *object) int {
	before := len(o.members)
	if !slices.ContainsFunc(o.members, func(m member) bool { return isInternal(m.name) }) {
		return 0
	}
	o.members = slices.DeleteFunc(o.members, func(m member) bool { return isInternal(m.name) })
	o.raw = nil
	return before - len(o.members)
}

// AskUsage makes a streamed answer end with a usage chunk and reports whether
// it had to: false if the client asked itself, or the endpoint has no such
// option.
func (r *Request) AskUsage() bool {
	if !r.Stream || r.IncludeUsage || r.Endpoint != Chat && r.Endpoint != Completions && r.Endpoint != Generate {
		return false
	}
	value := r.body.get("stream_options")
	if value == nil || isNull(value) {
		r.body.set("stream_options", []byte(`{"include_usage":true}`))
		return true
	}
	if value[0] != '{' {
		return false // the engine will say what is wrong with it
	}
	options, err := parseObject(value, 1)
	if err != nil {
		return false
	}
	options.set("include_usage", []byte("true"))
	r.body.set("stream_options", options.bytes())
	return true
}

// samplingFields do not change a prompt's tokens.
var samplingFields = map[string]bool{
	"stream": true, "stream_options": true, "user": true, "metadata": true, "store": true,
	"max_tokens": true, "max_completion_tokens": true, "max_output_tokens": true, "min_tokens": true,
	"temperature": true, "top_p": true, "top_k": true, "min_p": true, "seed": true, "n": true, "best_of": true,
	"stop": true, "stop_token_ids": true, "ignore_eos": true, "include_stop_str_in_output": true,
	"presence_penalty": true, "frequency_penalty": true, "repetition_penalty": true, "length_penalty": true,
	"logprobs": true, "top_logprobs": true, "prompt_logprobs": true, "logit_bias": true,
	"priority": true, "service_tier": true, "safety_identifier": true, "prompt_cache_key": true,
	"return_token_ids": true, "cache_salt": true, "session_id": true, "stop_sequences": true, "background": true,
}

// PromptBody renders the body without the fields that cannot change the
// prompt's tokens: what to ask an engine's tokenizer, and what identifies the
// answer.
func (r *Request) PromptBody() []byte {
	o := object{members: make([]member, 0, len(r.body.members))}
	for _, m := range r.body.members {
		if !samplingFields[m.name] {
			o.members = append(o.members, m)
		}
	}
	return o.bytes()
}
