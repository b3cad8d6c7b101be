package openai

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode"
)

// sglangMessages is a Messages body on its way to the chat that SGLang makes of
// it (0.5.23, entrypoints/anthropic/serving.py).
type sglangMessages struct {
	conversation
	merge    bool // system messages in the middle go to the front
	thoughts int  // what becomes of thoughts of earlier turns
}

// What SGLang makes of thoughts of earlier turns; its reasoning parser decides.
const (
	thoughtsApart  = iota // a field of their own
	thoughtsInside        // at the beginning of the text, between the usual marks
	thoughtsGone
	thoughtsWays
)

// sglangToggles are the template arguments that thinking may stand for; the
// server's reasoning parser decides. The last one is none.
var sglangToggles = []string{"enable_thinking", "thinking", ""}

// plainSGLangMessages makes chats of a Messages body. Three things depend on the
// server: whether its template takes system messages in the middle, what it
// does with earlier thoughts, and how thinking is switched.
func plainSGLangMessages(o *object) (p Plain, why string) {
	for _, merge := range []bool{false, true} {
		for thoughts := range thoughtsWays {
			c := sglangMessages{merge: merge, thoughts: thoughts}
			chat, err := c.chat(o)
			if err != nil {
				return Plain{}, whyOf(err)
			}
			p.Shape |= c.shape
			if merge && c.shape&withInlineSystem == 0 || thoughts > 0 && c.shape&withThoughts == 0 {
				break
			}
			p.Forms = appendToggled(p.Forms, &p.Shape, o.get("thinking"), chat)
			if why := p.tooLong(); why != "" {
				return Plain{}, why
			}
		}
	}
	p.Converted = true
	return p, ""
}

// appendToggled appends a chat in each way that thinking may be switched.
func appendToggled(forms [][]byte, shape *Shape, thinking []byte, chat object) [][]byte {
	kind := memberOf(thinking, "type")
	if kind == nil {
		return append(forms, chat.bytes())
	}
	on := []byte("true")
	*shape |= withThinking
	if string(kind) == `"disabled"` {
		on = []byte("false")
		*shape |= withoutThinking
	}
	before := chat.get("chat_template_kwargs")
	for _, name := range sglangToggles {
		kwargs := object{}
		if before != nil {
			kwargs, _ = parseObject(before, 1)
		}
		if name != "" {
			kwargs.set(name, on)
		}
		if len(kwargs.members) > 0 {
			chat.set("chat_template_kwargs", kwargs.bytes())
		} else {
			chat.remove("chat_template_kwargs")
		}
		forms = append(forms, chat.bytes())
	}
	return forms
}

func (c *sglangMessages) chat(o *object) (chat object, err error) {
	if chat, err = c.read(o, c.readSystem, c.readMessage, `\n`); err != nil {
		return chat, err
	}
	// The effort is set past the code that derives from it whether to think,
	// which /tokenize runs: so it goes to the template alone.
	if effort := memberOf(o.get("output_config"), "effort"); effort != nil && !isNull(effort) {
		c.shape |= withEffort
		if string(effort) == `"xhigh"` {
			effort = []byte(`"max"`)
		}
		kwargs := object{}
		kwargs.set("reasoning_effort", effort)
		chat.set("chat_template_kwargs", kwargs.bytes())
	}
	return chat, c.readTools(&chat, o)
}

// readSystem reads the system prompt. One of white space alone is none, but
// blocks of it are some.
func (c *sglangMessages) readSystem(value []byte) error {
	switch {
	case isNone(value):
		return nil
	case isText(value):
		if strings.TrimFunc(unquote(value), isPythonSpace) != "" {
			c.system = append(c.system, value)
		}
		return nil
	case value[0] != '[':
		return unread("its system prompt is no text")
	}
	_, err := eachElement(value, 0, 2, func(value []byte) error {
		text, err := blockText(value)
		if err == nil && string(text) != `""` {
			c.system = append(c.system, text)
		}
		return err
	})
	return err
}

// isPythonSpace is what Python's strip takes away.
func isPythonSpace(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }

// stripped is a JSON string without white space around its text.
func stripped(value []byte) ([]byte, error) {
	text := unquote(value)
	short := strings.TrimFunc(text, isPythonSpace)
	if len(short) == len(text) {
		return value, nil
	}
	if strings.ContainsRune(short, unicode.ReplacementChar) {
		return nil, unread("a system message holds half a character")
	}
	return json.Marshal(short)
}

// blockText is the text of a block that must be one.
func blockText(value []byte) ([]byte, error) {
	kind, text := memberOf(value, "type"), memberOf(value, "text")
	if string(kind) != `"text"` || !isText(text) {
		return nil, unread("it holds a part of type %s where only text is read", clip(laxString(orNull(kind))))
	}
	return text, nil
}

func (c *sglangMessages) readMessage(value []byte) error {
	m, err := parseObject(value, 2)
	if err != nil {
		return err
	}
	role, content := m.get("role"), m.get("content")
	switch string(role) {
	case `"user"`, `"assistant"`:
	case `"system"`:
		c.shape |= withInlineSystem
		if c.merge {
			return c.readInline(content)
		}
	default:
		return unread("a message has a role that is not known")
	}
	out := message{role: string(role[1 : len(role)-1])}
	switch {
	case isText(content):
		out.content = content
		c.out = append(c.out, out)
		return nil
	case content == nil || content[0] != '[':
		return unread("a message has no content")
	}
	c.shape |= withBlocks
	return c.readBlocks(out, content)
}

