package openai

import (
	"bytes"
	"slices"
)

// What /tokenize of each engine takes, read in vLLM 0.32.0 (serve/tokenize/
// protocol.py, renderers/online_renderer.py), SGLang 0.5.23 (openai/protocol.py,
// serving_tokenize.py) and TensorRT-LLM's TokenizeRequest. What a prompt holds
// beside it and the endpoint would not see makes the question unaskable: other
// tokens are worse than none.

// vllmChatFields are those of a chat that vLLM's /tokenize takes by the same
// name and passes to the same renderer.
var vllmChatFields = []string{
	"model", "messages", "tools", "add_generation_prompt", "continue_final_message", "add_special_tokens",
	"chat_template", "chat_template_kwargs", "media_io_kwargs", "mm_processor_kwargs",
}

// templateFields are those of a chat that the chat endpoint passes to the
// template, and /tokenize takes only as arguments of it.
var templateFields = []string{"documents", "reasoning_effort"}

// TokenizeBody rewrites a PromptBody for an engine's tokenizer endpoint, so
// that its tokens are those of the request itself, or says why that cannot be.
// engine is vllm, sglang or trtllm. O(len(body)).
func TokenizeBody(endpoint Endpoint, engine string, body []byte) (p Plain, why string) {
	o, err := parseObject(body, 0)
	if err != nil {
		return p, "it is no object"
	}
	var ask []byte
	switch vllm := engine == "vllm" || engine == ""; {
	case endpoint == Completions:
		ask, why = plainCompletion(&o, "prompt", engine)
	case endpoint == Chat:
		ask, why = plainChat(&o, engine)
	case endpoint.pools():
		ask, why = plainInput(&o, engine)
	case vllm && endpoint == Messages:
		return plainMessages(&o)
	case vllm && endpoint == Responses:
		return plainResponses(&o)
	case engine == "sglang" && endpoint == Messages:
		return plainSGLangMessages(&o)
	case engine == "sglang" && endpoint == Responses:
		return plainSGLangResponses(&o)
	default:
		why = "its API has no tokenizer endpoint"
	}
	if why != "" {
		return p, why
	}
	cut, why := cutOf(&o, endpoint, engine, ask)
	if why != "" {
		return p, why
	}
	p = Plain{Forms: [][]byte{ask}, Cut: cut}
	if tools := o.get("tools"); endpoint == Chat && (engine == "vllm" || engine == "") && cut == nil &&
		string(o.get("tool_choice")) == `"none"` && tools != nil && tools[0] == '[' && firstElement(tools) != nil {
		p.hideTools(o.get("model"))
	}
	return p, ""
}

// RenderBody completes a PromptBody for vLLM's render endpoints: Messages must
// have max_tokens, and of images only the names are wanted, not the tensors,
// which are megabytes (from 0.32 on; older releases ignore the field).
func RenderBody(endpoint Endpoint, body []byte) []byte {
	if endpoint != Messages && (endpoint != Chat || !bytes.Contains(body, []byte(`"type"`))) {
		return body
	}
	o, err := parseObject(body, 0)
	if err != nil {
		return body
	}
	if endpoint == Messages {
		o.set("max_tokens", []byte("1"))
	} else if messages := o.get("messages"); messages == nil || messages[0] != '[' || mediaPart(messages) == "" {
		return body
	}
	o.set("mm_payload", []byte(`"none"`))
	return o.bytes()
}

// given reports whether a field is there and not null.
func (o *object) given(name string) bool {
	v := o.get(name)
	return v != nil && !isNull(v)
}

// plainCompletion asks for a text; field is where it stands.
func plainCompletion(o *object, field, engine string) ([]byte, string) {
	for _, name := range []string{"suffix", "prompt_embeds"} {
		if o.given(name) {
			return nil, "it has the field " + name
		}
	}
	prompt := o.get(field)
	if prompt != nil && prompt[0] == '[' { // a batch is routed by its first prompt
		prompt = firstElement(prompt)
	}
	if prompt == nil || prompt[0] != '"' {
		return nil, "its prompt is no text"
	}
	out := object{members: make([]member, 0, 3)}
	if model := o.get("model"); model != nil {
		out.set("model", model)
	}
	out.set("prompt", prompt)
	if special := o.get("add_special_tokens"); special != nil {
		switch engine {
		case "vllm":
			out.set("add_special_tokens", special)
		case "trtllm":
			return nil, "it has the field add_special_tokens"
		} // SGLang's completions do not know it
	}
	return out.bytes(), ""
}

// plainInput asks for what becomes a vector or a class: a text, or of vLLM a
// chat, which it renders without the opening of an answer.
func plainInput(o *object, engine string) ([]byte, string) {
	if o.given("padding") {
		return nil, "it has the field padding"
	}
	messages := o.get("messages")
	if messages == nil {
		return plainCompletion(o, "input", engine)
	}
	if engine != "vllm" || o.get("input") != nil || messages[0] != '[' {
		return nil, "its input is no text"
	}
	if first := firstElement(messages); first == nil || first[0] != '{' {
		return nil, "its messages are a batch"
	}
	if part := mediaPart(messages); part != "" {
		return nil, "its messages hold " + part
	}
	out := object{members: make([]member, 0, len(vllmChatFields))}
	out.set("add_generation_prompt", []byte("false"))
	for _, name := range vllmChatFields {
		if v := o.get(name); v != nil && name != "tools" {
			out.set(name, v)
		}
	}
	return out.bytes(), ""
}

