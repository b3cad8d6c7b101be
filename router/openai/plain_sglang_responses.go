package openai

import (
	"bytes"
	"encoding/json"
)

// sglangResponses is a Responses body on its way to the chat that SGLang makes
// of it (0.5.23, entrypoints/openai/serving_responses.py).
type sglangResponses struct {
	shape Shape
	out   []message
}

// plainSGLangResponses makes chats of a Responses body. Whether the server's
// template takes system messages in the middle is not known: with such messages
// there are two forms, and a Messages body of the same kind tells which is right.
func plainSGLangResponses(o *object) (p Plain, why string) {
	for _, name := range []string{"previous_response_id", "prompt"} {
		if o.given(name) {
			return p, "it has the field " + name
		}
	}
	var c sglangResponses
	chat, err := c.chat(o)
	if err != nil {
		return p, whyOf(err)
	}
	p.Forms, p.Converted = [][]byte{chat.bytes()}, true
	if front, differs := c.merged(); differs {
		c.shape |= withInlineSystem
		chat.set("messages", appendChat(nil, front))
		p.Forms = append(p.Forms, chat.bytes())
		p.Trial = trialOf(o.get("model"))
	}
	p.Shape = c.shape
	return p, ""
}

// trialOf is a Messages body with a system message in the middle, and the two
// chats that SGLang may make of it.
func trialOf(model []byte) *Trial {
	o := object{}
	if model != nil {
		o.set("model", model)
	}
	o.set("system", []byte(`"You are helpful."`))
	o.set("messages", []byte(`[{"role":"user","content":"Hello."},{"role":"assistant","content":"Hello!"},{"role":"system","content":"Be brief."},{"role":"user","content":"Why?"}]`))
	p, _ := plainSGLangMessages(&o)
	return &Trial{Body: o.bytes(), Forms: p.Forms}
}

func (c *sglangResponses) chat(o *object) (chat object, err error) {
	if err := readInput(o, &c.shape, c.add, c.readItem); err != nil {
		return chat, err
	}
	chat.members = make([]member, 0, 6)
	for _, name := range []string{"model", "chat_template_kwargs"} {
		if v := o.get(name); v != nil {
			chat.set(name, v)
		}
	}
	chat.set("messages", appendChat(nil, c.out))
	if reasoning := o.get("reasoning"); reasoning != nil && !isNull(reasoning) {
		c.shape |= withEffort
		if memberOf(reasoning, "reasoning_effort") != nil {
			return chat, unread("its reasoning has the field reasoning_effort")
		}
		effort := memberOf(reasoning, "effort")
		if effort == nil {
			effort = []byte(`"medium"`)
		}
		chat.set("reasoning_effort", effort)
	}
	return chat, c.readTools(&chat, o)
}

// add appends a message. Those of one turn of the model's become one.
func (c *sglangResponses) add(m message) {
	if m.role == "system" {
		c.shape |= withSystem
	}
	n := len(c.out)
	if m.role != "assistant" || n == 0 || c.out[n-1].role != "assistant" {
		m.content = bytes.Clone(m.content) // which grows
		c.out = append(c.out, m)
		return
	}
	last := &c.out[n-1]
	if !isNone(m.content) {
		switch {
		case isNone(last.content):
			last.content = bytes.Clone(m.content)
		case isText(last.content) && isText(m.content):
			last.content = extended(last.content, m.content, `\n\n`)
		case isText(last.content):
			last.content = extended(list([][]byte{textPart(last.content)}), m.content, ",")
		default:
			last.content = extended(last.content, list([][]byte{elements(m.content)}), ",")
		}
	}
	last.calls = append(last.calls, m.calls...)
	switch {
	case isNone(m.native):
	case isNone(last.native):
		last.native = m.native
	default:
		last.native = extended(last.native, m.native, `\n`)
	}
}

// extended appends what is between the ends of b to that of a, in place: a run
// of many small items costs no more than its length.
func extended(a, b []byte, between string) []byte {
	return append(append(append(a[:len(a)-1], between...), b[1:len(b)-1]...), b[len(b)-1])
}

// elements are the parts of a content, without the brackets.
func elements(content []byte) []byte {
	if isText(content) {
		return textPart(content)
	}
	return content[1 : len(content)-1]
}

// merged are the messages with all that is the system's at the front, and
// whether that changes them.
func (c *sglangResponses) merged() (out []message, differs bool) {
	var system [][]byte
	for i, m := range c.out {
		if m.role != "system" {
			out = append(out, m)
			continue
		}
		differs = differs || i > 0 || !isText(m.content)
		if isText(m.content) {
			system = append(system, m.content)
			continue
		}
		_, _ = eachElement(m.content, 0, 3, func(part []byte) error {
			system = append(system, memberOf(part, "text"))
			return nil
		})
	}
	if len(system) > 0 {
		out = append([]message{{role: "system", content: join(system, `\n\n`)}}, out...)
	}
	return out, differs
}

