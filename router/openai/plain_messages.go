package openai

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
)

// errUnread says why a prompt cannot be converted.
type errUnread string

func (e errUnread) Error() string { return string(e) }

func unread(format string, args ...any) error { return errUnread(fmt.Sprintf(format, args...)) }

// whyOf is what an error of a conversion says of the prompt.
func whyOf(err error) string {
	var e errUnread
	if errors.As(err, &e) {
		return string(e)
	}
	return "it holds what cannot be read"
}

// billing begins a text of Claude Code's system prompt that differs with each
// request; vLLM leaves it out.
var billing = []byte(`"x-anthropic-billing-header`)

// anthropic is a Messages body on its way to the chat that vLLM makes of it
// (0.32.0, entrypoints/anthropic/serving.py, to_chat_completion_request).
type anthropic struct {
	conversation
	merge bool // system messages in the middle go to the front
	bare  bool // tools that may not be used are not shown
}

// conversation is a Messages body as messages of a chat.
type conversation struct {
	shape  Shape
	system [][]byte // texts of the system prompt
	out    []message
}

// read makes a chat of the model, the system prompt and the messages of a body.
// between stands between the texts of the system prompt.
func (c *conversation) read(o *object, system, message func(value []byte) error, between string) (chat object, err error) {
	if err := system(o.get("system")); err != nil {
		return chat, err
	}
	messages := o.get("messages")
	if messages == nil || messages[0] != '[' {
		return chat, unread("it has no messages")
	}
	if _, err := eachElement(messages, 0, 1, message); err != nil {
		return chat, err
	}
	if len(c.system) > 0 {
		c.shape |= withSystem
		c.out = slices.Insert(c.out, 0, systemMessage(join(c.system, between)))
	}
	chat.members = make([]member, 0, 6)
	if v := o.get("model"); v != nil {
		chat.set("model", v)
	}
	chat.set("messages", appendChat(make([]byte, 0, len(messages)+256), c.out))
	return chat, nil
}

// plainMessages makes chats of a Messages body. Three settings of the server
// cannot be known: whether its template takes system messages in the middle,
// which effort stands for thinking that is switched off, and whether tools are
// shown that may not be used. Each doubles the forms.
func plainMessages(o *object) (p Plain, why string) {
	hides := string(memberOf(o.get("tool_choice"), "type")) == `"none"`
	for i := range 4 {
		c := anthropic{merge: i&1 != 0, bare: i&2 != 0}
		chat, err := c.chat(o)
		if err != nil {
			return Plain{}, whyOf(err)
		}
		if c.merge && c.shape&withInlineSystem == 0 || c.bare && (!hides || c.shape&withTools == 0) {
			continue
		}
		if hides && c.shape&withTools != 0 {
			c.shape |= withHiddenTools
		}
		if p.Forms, err = c.finish(p.Forms, o, chat); err != nil {
			return Plain{}, whyOf(err)
		}
		if why := p.tooLong(); why != "" {
			return Plain{}, why
		}
		p.Shape |= c.shape
	}
	p.Converted = true
	return p, ""
}

// memberOf is a member of an object, nil if there is none.
func memberOf(value []byte, name string) (found []byte) {
	if value == nil || value[0] != '{' {
		return nil
	}
	_, _ = eachMember(value, 0, 1, func(key, value []byte) error {
		if string(key[1:len(key)-1]) == name {
			found = value
		}
		return nil
	})
	return found
}

// finish appends the bodies that ask for a chat, one for each effort that
// thinking switched off may stand for.
func (c *anthropic) finish(forms [][]byte, o *object, chat object) ([][]byte, error) {
	efforts := [][]byte{memberOf(o.get("output_config"), "effort")}
	if string(memberOf(o.get("thinking"), "type")) == `"disabled"` {
		efforts = [][]byte{[]byte(`"none"`), []byte(`"low"`)}
		c.shape |= withoutThinking
	}
	for _, effort := range efforts {
		if effort != nil {
			chat.set("reasoning_effort", effort)
			c.shape |= withEffort
		}
		body, why := vllmChat(&chat, chat.get("messages"))
		if why != "" {
			return nil, errUnread(why)
		}
		forms = append(forms, body)
	}
	return forms, nil
}

func (c *anthropic) chat(o *object) (chat object, err error) {
	if chat, err = c.read(o, c.readSystem, c.readMessage, ""); err != nil {
		return chat, err
	}
	if v := o.get("chat_template_kwargs"); v != nil {
		chat.set("chat_template_kwargs", v)
	}
	if !o.given("tools") {
		return chat, nil
	}
	declared, err := c.tools(o.get("tools"))
	if err == nil && !c.bare {
		chat.set("tools", declared)
	}
	return chat, err
}

// texts reads a system prompt: a text, or the texts of blocks.
func (c *anthropic) texts(dst [][]byte, value []byte, strip bool) ([][]byte, error) {
	switch {
	case isNone(value):
		return dst, nil
	case isText(value):
		if strip && bytes.HasPrefix(value, billing) {
			return dst, nil
		}
		return append(dst, value), nil
	case value[0] != '[':
		return dst, unread("its system prompt is no text")
	}
	_, err := eachElement(value, 0, 3, func(value []byte) error {
		kind, text := memberOf(value, "type"), memberOf(value, "text")
		switch {
		case string(kind) == `"tool_addition"` || string(kind) == `"tool_removal"`:
			return unread("it changes its tools on the way")
		case string(kind) != `"text"` || text != nil && !isText(text) && !isNull(text):
			return unread("its system prompt is no text")
		case !isNone(text) && !bytes.HasPrefix(text, billing):
			dst = append(dst, text)
		}
		return nil
	})
	return dst, err
}

