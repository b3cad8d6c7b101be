package openai

// responses is a Responses body on its way to the chat that vLLM makes of it
// (0.32.0, entrypoints/openai/responses/utils.py, construct_input_messages).
type responses struct {
	shape   Shape
	out     []message
	partial bool // the last item is to be continued
}

// plainResponses makes a chat of a Responses body.
func plainResponses(o *object) (p Plain, why string) {
	for _, name := range []string{"previous_response_id", "previous_input_messages", "prompt"} {
		if o.given(name) {
			return p, "it has the field " + name
		}
	}
	var c responses
	chat, err := c.chat(o)
	if err != nil {
		return p, whyOf(err)
	}
	body, why := vllmChat(&chat, chat.get("messages"))
	if why != "" {
		return p, why
	}
	if t := o.get("truncation"); t != nil && string(t) != `"disabled"` {
		p.Cut = &Cut{Keep: -1}
	}
	p.Forms, p.Converted, p.Shape = [][]byte{body}, true, c.shape
	if string(o.get("tool_choice")) == `"none"` && chat.get("tools") != nil {
		if c.shape&withCalls != 0 {
			return Plain{}, "its tool_choice is none, and it holds calls"
		}
		p.hideTools(o.get("model"))
	}
	if c.shape&withCalls != 0 {
		// /tokenize writes the arguments of a call before its name, the Responses
		// API the name first: a template that dumps the function shows it.
		chat.set("messages", appendChat(nil, marked(c.out)))
		p.Twin, _ = vllmChat(&chat, chat.get("messages"))
	}
	return p, ""
}

func (c *responses) chat(o *object) (chat object, err error) {
	if err := readInput(o, &c.shape, func(m message) { c.out = append(c.out, m) }, c.readItem); err != nil {
		return chat, err
	}
	chat.members = make([]member, 0, 12)
	for _, name := range []string{"model", "chat_template_kwargs", "media_io_kwargs", "mm_processor_kwargs"} {
		if v := o.get(name); v != nil {
			chat.set(name, v)
		}
	}
	chat.set("messages", appendChat(nil, c.out))
	chat.set("add_special_tokens", []byte("true")) // unlike a chat
	if c.partial {
		c.shape |= withPartial
		chat.set("add_generation_prompt", []byte("false"))
		chat.set("continue_final_message", []byte("true"))
	}
	if effort := memberOf(o.get("reasoning"), "effort"); effort != nil {
		c.shape |= withEffort
		chat.set("reasoning_effort", effort)
	}
	return chat, c.readTools(&chat, o.get("tools"))
}

// readInput reads instructions and input: a text, or items.
func readInput(o *object, shape *Shape, add func(message), item func(value []byte) error) error {
	if instructions := o.get("instructions"); !isNone(instructions) {
		if !isText(instructions) {
			return unread("its instructions are no text")
		}
		*shape |= withSystem
		add(systemMessage(instructions))
	}
	switch input := o.get("input"); {
	case isText(input):
		add(message{role: "user", content: input})
	case input == nil || input[0] != '[':
		return unread("it has no input")
	default:
		*shape |= withBlocks
		_, err := eachElement(input, 0, 1, item)
		return err
	}
	return nil
}

// readTools declares functions as chats do. Others are the server's own, or
// written for the model in ways of their own.
func (c *responses) readTools(chat *object, tools []byte) error {
	if tools == nil || isNull(tools) || string(tools) == "[]" {
		return nil
	}
	c.shape |= withTools
	var out [][]byte
	err := eachTool(tools, func(o *object) error {
		if kind := o.get("type"); string(kind) != `"function"` {
			return unread("it has a tool of type %s", clip(laxString(orNull(kind))))
		}
		parameters := o.get("parameters")
		if parameters != nil && isNull(parameters) {
			parameters = nil
		}
		out = append(out, tool(o, parameters))
		return nil
	})
	if err == nil && len(out) > 0 {
		chat.set("tools", list(out))
	}
	return err
}