// firstElement is the first element of a checked array, nil if there is none.
func firstElement(array []byte) (first []byte) {
	_, _ = eachElement(array, 0, 1, func(value []byte) error {
		first = value
		return errShort // any: one is enough
	})
	return first
}

func plainChat(o *object, engine string) ([]byte, string) {
	messages := o.get("messages")
	if messages == nil || messages[0] != '[' {
		return nil, "it has no messages"
	}
	if part := mediaPart(messages); part != "" {
		return nil, "its messages hold " + part
	}
	switch engine {
	case "sglang":
		return sglangChat(o)
	case "trtllm":
		return trtllmChat(o)
	}
	return vllmChat(o, messages)
}

// textParts are the types of content parts that become text.
var textParts = []string{"text", "input_text", "output_text", "refusal", "thinking"}

// mediaPart names the first content part that is not text: engines put tokens
// in its place that the tokenizer endpoint does not, or names in their events
// that it does not tell.
func mediaPart(messages []byte) (part string) {
	_, _ = eachElement(messages, 0, 1, func(message []byte) error {
		_, err := eachMember(message, 0, 2, func(key, content []byte) error {
			if string(key) != `"content"` || content[0] != '[' {
				return nil
			}
			_, err := eachElement(content, 0, 3, func(value []byte) error {
				if part = partType(value); part != "" {
					return errShort // any: one is enough
				}
				return nil
			})
			return err
		})
		return err
	})
	return part
}

// partType is the type of a content part that is not text.
func partType(value []byte) string {
	if value[0] != '{' {
		return ""
	}
	part, err := parseObject(value, 4)
	if err != nil {
		return "a part that cannot be read"
	}
	kind := part.get("type")
	if kind == nil || kind[0] != '"' {
		return "a part without a type"
	}
	name := unquote(kind)
	if slices.Contains(textParts, name) {
		return ""
	}
	return "a part of type " + clip(name)
}

func vllmChat(o *object, messages []byte) ([]byte, string) {
	out := object{members: make([]member, 0, len(vllmChatFields))}
	for _, name := range vllmChatFields {
		if v := o.get(name); v != nil {
			out.set(name, v)
		}
	}
	if bytes.Contains(messages, []byte(`"reasoning_content"`)) {
		out.set("messages", renameReasoning(messages))
	}
	if !slices.ContainsFunc(templateFields, o.given) {
		return out.bytes(), ""
	}
	// As the chat endpoint does: its fields win over the client's arguments of
	// the same name, and an effort also says whether to think at all.
	kwargs := object{}
	if v := o.get("chat_template_kwargs"); v != nil && !isNull(v) {
		var err error
		if kwargs, err = parseObject(v, 1); err != nil {
			return nil, "its chat_template_kwargs are no object"
		}
	}
	thinking := kwargs.find("enable_thinking") >= 0
	for _, name := range templateFields {
		if v := o.get(name); v != nil && !isNull(v) && string(v) != `"auto"` {
			kwargs.set(name, v)
		}
	}
	if effort := o.get("reasoning_effort"); effort != nil && !isNull(effort) && !thinking {
		think := "true"
		if string(effort) == `"none"` {
			think = "false"
		}
		kwargs.set("enable_thinking", []byte(think))
	}
	out.set("chat_template_kwargs", kwargs.bytes())
	return out.bytes(), ""
}

// renameReasoning gives reasoning_content of messages its present name, as the
// chat endpoint does before it renders and /tokenize does not.
func renameReasoning(messages []byte) []byte {
	out := append(make([]byte, 0, len(messages)), '[')
	_, _ = eachElement(messages, 0, 1, func(value []byte) error {
		if len(out) > 1 {
			out = append(out, ',')
		}
		m, err := parseObject(value, 2)
		if old := m.get("reasoning_content"); err == nil && old != nil {
			if !isNull(old) && !m.given("reasoning") {
				m.set("reasoning", old)
			}
			m.remove("reasoning_content")
			value = m.bytes()
		}
		out = append(out, value...)
		return nil
	})
	return append(out, ']')
}

// sglangChat is the chat itself: SGLang makes a chat request of all it is
// given. Two fields would make it render otherwise than a chat, which ignores
// them.
func sglangChat(o *object) ([]byte, string) {
	out := object{members: make([]member, 0, len(o.members))}
	for _, m := range o.members {
		if m.name != "add_generation_prompt" && m.name != "add_special_tokens" {
			out.members = append(out.members, m)
		}
	}
	return out.bytes(), ""
}

// trtllmChatFields change a chat's tokens and are no fields of TensorRT-LLM's
// tokenizer endpoint, which refuses what it does not know.
var trtllmChatFields = []string{
	"tools", "chat_template", "chat_template_kwargs", "documents", "reasoning_effort", "add_generation_prompt",
	"continue_final_message", "add_special_tokens", "truncate_prompt_tokens", "mm_processor_kwargs",
}

func trtllmChat(o *object) ([]byte, string) {
	for _, name := range trtllmChatFields {
		if o.given(name) {
			return nil, "it has the field " + name
		}
	}
	out := object{members: make([]member, 0, 2)}
	for _, name := range []string{"model", "messages"} {
		if v := o.get(name); v != nil {
			out.set(name, v)
		}
	}
	return out.bytes(), ""
}
