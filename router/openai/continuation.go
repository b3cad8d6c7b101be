package openai

import (
	"bytes"
	"slices"
	"strconv"
)

// carried are the fields of a body that mean the same on the request that goes
// on with its answer. Penalties of presence and frequency do not: they count
// what was generated, which is part of the prompt by then.
var carried = []string{
	"model", "user", "temperature", "top_p", "top_k", "min_p", "seed", "ignore_eos", "stop_token_ids", "repetition_penalty",
	"logit_bias", "allowed_token_ids", "priority", "cache_salt", "skip_special_tokens", "spaces_between_special_tokens",
}

// made are the fields that only made the prompt, which is token ids by then, or
// that no engine reads.
var made = []string{
	"messages", "prompt", "chat_template", "chat_template_kwargs", "add_generation_prompt", "add_special_tokens", "continue_final_message",
	"documents", "reasoning_effort", "tools", "tool_choice", "parallel_tool_calls", "truncate_prompt_tokens", "truncation_side",
	"include_reasoning", "session_id", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key",
	"stream", "stream_options", "n", "max_tokens", "max_completion_tokens", "min_tokens",
}

// Continuable reports why the answer to r cannot be continued by another replica
// in mid-stream; "": it can. It can be if it is one stream of plain text whose
// text does not lag behind its tokens: stop strings, tools, images, grammars and
// log probabilities are in the way. What it says is a word of a closed list.
func (r *Request) Continuable() (why string) {
	if !r.Stream || r.Endpoint != Chat && r.Endpoint != Completions {
		return "endpoint"
	}
	if r.N != 1 || r.Prompt.Count > 1 {
		return "choices"
	}
	for i := range r.body.members {
		m := &r.body.members[i]
		switch {
		case meansNothing(m) || slices.Contains(carried, m.name):
		case m.name == "tools" && string(r.body.get("tool_choice")) != `"none"`:
			return "tools"
		case m.name == "messages" && !onlyText(m.value):
			return "images"
		case m.name == "stream_options" && !onlyUsage(m.value):
			return "field"
		case !slices.Contains(made, m.name):
			return "field"
		}
	}
	return ""
}

// meansNothing reports whether a field says what its absence says.
func meansNothing(m *member) bool {
	switch string(m.value) {
	case "null", "false", "[]", "{}", `""`:
		return true
	case "0", "0.0":
		return m.name != "logprobs" && m.name != "prompt_logprobs"
	}
	return m.name == "response_format" && string(memberOf(m.value, "type")) == `"text"`
}

// onlyText reports whether every message is text: the tokens of a prompt with an
// image do not say what is on it.
func onlyText(messages []byte) bool {
	if messages[0] != '[' {
		return false
	}
	_, err := eachElement(messages, 0, 1, func(message []byte) error {
		content := memberOf(message, "content")
		if len(content) == 0 || content[0] != '[' {
			return nil
		}
		_, err := eachElement(content, 0, 1, func(part []byte) error {
			if part[0] != '"' && string(memberOf(part, "type")) != `"text"` {
				return errDepth
			}
			return nil
		})
		return err
	})
	return err == nil
}

// onlyUsage reports whether stream options ask for nothing but usage at the end.
func onlyUsage(value []byte) bool {
	if value[0] != '{' {
		return false
	}
	options, err := parseObject(value, 1)
	return err == nil && !slices.ContainsFunc(options.members, func(m member) bool {
		return m.name != "include_usage" && !meansNothing(&m)
	})
}

// usualOutput is what vLLM generates for completions that name no number.
const usualOutput = 16

// Continuation is the request that goes on after output, tokens of an answer to
// r whose prompt was prompt: a completion of both, of a replica whose context
// holds length tokens. false: there is no room for another token.
func (r *Request) Continuation(prompt, output []uint32, length int) (*Request, bool) {
	most := length - len(prompt) - len(output)
	asked := r.MaxTokens
	if asked == 0 && r.Endpoint == Completions {
		asked = usualOutput
	}
	if asked > 0 {
		most = min(most, asked-len(output))
	}
	if most < 1 {
		return nil, false
	}
	dst := append(make([]byte, 0, 8*(len(prompt)+len(output))+1024), `{"prompt":[`...)
	for i, id := range prompt {
		dst = appendID(dst, i, id)
	}
	for i, id := range output {
		dst = appendID(dst, len(prompt)+i, id)
	}
	dst = append(dst, `],"stream":true,"max_tokens":`...)
	dst = strconv.AppendInt(dst, int64(most), 10)
	if least, ok := laxCount(orNull(r.body.get("min_tokens"))); ok && least > len(output) {
		dst = strconv.AppendInt(append(dst, `,"min_tokens":`...), int64(least-len(output)), 10)
	}
	for i := range r.body.members {
		if m := &r.body.members[i]; slices.Contains(carried, m.name) && !isNull(m.value) {
			dst = append(append(append(append(dst, ','), m.key...), ':'), m.value...)
		}
	}
	next, err := Parse(Completions, append(dst, '}'))
	if err != nil {
		panic("invariant: a body made of a parsed one parses: " + err.Error())
	}
	return next, true
}