func (c *anthropic) readSystem(value []byte) (err error) {
	c.system, err = c.texts(nil, value, false)
	return err
}

func (c *anthropic) readMessage(value []byte) error {
	m, err := parseObject(value, 2)
	if err != nil {
		return err
	}
	content := m.get("content")
	switch role := m.get("role"); string(role) {
	case `"system"`:
		c.shape |= withInlineSystem
		texts, err := c.texts(nil, content, true)
		if err != nil || len(texts) == 0 {
			return err
		}
		if c.merge {
			c.system = append(c.system, texts...)
		} else {
			c.out = append(c.out, message{role: "system", content: join(texts, "")})
		}
	case `"user"`, `"assistant"`:
		out := message{role: string(role[1 : len(role)-1])}
		switch {
		case isText(content):
			out.content = content
		case content == nil || content[0] != '[':
			return unread("a message has no content")
		default:
			c.shape |= withBlocks
			if err := c.readBlocks(&out, content); err != nil {
				return err
			}
		}
		if out.role != "user" || out.content != nil {
			c.out = append(c.out, out)
		}
	default:
		return unread("a message has a role that is not known")
	}
	return nil
}

// readBlocks reads the content of a message. Results of tools become messages
// of their own before it.
func (c *anthropic) readBlocks(out *message, content []byte) error {
	var texts, thoughts [][]byte
	_, err := eachElement(content, 0, 3, func(value []byte) error {
		if value[0] != '{' {
			return unread("a block is no object")
		}
		block, err := parseObject(value, 4)
		if err != nil {
			return err
		}
		switch kind := block.get("type"); string(kind) {
		case `"text"`:
			text := block.get("text")
			if !isNone(text) {
				if !isText(text) {
					return unread("a block of text has none")
				}
				texts = append(texts, text)
			}
		case `"thinking"`:
			if thought := block.get("thinking"); isText(thought) {
				c.shape |= withThoughts
				thoughts = append(thoughts, thought)
			}
		case `"redacted_thinking"`: // left out
		case `"tool_use"`:
			c.shape |= withCalls
			use, err := useOf(&block)
			out.calls = append(out.calls, use)
			return err
		case `"tool_result"`:
			if out.role != "user" {
				return unread("a result of a tool is not the user's")
			}
			return c.readResult(&block)
		default:
			return unread("it holds a block of type %s", clip(laxString(orNull(kind))))
		}
		return nil
	})
	if len(thoughts) > 0 {
		out.reasoning = join(thoughts, "")
	}
	out.content = parts(texts)
	return err
}

func orNull(value []byte) []byte {
	if value == nil {
		return []byte("null")
	}
	return value
}

// useOf is the call of a tool_use block.
func useOf(block *object) ([]byte, error) {
	id, name, input := block.get("id"), block.get("name"), block.get("input")
	if isNone(id) || !isText(id) || !isText(name) {
		return nil, unread("a call of a tool has no id or no name")
	}
	if input == nil || isNull(input) {
		input = []byte("{}")
	}
	if input[0] != '{' {
		return nil, unread("the input of a call is no object")
	}
	return call(id, name, quote(input)), nil
}

func (c *anthropic) readResult(block *object) error {
	c.shape |= withResults
	m := message{role: "tool", callID: block.get("tool_use_id"), content: []byte(`""`)}
	if isNone(m.callID) {
		m.callID = []byte(`""`)
	}
	switch content := block.get("content"); {
	case isNone(content):
	case isText(content):
		m.content = content
	case content[0] == '[':
		var texts [][]byte
		_, err := eachElement(content, 0, 5, func(value []byte) error {
			if kind := memberOf(value, "type"); string(kind) != `"text"` {
				return unread("a result of a tool holds a part of type %s", clip(laxString(orNull(kind))))
			}
			text := memberOf(value, "text")
			if text == nil {
				text = []byte(`""`)
			}
			if !isText(text) {
				return unread("a result of a tool holds a text that is none")
			}
			texts = append(texts, text)
			return nil
		})
		if err != nil {
			return err
		}
		m.content = join(texts, `\n`)
	default:
		return unread("a result of a tool is no text")
	}
	c.out = append(c.out, m)
	return nil
}

// tools declares the tools as chats do. A schema without a type is an object's.
func (c *anthropic) tools(value []byte) ([]byte, error) {
	c.shape |= withTools
	var out [][]byte
	err := eachTool(value, func(o *object) error {
		schema, err := schemaOf(o)
		out = append(out, tool(o, schema))
		return err
	})
	return list(out), err
}

// schemaOf is what a tool of a Messages body takes.
func schemaOf(o *object) ([]byte, error) {
	schema := o.get("input_schema")
	if schema == nil || schema[0] != '{' || !isText(o.get("name")) {
		return nil, unread("a tool has no input_schema: one that the server brings itself")
	}
	if memberOf(schema, "type") != nil {
		return schema, nil
	}
	s, err := parseObject(schema, 3)
	if err != nil {
		return nil, err
	}
	s.set("type", []byte(`"object"`))
	return s.bytes(), nil
}
