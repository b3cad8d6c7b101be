package openai

import (
	"bytes"
	"slices"
)

// Plain is a prompt as an engine's tokenizer endpoint takes it.
type Plain struct {
	// Forms are what the engine may make of the prompt, the likeliest first.
	// There are several where that depends on how the server was started.
	Forms [][]byte
	// Converted is set if the router rewrote the prompt as the engine's own code
	// does: a conversion of another release may differ.
	Converted bool
	// Shape is a set of what the conversion made use of. One that was right for a
	// prompt is taken to be right for others of its shape.
	Shape Shape
	// Twin is the prompt with a mark where the engine's order of fields is another
	// one than the endpoint's. If its tokens are the same the order does not
	// matter; else the prompt cannot be asked for. nil: no order is in doubt.
	Twin []byte
	// Trial tells which form is right where the engine cannot count the request
	// itself; nil: it can, or there is one form.
	Trial *Trial
	Cut   *Cut // nil: all tokens count
}

// Trial is a Messages body that an engine can count, and what it may make of
// it: the form that is right for it is right for the prompt.
type Trial struct {
	Body  []byte
	Forms [][]byte
}

// Cut is how an engine shortens a prompt.
type Cut struct {
	Keep  int  // tokens; -1: as many as the model takes
	First bool // the first ones stay, not the last
	// Bare asks for the prompt without special tokens, which stay whatever is cut;
	// nil: they are cut like all others.
	Bare []byte
}

// maxFormBytes bounds the forms of one prompt together: several of one near the
// limit of bodies would take many times its memory.
const maxFormBytes = 32 << 20

// tooLong says so of a prompt whose forms would be more than that.
func (p *Plain) tooLong() string {
	if n := len(p.Forms); n > 1 && n*len(p.Forms[0]) > maxFormBytes {
		return "it is too long to be asked for in several forms"
	}
	return ""
}

// hideTools adds the form without tools, and a trial that tells whether a vLLM
// shows tools to a client that may use none: --exclude-tools-when-tool-choice-none.
func (p *Plain) hideTools(model []byte) {
	bare, err := parseObject(p.Forms[0], 0)
	if err != nil {
		return
	}
	bare.remove("tools")
	o := object{}
	if model != nil {
		o.set("model", model)
	}
	o.set("messages", []byte(`[{"role":"user","content":"Hello."}]`))
	o.set("tools", []byte(`[{"name":"look","description":"Looks.","input_schema":{"type":"object","properties":{}}}]`))
	o.set("tool_choice", []byte(`{"type":"none"}`))
	asked, _ := plainMessages(&o)
	p.Forms = append(p.Forms, bare.bytes())
	p.Trial = &Trial{Body: o.bytes(), Forms: asked.Forms}
	p.Shape |= withHiddenTools
}

// Shape is a set of the parts of a prompt that a conversion rewrote.
type Shape uint16

// What conversions rewrite.
const (
	withSystem Shape = 1 << iota
	withBlocks
	withInlineSystem
	withThoughts
	withCalls
	withResults
	withTools
	withEffort
	withoutThinking
	withPartial
	withThinking
	withHiddenTools
)

// message is one of a chat under construction; all values are raw JSON.
type message struct {
	role      string
	content   []byte // nil: none
	reasoning []byte
	native    []byte // reasoning, by the name that SGLang gives it
	calls     [][]byte
	callID    []byte // which call it answers
}

// appendChat writes messages as the list of a chat.
func appendChat(dst []byte, messages []message) []byte {
	dst = append(dst, '[')
	for i := range messages {
		m := &messages[i]
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, `{"role":"`...), m.role...), '"')
		if m.callID != nil {
			dst = append(append(dst, `,"tool_call_id":`...), m.callID...)
		}
		if m.reasoning != nil {
			dst = append(append(dst, `,"reasoning":`...), m.reasoning...)
		}
		if m.native != nil {
			dst = append(append(dst, `,"reasoning_content":`...), m.native...)
		}
		if m.content != nil {
			dst = append(append(dst, `,"content":`...), m.content...)
		}
		if m.calls != nil {
			dst = append(append(append(dst, `,"tool_calls":[`...), bytes.Join(m.calls, []byte{','})...), ']')
		}
		dst = append(dst, '}')
	}
	return append(dst, ']')
}