func appendID(dst []byte, i int, id uint32) []byte {
	if i > 0 {
		dst = append(dst, ',')
	}
	return strconv.AppendUint(dst, uint64(id), 10)
}

// Piece is what one chunk of a streamed answer adds to it. The fields hold raw
// JSON, valid as long as the chunk; nil: not there, or null.
type Piece struct {
	ID, Created, Model []byte
	Prompt, Tokens     []byte // lists of token ids
	Text               []byte // a string: what the chunk adds
	Finish, Stop       []byte // finish_reason and stop_reason
	Usage, Fingerprint []byte
	Code               []byte // of an error
	Other              bool   // it adds something that is no text: a tool call, reasoning
	Empty              bool   // its choice adds nothing at all
}

// ReadPiece reads the data of one chunk of chat or completions. What is no such
// chunk gives an empty Piece. O(len(data)).
func ReadPiece(data []byte) (p Piece) {
	set := func(to *[]byte, value []byte) {
		if !isNull(value) {
			*to = value
		}
	}
	choice := func(key, value []byte) error {
		switch string(key) {
		case `"text"`:
			set(&p.Text, value)
		case `"delta"`:
			p.readDelta(value)
		case `"finish_reason"`:
			set(&p.Finish, value)
		case `"stop_reason"`:
			set(&p.Stop, value)
		case `"token_ids"`:
			set(&p.Tokens, value)
		case `"prompt_token_ids"`:
			set(&p.Prompt, value)
		}
		return nil
	}
	if i := skipSpace(data, 0); i == len(data) || data[i] != '{' {
		return p
	}
	_, err := eachMember(data, skipSpace(data, 0), 0, func(key, value []byte) error {
		switch string(key) {
		case `"id"`:
			set(&p.ID, value)
		case `"created"`:
			set(&p.Created, value)
		case `"model"`:
			set(&p.Model, value)
		case `"usage"`:
			set(&p.Usage, value)
		case `"system_fingerprint"`:
			set(&p.Fingerprint, value)
		case `"prompt_token_ids"`:
			set(&p.Prompt, value)
		case `"error"`:
			p.Code = memberOf(value, "code")
		case `"choices"`:
			if value[0] == '[' {
				_, _ = eachElement(value, 0, 1, func(c []byte) error {
					if c[0] == '{' {
						_, _ = eachMember(c, 0, 2, choice)
					}
					return nil
				})
			}
		}
		return nil
	})
	if err != nil {
		return Piece{}
	}
	return p
}

// readDelta reads what a chunk of a chat adds.
func (p *Piece) readDelta(delta []byte) {
	if delta[0] != '{' {
		return
	}
	p.Empty = true
	_, _ = eachMember(delta, 0, 3, func(key, value []byte) error {
		p.Empty = false
		switch name := string(key); {
		case isNull(value) || string(value) == "[]" || name == `"role"`:
		case name == `"content"`:
			p.Text = value
		case string(value) != `""`:
			p.Other = true
		}
		return nil
	})
}

// AppendIDs appends a raw list of token ids; false if it is none.
func AppendIDs(dst []uint32, list []byte) ([]uint32, bool) {
	if len(list) == 0 || list[0] != '[' {
		return dst, false
	}
	ok := true
	_, err := eachElement(list, 0, 1, func(value []byte) error {
		n, whole := readTokenCount(value)
		ok = ok && whole
		dst = append(dst, uint32(n)) //nolint:gosec // readTokenCount ends at 2^31
		return nil
	})
	return dst, ok && err == nil
}

// AppendWithoutTokens appends an event with null in the place of its token ids,
// as an engine writes it that was not asked for them, and without the usage
// field if that was not asked for either. An event that is no chunk, or lies on
// several data lines, is appended as it is. O(len(event.Data)).
func AppendWithoutTokens(dst []byte, event Event, usage bool) []byte {
	at := bytes.Index(event.Raw, event.Data)
	if at < 0 || len(event.Data) == 0 || event.Data[0] != '{' {
		return append(dst, event.Raw...)
	}
	chunk, err := parseObject(event.Data, 0)
	if err != nil {
		return append(dst, event.Raw...)
	}
	null := []byte("null")
	forget := func(o *object, name string) {
		if o.find(name) >= 0 {
			o.set(name, null)
		}
	}
	forget(&chunk, "prompt_token_ids")
	if !usage {
		chunk.remove("usage")
	}
	if choices := chunk.get("choices"); len(choices) > 0 && choices[0] == '[' {
		out := []byte{'['}
		_, _ = eachElement(choices, 0, 1, func(value []byte) error {
			if len(out) > 1 {
				out = append(out, ',')
			}
			choice, err := parseObject(value, 2)
			if err != nil {
				out = append(out, value...)
				return nil //nolint:nilerr // it goes on as it came
			}
			forget(&choice, "prompt_token_ids")
			forget(&choice, "token_ids")
			out = append(out, choice.bytes()...)
			return nil
		})
		chunk.set("choices", append(out, ']'))
	}
	dst = append(append(dst, event.Raw[:at]...), chunk.bytes()...)
	return append(dst, event.Raw[at+len(event.Data):]...)
}
