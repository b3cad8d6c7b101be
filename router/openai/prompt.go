package openai

import (
	"bytes"
	"math"
)

// PromptKind says in which of its forms a prompt came.
type PromptKind uint8

// The forms of a prompt. A batch is known by Count > 1.
const (
	NoPrompt    PromptKind = iota
	TextPrompt             // a string, or a list of them
	TokenPrompt            // a list of token ids, or a list of lists
	ItemsPrompt            // responses: a list of input items
)

// Prompt is the first prompt of a body and how many there are. Only the first
// is decoded: a batch is routed by it.
type Prompt struct {
	Kind   PromptKind
	Count  int      // prompts in the body
	Text   string   // first text
	Tokens []uint32 // first token ids
	Items  []byte   // raw items
	// Size is text bytes or token ids over all prompts of the body.
	Size int
}

// maxPrompts bounds a batch. OpenAI allows 2,048.
const maxPrompts = 4096

// readPrompt reads the field prompt, or input of the other endpoints.
func (r *Request) readPrompt(m *member) error {
	if (m.name == "prompt") != (r.Endpoint == Completions || r.Endpoint == Tokenize) {
		return nil
	}
	p := &r.Prompt
	switch m.value[0] {
	case '"':
		p.Kind, p.Count, p.Text = TextPrompt, 1, unquote(m.value)
		p.Size = len(p.Text)
		return nil
	case '[':
		return p.readList(m, r.Endpoint)
	}
	if r.Endpoint == Embeddings {
		return nil // multimodal forms differ by engine; it will judge
	}
	return Invalid(m.name, "must be a string or an array")
}

// readList reads a list by the type of its first element, which all others
// must share.
func (p *Prompt) readList(m *member, endpoint Endpoint) error {
	body := m.value[skipSpace(m.value, 1):]
	switch c := body[0]; {
	case c == ']':
		return Invalid(m.name, "must not be empty")
	case endpoint == Responses || endpoint == Embeddings && c == '{':
		p.Kind, p.Count, p.Items, p.Size = ItemsPrompt, 1, m.value, len(m.value)
		return nil
	case c == '-' || c-'0' < 10:
		p.Kind, p.Count = TokenPrompt, 1
		var err error
		p.Tokens, err = readTokens(m.name, m.value)
		p.Size = len(p.Tokens)
		return err
	case c == '"':
		p.Kind = TextPrompt
		return p.readBatch(m, p.addText)
	case c == '[':
		p.Kind = TokenPrompt
		return p.readBatch(m, p.addTokens)
	}
	return Invalid(m.name, "must be an array of strings, of token ids or of arrays of token ids")
}

func (p *Prompt) readBatch(m *member, add func(name string, value []byte) error) error {
	_, err := eachElement(m.value, 0, 1, func(value []byte) error {
		if p.Count == maxPrompts {
			return Invalid(m.name, "has too many prompts")
		}
		p.Count++
		return add(m.name, value)
	})
	if err != nil {
		return asInvalid(m.name, "", err)
	}
	return nil
}

func (p *Prompt) addText(name string, value []byte) error {
	if value[0] != '"' {
		return Invalid(name, "must hold strings only")
	}
	p.Size += len(value) - 2
	if p.Count == 1 {
		p.Text = unquote(value)
	}
	return nil
}

func (p *Prompt) addTokens(name string, value []byte) error {
	if value[0] != '[' {
		return Invalid(name, "must hold arrays of token ids only")
	}
	tokens, err := readTokens(name, value)
	if err != nil {
		return err
	}
	p.Size += len(tokens)
	if p.Count == 1 {
		p.Tokens = tokens
	}
	return nil
}

// readTokens reads a checked JSON array of integers from 0 to 2^32-1.
func readTokens(name string, value []byte) ([]uint32, error) {
	tokens := make([]uint32, 0, bytes.Count(value, []byte{','})+1)
	for i := skipSpace(value, 1); value[i] != ']'; {
		var id uint64
		start := i
		for ; value[i]-'0' < 10; i++ {
			if id = id*10 + uint64(value[i]-'0'); id > math.MaxUint32 {
				return nil, Invalid(name, "has a token id over 4294967295")
			}
		}
		if i == start || !endsElement(value[i]) {
			return nil, Invalid(name, "must hold token ids (integers from 0) only")
		}
		tokens = append(tokens, uint32(id))
		if i = skipSpace(value, i); value[i] == ',' {
			i = skipSpace(value, i+1)
		}
	}
	return tokens, nil
}

// endsElement reports whether c may follow an array's element.
func endsElement(c byte) bool {
	return c == ',' || c == ']' || c == ' ' || c == '\n' || c == '\r' || c == '\t'
}