// mark is a field of a function that no template asks for: only one that writes
// the whole function shows it.
const mark = `,"banyan":0`

// call is a tool call; all arguments are raw JSON strings.
func call(id, name, arguments []byte) []byte {
	out := make([]byte, 0, len(id)+len(name)+len(arguments)+64)
	out = append(append(out, `{"id":`...), id...)
	out = append(append(out, `,"type":"function","function":{"name":`...), name...)
	return append(append(append(out, `,"arguments":`...), arguments...), `}}`...)
}

// marked are the messages with a mark in each call.
func marked(messages []message) []message {
	out := slices.Clone(messages)
	for i := range out {
		calls := make([][]byte, len(out[i].calls))
		for j, c := range out[i].calls {
			calls[j] = slices.Concat(c[:len(c)-2], []byte(mark+`}}`))
		}
		if len(calls) > 0 {
			out[i].calls = calls
		}
	}
	return out
}

// tool is a function as chats declare it, of an object with the same members
// but for the name of its parameters.
func tool(o *object, parameters []byte) []byte {
	f := object{members: make([]member, 0, 5)}
	for _, name := range []string{"name", "description"} {
		if o.given(name) {
			f.set(name, o.get(name))
		}
	}
	if parameters != nil {
		f.set("parameters", parameters)
	}
	for _, name := range []string{"strict", "defer_loading"} {
		if o.given(name) {
			f.set(name, o.get(name))
		}
	}
	return append(append([]byte(`{"type":"function","function":`), f.bytes()...), '}')
}

// eachTool reads a list of tools.
func eachTool(tools []byte, read func(o *object) error) error {
	if tools[0] != '[' {
		return unread("its tools are no list")
	}
	_, err := eachElement(tools, 0, 1, func(value []byte) error {
		o, err := parseObject(value, 2)
		if err != nil {
			return err
		}
		return read(&o)
	})
	return err
}

// systemMessage is a message of the system's.
func systemMessage(content []byte) message { return message{role: "system", content: content} }

// list writes raw values as an array.
func list(values [][]byte) []byte {
	return append(append([]byte{'['}, bytes.Join(values, []byte{','})...), ']')
}

// textPart is a content part of a text, a raw JSON string.
func textPart(text []byte) []byte {
	return append(append([]byte(`{"type":"text","text":`), text...), '}')
}

// partsOf is content of texts as a list of parts.
func partsOf(texts [][]byte) []byte {
	out := make([][]byte, len(texts))
	for i, text := range texts {
		out[i] = textPart(text)
	}
	return list(out)
}

// parts is content of texts: one is a text, several are a list, none is nil.
func parts(texts [][]byte) []byte {
	switch len(texts) {
	case 0:
		return nil
	case 1:
		return texts[0]
	}
	return partsOf(texts)
}

// join is one JSON string of several, put together as they are: escapes end
// within their string.
func join(texts [][]byte, between string) []byte {
	out := []byte{'"'}
	for i, text := range texts {
		if i > 0 {
			out = append(out, between...)
		}
		out = append(out, text[1:len(text)-1]...)
	}
	return append(out, '"')
}

// isText reports whether a value is a string, and isNone whether it is not
// there, null or an empty string.
func isText(value []byte) bool { return value != nil && value[0] == '"' }
func isNone(value []byte) bool { return value == nil || isNull(value) || string(value) == `""` }

// quote makes a JSON string of text that is JSON already.
func quote(text []byte) []byte {
	out := append(make([]byte, 0, len(text)+16), '"')
	for _, c := range text {
		switch c {
		case '"', '\\':
			out = append(out, '\\', c)
		case '\n', '\r', '\t': // white space between values
			out = append(out, ' ')
		default:
			out = append(out, c)
		}
	}
	return append(out, '"')
}
