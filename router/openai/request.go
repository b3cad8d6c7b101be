package openai

import (
	"bytes"
	"errors"
	"unicode/utf8"
)

// Request is one parsed body: what routing needs, decoded once, and the raw
// bytes of everything else. The decoded fields are what the client sent and
// do not follow edits. Not safe for concurrent edits; see Clone.
type Request struct {
	Endpoint Endpoint
	Model    string
	Prompt   Prompt // completions' prompt, embeddings' and responses' input
	Messages []byte // the raw array, of a batch that of its first conversation; nil if there is none
	System   []byte // Messages: the raw system prompt, a string or a list of blocks; nil if there is none
	Tools    []byte // raw; nil if missing or null

	Stream       bool
	IncludeUsage bool // stream_options.include_usage
	MaxTokens    int  // asked output tokens, the newest field wins; 0 unknown
	N            int  // choices asked for, at least 1

	User      string
	CacheSalt string
	LoRA      string // lora_path, or lora_name
	Previous  string // previous_response_id: the prompt continues a stored one
	Session   string // which conversation this is, as the body says; see readSession

	echo           bool // the prompt comes back
	logprobs       bool // of what comes back
	promptLogprobs bool
	beams          bool // several answers are followed, each step a request of its own

	body object
}

// OnePrompt reports whether the usage of an answer tells the length of the one
// prompt in the body: of a batch it is that of all prompts, and of a response
// whose tools the server runs itself that of all turns.
func (r *Request) OnePrompt() bool {
	if r.Endpoint == Responses && r.Tools != nil {
		own := false
		_, _ = eachElement(r.Tools, 0, 1, func(tool []byte) error {
			own = own || string(memberOf(tool, "type")) != `"function"`
			return nil
		})
		return !own
	}
	switch r.Endpoint {
	case Chat, Completions, Messages, Responses, Embeddings, Classify, Pooling:
		return r.Prompt.Count <= 1
	}
	return false
}

// Parse reads one body. It refuses only what no engine would parse, or what two
// parsers may read differently; what fields hold is the engine's to judge. The
// error, if any, is an *Error that names the field. The Request keeps body: do
// not write to it afterwards. O(len(body)).
func Parse(endpoint Endpoint, body []byte) (*Request, error) {
	// json.loads takes a byte order mark, and editors on Windows write one.
	body = bytes.TrimPrefix(body, []byte("\ufeff"))
	if !utf8.Valid(body) {
		return nil, Invalid("", "the body is not valid UTF-8")
	}
	if i := skipSpace(body, 0); i == len(body) {
		return nil, Invalid("", "the body is empty")
	} else if body[i] != '{' {
		return nil, Invalid("", "the body is not a JSON object")
	}
	o, err := parseObject(body, 0)
	if err != nil {
		return nil, asInvalid("", "the body is not valid JSON: ", err)
	}
	r := &Request{Endpoint: endpoint, N: 1, body: o}
	r.read()
	return r, nil
}

// asInvalid keeps an *Error and makes one of anything else.
func asInvalid(param, prefix string, err error) error {
	var already *Error
	if errors.As(err, &already) {
		return already
	}
	return Invalid(param, prefix+err.Error())
}

// read decodes the fields that routing looks at.
func (r *Request) read() {
	for i := range r.body.members {
		if m := &r.body.members[i]; !isNull(m.value) {
			r.readMember(m)
			r.readPrompt(m)
		}
	}
	r.readSession()
}

func (r *Request) readMember(m *member) {
	switch m.name {
	case "model":
		r.Model = laxString(m.value)
	case "user":
		r.User = laxString(m.value)
	case "echo":
		r.echo = laxBool(m.value)
	case "logprobs":
		r.logprobs = true
	case "prompt_logprobs":
		r.promptLogprobs = r.Endpoint != Generate // which has it among its sampling_params
	case "use_beam_search":
		r.beams = laxBool(m.value)
	case "cache_salt":
		r.CacheSalt = laxString(m.value)
	case "lora_path", "lora_name": // SGLang also takes lists, one a prompt
		r.LoRA = laxString(m.value)
	case "previous_response_id":
		r.Previous = laxString(m.value)
	case "stream":
		r.Stream = laxBool(m.value)
	case "stream_options":
		r.readStreamOptions(m.value)
	case "max_tokens", "max_completion_tokens", "max_output_tokens":
		r.readMaxTokens(m.name, m.value)
	case "sampling_params":
		r.readSampling(m.value)
	case "n":
		if n, ok := laxCount(m.value); ok && n > 0 {
			r.N = n
		}
	case "tools":
		if m.value[0] == '[' {
			r.Tools = m.value
		}
	case "system":
		if r.Endpoint.Anthropic() {
			r.System = m.value
		}
	case "messages":
		r.readMessages(m.value)
	}
}

func isNull(value []byte) bool { return value[0] == 'n' }

// readMaxTokens: max_tokens is the oldest of its names, and loses to the newer
// ones whatever the order.
func (r *Request) readMaxTokens(name string, value []byte) {
	if n, ok := laxCount(value); ok && (r.MaxTokens == 0 || name != "max_tokens") {
		r.MaxTokens = n
	}
}

// readSampling reads what the generate endpoints keep in an object of its own.
func (r *Request) readSampling(value []byte) {
	if value[0] != '{' || r.Endpoint != Generate && r.Endpoint != SGLGenerate {
		return
	}
	_, _ = eachMember(value, 0, 1, func(key, value []byte) error {
		switch n, ok := laxCount(value); string(key) {
		case `"max_tokens"`, `"max_new_tokens"`:
			if ok {
				r.MaxTokens = n
			}
		case `"n"`:
			if ok && n > 0 {
				r.N = n
			}
		case `"prompt_logprobs"`, `"prompt_logprob_token_ids"`:
			r.promptLogprobs = r.promptLogprobs || !isNull(value)
		case `"skip_reading_prefix_cache"`:
			r.promptLogprobs = r.promptLogprobs || laxBool(value)
		}
		return nil
	})
}

func (r *Request) readStreamOptions(value []byte) {
	if value[0] != '{' {
		return
	}
	if options, err := parseObject(value, 1); err == nil {
		if asked := options.get("include_usage"); asked != nil {
			r.IncludeUsage = laxBool(asked)
		}
	}
}

// readMessages keeps a list of messages; of a batch of conversations the first
// one, by which the batch is routed.
func (r *Request) readMessages(value []byte) {
	if value[0] != '[' {
		return
	}
	r.Messages = value
	if r.Endpoint != ChatBatch {
		return
	}
	r.Messages = nil
	_, _ = eachElement(value, 0, 1, func(conversation []byte) error {
		if r.Prompt.Count++; r.Messages == nil && conversation[0] == '[' {
			r.Messages = conversation
		}
		return nil
	})
}

// Opaque wraps a body that is not read: it renders as it is and tells nothing.
func Opaque(body []byte) *Request {
	if body == nil {
		body = []byte{}
	}
	return &Request{N: 1, body: object{raw: body}}
}
