package openai

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"
)

// Endpoint is the API a body is for: it says where the prompt is.
type Endpoint uint8

// The endpoints a router reads prompts of. Other is everything else.
const (
	Other Endpoint = iota
	Chat
	Completions
	Embeddings
	Responses
	Tokenize
)

// EndpointOf names the endpoint that a URL path stands for.
func EndpointOf(path string) Endpoint {
	switch path {
	case "/v1/chat/completions":
		return Chat
	case "/v1/completions":
		return Completions
	case "/v1/embeddings":
		return Embeddings
	case "/v1/responses":
		return Responses
	case "/tokenize":
		return Tokenize
	}
	return Other
}

// Path is the URL path of the endpoint, "" for Other.
func (e Endpoint) Path() string {
	return [...]string{"", "/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/responses", "/tokenize"}[e]
}

// Request is one parsed body: what routing needs, decoded once, and the raw
// bytes of everything else. The decoded fields are what the client sent and
// do not follow edits. Not safe for concurrent edits; see Clone.
type Request struct {
	Endpoint Endpoint
	Model    string
	Prompt   Prompt // completions' prompt, embeddings' and responses' input
	Messages []byte // chat: the raw array; nil if there is none
	Tools    []byte // raw; nil if missing or null

	Stream       bool
	IncludeUsage bool // stream_options.include_usage
	MaxTokens    int  // asked output tokens, the newest field wins; 0 unknown
	N            int  // choices asked for, at least 1

	User      string
	CacheSalt string
	LoRA      string // lora_path, or lora_name

	body object
}

// Parse reads one body. The error, if any, is an *Error that names the field.
// The Request keeps body: do not write to it afterwards. O(len(body)).
func Parse(endpoint Endpoint, body []byte) (*Request, error) {
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
	if err := r.read(); err != nil {
		return nil, err
	}
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
func (r *Request) read() error {
	for i := range r.body.members {
		m := &r.body.members[i]
		if isNull(m.value) {
			continue
		}
		if err := r.readMember(m); err != nil {
			return err
		}
	}
	return r.require()
}

func (r *Request) readMember(m *member) error {
	switch m.name {
	case "model":
		return readString(m, &r.Model)
	case "user":
		return readString(m, &r.User)
	case "cache_salt":
		return readString(m, &r.CacheSalt)
	case "lora_path", "lora_name":
		if m.value[0] == '"' { // SGLang also takes lists, one a prompt
			r.LoRA = unquote(m.value)
		}
	case "stream":
		return readBool(m, &r.Stream)
	case "stream_options":
		return r.readStreamOptions(m)
	case "max_tokens", "max_completion_tokens", "max_output_tokens":
		return r.readMaxTokens(m)
	case "n":
		return readCount(m, &r.N)
	case "tools":
		if m.value[0] != '[' {
			return Invalid(m.name, "must be an array")
		}
		r.Tools = m.value
	case "messages":
		return r.readMessages(m)
	case "prompt", "input":
		return r.readPrompt(m)
	}
	return nil
}

// require refuses a body that has no prompt in any form an engine knows.
func (r *Request) require() error {
	missing := func(names ...string) bool {
		return !slices.ContainsFunc(names, func(name string) bool { return r.body.find(name) >= 0 })
	}
	switch {
	case r.Endpoint == Chat && missing("messages", "prompt_token_ids", "input_ids"):
		return Invalid("messages", "the field is required")
	case r.Endpoint == Completions && missing("prompt", "prompt_embeds"):
		return Invalid("prompt", "the field is required")
	case r.Endpoint == Embeddings && missing("input", "messages"):
		return Invalid("input", "the field is required")
	}
	return nil
}

func isNull(value []byte) bool { return value[0] == 'n' }

func readString(m *member, to *string) error {
	if m.value[0] != '"' {
		return Invalid(m.name, "must be a string")
	}
	*to = unquote(m.value)
	return nil
}

func readBool(m *member, to *bool) error {
	if m.value[0] != 't' && m.value[0] != 'f' {
		return Invalid(m.name, "must be true or false")
	}
	*to = m.value[0] == 't'
	return nil
}

// readCount reads an integer of at least 0, as far as an int32 reaches; what
// is larger says "no limit" and is cut to that.
func readCount(m *member, to *int) error {
	if c := m.value[0]; c != '-' && c-'0' >= 10 {
		return Invalid(m.name, "must be an integer")
	}
	n, err := strconv.ParseInt(string(m.value), 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		n = math.MaxInt32
	case err != nil:
		return Invalid(m.name, "must be an integer")
	}
	if m.value[0] == '-' && n != 0 {
		return Invalid(m.name, "must not be negative")
	}
	*to = int(min(n, math.MaxInt32))
	return nil
}

func (r *Request) readMaxTokens(m *member) error {
	if r.MaxTokens > 0 && m.name == "max_tokens" {
		var ignored int // the newer field wins, whatever the order
		return readCount(m, &ignored)
	}
	return readCount(m, &r.MaxTokens)
}

func (r *Request) readStreamOptions(m *member) error {
	if m.value[0] != '{' {
		return Invalid(m.name, "must be an object")
	}
	options, err := parseObject(m.value, 1)
	if err != nil {
		return asInvalid(m.name, "", err)
	}
	if i := options.find("include_usage"); i >= 0 && !isNull(options.members[i].value) {
		return readBool(&options.members[i], &r.IncludeUsage)
	}
	return nil
}

func (r *Request) readMessages(m *member) error {
	if m.value[0] != '[' {
		return Invalid(m.name, "must be an array")
	}
	_, err := eachElement(m.value, 0, 1, func(value []byte) error {
		if value[0] != '{' {
			return Invalid(m.name, "must be an array of objects")
		}
		return nil
	})
	if err != nil {
		return asInvalid(m.name, "", err)
	}
	r.Messages = m.value
	return nil
}

// Opaque wraps a body that is not read: it renders as it is and tells nothing.
func Opaque(body []byte) *Request {
	if body == nil {
		body = []byte{}
	}
	return &Request{N: 1, body: object{raw: body}}
}