// readInline reads a system message that goes to the front.
func (c *sglangMessages) readInline(content []byte) error {
	var texts [][]byte
	add := func(text []byte) error {
		text, err := stripped(text)
		if err == nil && string(text) != `""` {
			texts = append(texts, text)
		}
		return err
	}
	switch {
	case isText(content):
		if err := add(content); err != nil {
			return err
		}
	case content == nil || content[0] != '[':
		return unread("a message has no content")
	default:
		if _, err := eachElement(content, 0, 3, func(value []byte) error {
			text, err := blockText(value)
			if err != nil {
				return err
			}
			return add(text)
		}); err != nil {
			return err
		}
	}
	c.system = append(c.system, texts...)
	return nil
}

// readBlocks reads the content of a message. Results of tools become messages
// of their own, in their place.
func (c *sglangMessages) readBlocks(out message, content []byte) error {
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
			text, err := blockText(value)
			texts = append(texts, text)
			return err
		case `"thinking"`:
			if thought := block.get("thinking"); out.role == "assistant" && !isNone(thought) && isText(thought) {
				c.shape |= withThoughts
				thoughts = append(thoughts, thought)
			}
			return nil
		case `"tool_use"`:
			if out.role != "assistant" {
				return unread("a call of a tool is not the model's")
			}
			c.shape |= withCalls
			use, err := useOf(&block)
			out.calls = append(out.calls, use)
			return err
		case `"tool_result"`:
			if out.role != "user" {
				return unread("a result of a tool is not the user's")
			}
			if len(texts) > 0 {
				c.out = append(c.out, message{role: "user", content: parts(texts)})
				texts = nil
			}
			return c.readResult(&block)
		default:
			return unread("it holds a block of type %s", clip(laxString(orNull(kind))))
		}
	})
	if err != nil {
		return err
	}
	if len(thoughts) > 0 {
		switch thought := join(thoughts, `\n`); c.thoughts {
		case thoughtsApart:
			out.native = thought
		case thoughtsInside:
			texts = append([][]byte{join([][]byte{[]byte(`"<think>"`), thought, []byte(`"\n</think>"`)}, "")}, texts...)
		}
	}
	switch out.content = parts(texts); {
	case out.content != nil || out.calls != nil:
	case out.role == "user":
		return nil
	default:
		out.content = []byte(`""`)
	}
	c.out = append(c.out, out)
	return nil
}

func (c *sglangMessages) readResult(block *object) error {
	c.shape |= withResults
	m := message{role: "tool", callID: []byte(`""`), content: []byte(`""`)}
	for _, name := range []string{"id", "tool_use_id"} {
		if id := block.get(name); !isNone(id) && isText(id) {
			m.callID = id
		}
	}
	switch content := block.get("content"); {
	case isNone(content):
	case isText(content):
		m.content = content
	case content[0] == '[':
		var texts [][]byte
		if _, err := eachElement(content, 0, 5, func(value []byte) error {
			text, err := blockText(value)
			if err == nil && string(text) != `""` {
				texts = append(texts, text)
			}
			return err
		}); err != nil {
			return err
		}
		if len(texts) > 0 {
			m.content = parts(texts)
		}
	default:
		return unread("a result of a tool is no text")
	}
	c.out = append(c.out, m)
	return nil
}

// sglangServerTools begin the types of tools that Anthropic's servers bring:
// SGLang leaves them out.
var sglangServerTools = [][]byte{[]byte(`"web_search_`), []byte(`"computer_`), []byte(`"bash_`), []byte(`"text_editor_`)}

// readTools declares the tools as chats do, and which of them to use: that
// decides which of them the template shows.
func (c *sglangMessages) readTools(chat, o *object) error {
	choice := o.get("tool_choice")
	kind := string(memberOf(choice, "type"))
	var out [][]byte
	if o.given("tools") {
		c.shape |= withTools
		if err := eachTool(o.get("tools"), func(t *object) error {
			for _, family := range sglangServerTools {
				if bytes.HasPrefix(t.get("type"), family) {
					return nil
				}
			}
			declared, err := sglangTool(t)
			out = append(out, declared)
			return err
		}); err != nil {
			return err
		}
	}
	if len(out) > 0 {
		chat.set("tools", list(out))
	}
	switch {
	case kind == `"none"`:
		chat.set("tool_choice", []byte(`"none"`))
	case len(out) == 0:
	case kind == `"any"`:
		chat.set("tool_choice", []byte(`"required"`))
	case kind == `"tool"`:
		named, err := namedTool(memberOf(choice, "name"))
		if err != nil {
			return err
		}
		chat.set("tool_choice", named)
	}
	return nil
}

// namedTool is the choice of one tool.
func namedTool(name []byte) ([]byte, error) {
	if !isText(name) {
		return nil, unread("its tool_choice names no tool")
	}
	return append(append([]byte(`{"type":"function","function":{"name":`), name...), `}}`...), nil
}

// sglangTool is a tool of a Messages body as chats declare it.
func sglangTool(t *object) ([]byte, error) {
	schema, err := schemaOf(t)
	if err != nil {
		return nil, err
	}
	f := object{members: make([]member, 0, 4)}
	f.set("name", t.get("name"))
	f.set("description", []byte(`""`))
	if t.given("description") {
		f.set("description", t.get("description"))
	}
	f.set("parameters", schema)
	f.set("strict", []byte("false"))
	if strict := t.get("strict"); strict != nil {
		f.set("strict", strict)
	}
	out := append([]byte(`{"type":"function","function":`), f.bytes()...)
	if t.given("defer_loading") {
		out = append(append(out, `,"defer_loading":`...), t.get("defer_loading")...)
	}
	return append(out, '}'), nil
}