// readTools declares functions as chats do, and which of them to use.
func (c *sglangResponses) readTools(chat, o *object) error {
	var out [][]byte
	if tools := o.get("tools"); tools != nil {
		if err := eachTool(tools, func(t *object) error {
			if kind := t.get("type"); string(kind) != `"function"` {
				return unread("it has a tool of type %s", clip(laxString(orNull(kind))))
			}
			// What a tool lacks SGLang passes on as null, and /tokenize does not.
			f := object{members: make([]member, 0, 4)}
			for _, name := range []string{"name", "description", "parameters"} {
				if !t.given(name) {
					return unread("a tool has no %s", name)
				}
				f.set(name, t.get(name))
			}
			f.set("strict", []byte("false"))
			if strict := t.get("strict"); strict != nil {
				f.set("strict", strict)
			}
			if t.given("defer_loading") {
				return unread("a tool has the field defer_loading")
			}
			out = append(out, append(append([]byte(`{"type":"function","function":`), f.bytes()...), '}'))
			return nil
		}); err != nil {
			return err
		}
	}
	if len(out) == 0 {
		return nil
	}
	c.shape |= withTools
	chat.set("tools", list(out))
	choice := o.get("tool_choice")
	switch {
	case choice == nil:
	case isText(choice):
		chat.set("tool_choice", choice)
	case string(memberOf(choice, "type")) == `"function"` && isText(memberOf(choice, "name")):
		named, err := namedTool(memberOf(choice, "name"))
		if err != nil {
			return err
		}
		chat.set("tool_choice", named)
	default:
		return unread("its tool_choice is of another kind")
	}
	return nil
}

func (c *sglangResponses) readItem(value []byte) error {
	o, err := parseObject(value, 2)
	if err != nil {
		return err
	}
	switch kind := laxString(orNull(o.get("type"))); kind {
	case "function_call":
		return c.readCall(&o)
	case "function_call_output":
		return c.readOutput(&o)
	case "reasoning":
		return c.readReasoning(&o)
	case "", "message":
		return c.readMessage(&o)
	default:
		return unread("it holds an item of type %s", clip(kind))
	}
}

func (c *sglangResponses) readCall(o *object) error {
	c.shape |= withCalls
	id, name, arguments := o.get("call_id"), o.get("name"), o.get("arguments")
	if isNone(id) || !isText(id) || isNone(name) || !isText(name) || isNone(arguments) || !isText(arguments) || o.given("namespace") {
		return unread("a call of a tool is of another kind")
	}
	if text := bytes.TrimSpace([]byte(unquote(arguments))); len(text) == 0 || text[0] != '{' || !json.Valid(text) {
		return unread("the arguments of a call are no object")
	}
	c.add(message{role: "assistant", calls: [][]byte{call(id, name, arguments)}})
	return nil
}

// readOutput reads the result of a call; its parts become one text.
func (c *sglangResponses) readOutput(o *object) error {
	c.shape |= withResults
	m := message{role: "tool", callID: o.get("call_id"), content: o.get("output")}
	if !isText(m.callID) {
		return unread("a result of a tool names no call")
	}
	switch {
	case isText(m.content):
	case m.content == nil || m.content[0] != '[':
		return unread("a result of a tool is no text")
	default:
		texts, err := textsOf(m.content)
		if err != nil {
			return err
		}
		m.content = join(texts, "")
	}
	c.add(m)
	return nil
}

// textsOf are the texts of a list of parts that are text.
func textsOf(content []byte) (texts [][]byte, err error) {
	_, err = eachElement(content, 0, 3, func(value []byte) error {
		kind, text := memberOf(value, "type"), memberOf(value, "text")
		switch string(kind) {
		case `"input_text"`, `"output_text"`, `"text"`:
			if isText(text) {
				texts = append(texts, text)
				return nil
			}
		}
		return unread("an item holds a part of type %s", clip(laxString(orNull(kind))))
	})
	return texts, err
}

// readReasoning takes the texts of its summary, else those of its content.
func (c *sglangResponses) readReasoning(o *object) error {
	c.shape |= withThoughts
	var texts [][]byte
	for _, name := range []string{"summary", "content"} {
		value := o.get(name)
		if value == nil || value[0] != '[' || len(texts) > 0 {
			continue
		}
		if _, err := eachElement(value, 0, 3, func(part []byte) error {
			if text := memberOf(part, "text"); isText(text) && !isNone(text) {
				texts = append(texts, text)
			}
			return nil
		}); err != nil {
			return err
		}
	}
	switch {
	case len(texts) > 0:
		c.add(message{role: "assistant", native: join(texts, `\n`)})
	case !isNone(o.get("encrypted_content")):
		return unread("its reasoning is encrypted")
	}
	return nil
}

// developerLabel begins what a developer says, which SGLang hands over as the
// system's.
var developerLabel = []byte(`"Developer instructions:\n"`)

func (c *sglangResponses) readMessage(o *object) error {
	role, content := laxString(orNull(o.get("role"))), o.get("content")
	m := message{role: role}
	switch role {
	case "user", "system", "assistant":
	case "developer":
		m.role = "system"
	default:
		return unread("a message has a role that is not known")
	}
	if o.given("phase") {
		return unread("a message has the field phase")
	}
	switch {
	case isText(content):
		if role == "developer" {
			content = join([][]byte{developerLabel, content}, "")
		}
		m.content = content
	case content == nil || content[0] != '[':
		return unread("an item has no content")
	default:
		texts, err := textsOf(content)
		if err != nil {
			return err
		}
		if len(texts) == 0 {
			return unread("an item has no content")
		}
		if role == "developer" {
			texts[0] = join([][]byte{developerLabel, texts[0]}, "")
		}
		m.content = partsOf(texts)
	}
	c.add(m)
	return nil
}