// readItem reads one item of the input. Those of one answer of the model's
// become one message.
func (c *responses) readItem(value []byte) error {
	o, err := parseObject(value, 2)
	if err != nil {
		return err
	}
	kind, status := laxString(orNull(o.get("type"))), laxString(orNull(o.get("status")))
	c.partial = (status == "in_progress" || status == "incomplete") && (kind == "message" || kind == "reasoning" || o.get("type") == nil)
	var last *message // of the model's, to which the item may belong
	if n := len(c.out); n > 0 && c.out[n-1].role == "assistant" {
		last = &c.out[n-1]
	}
	switch kind {
	case "function_call":
		return c.readCall(&o, last)
	case "function_call_output":
		return c.readOutput(&o)
	case "reasoning":
		return c.readReasoning(&o, last)
	case "", "message":
		return c.readMessage(&o, last)
	}
	return unread("it holds an item of type %s", clip(kind))
}

func (c *responses) readCall(o *object, last *message) error {
	c.shape |= withCalls
	id, name, arguments := o.get("call_id"), o.get("name"), o.get("arguments")
	if !isText(id) || !isText(name) || !isText(arguments) || !isNone(o.get("namespace")) {
		return unread("a call of a tool is of another kind")
	}
	if last == nil {
		c.out = append(c.out, message{role: "assistant"})
		last = &c.out[len(c.out)-1]
	}
	last.calls = append(last.calls, call(id, name, arguments))
	return nil
}

func (c *responses) readOutput(o *object) error {
	c.shape |= withResults
	m := message{role: "tool", callID: o.get("call_id")}
	if !isText(m.callID) {
		return unread("a result of a tool names no call")
	}
	var err error
	if m.content, err = textOf(o.get("output")); err == nil {
		c.out = append(c.out, m)
	}
	return err
}

// textOf is content as chats have it: a text, or parts that are text.
func textOf(content []byte) ([]byte, error) {
	if isText(content) {
		return content, nil
	}
	if content == nil || content[0] != '[' {
		return nil, unread("an item has no content")
	}
	texts, err := textsOf(content)
	return partsOf(texts), err
}

// readReasoning takes the first text of its content, else of its summary.
func (c *responses) readReasoning(o *object, last *message) error {
	c.shape |= withThoughts
	if !isNone(o.get("encrypted_content")) {
		return unread("its reasoning is encrypted")
	}
	thought := []byte(`""`)
	for _, name := range []string{"summary", "content"} {
		value := o.get(name)
		if value == nil || isNull(value) {
			if name == "summary" {
				return unread("its reasoning has no summary")
			}
			continue
		}
		if value[0] != '[' {
			return unread("its reasoning is no list")
		}
		if part := firstElement(value); part != nil {
			if thought = memberOf(part, "text"); !isText(thought) {
				return unread("its reasoning is no text")
			}
		}
	}
	if last != nil && last.reasoning == nil {
		last.reasoning = thought
		return nil
	}
	c.out = append(c.out, message{role: "assistant", reasoning: thought})
	return nil
}

func (c *responses) readMessage(o *object, last *message) error {
	role := laxString(orNull(o.get("role")))
	content := o.get("content")
	switch role {
	case "user", "system", "developer":
		text, err := textOf(content)
		if err == nil {
			c.out = append(c.out, message{role: role, content: text})
		}
		return err
	case "assistant":
	default:
		return unread("a message has a role that is not known")
	}
	if content != nil && content[0] == '[' { // its first text counts
		part := firstElement(content)
		if part == nil || string(memberOf(part, "type")) != `"output_text"` {
			return unread("an answer of the model's is no text")
		}
		content = memberOf(part, "text")
	}
	if !isText(content) {
		return unread("an answer of the model's is no text")
	}
	if last != nil && last.content == nil {
		last.content = content
		return nil
	}
	c.out = append(c.out, message{role: "assistant", content: content})
	return nil
}
