package openai

import (
	"bytes"
	"math"
	"slices"
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

// promptFields are the fields with the prompt, by endpoint. What pairs hold
// besides the first of each pair follows it in the canonical text.
var promptFields = [endpoints][]string{
	Completions: {"prompt"}, Tokenize: {"prompt"}, Embeddings: {"input"}, Responses: {"input"},
	Classify: {"input"}, Pooling: {"input"}, Generate: {"token_ids"}, SGLGenerate: {"text", "input_ids"},
	Rerank: {"query"}, Score: {"queries", "data_1", "text_1"},
}

// readPrompt reads a field that is a prompt in a form that a router knows;
// other forms leave no prompt, and the engine judges them.
func (r *Request) readPrompt(m *member) {
	if !slices.Contains(promptFields[r.Endpoint], m.name) {
		return
	}
	p := Prompt{}
	switch m.value[0] {
	case '"':
		p.Kind, p.Count, p.Text = TextPrompt, 1, unquote(m.value)
		p.Size = len(p.Text)
	case '[':
		if !p.readList(m.value, r.Endpoint) {
			return
		}
	default:
		return
	}
	r.Prompt = p
}

// readList reads a list by the type of its first element, which all others
// must share.
func (p *Prompt) readList(list []byte, endpoint Endpoint) bool {
	switch c := list[skipSpace(list, 1)]; {
	case c == ']':
		return false
	case endpoint == Responses || c == '{' && endpoint != Completions:
		p.Kind, p.Count, p.Items, p.Size = ItemsPrompt, 1, list, len(list)
		return true
	case c == '-' || c-'0' < 10:
		p.Kind, p.Count = TokenPrompt, 1
		var ok bool
		p.Tokens, ok = readTokens(list)
		p.Size = len(p.Tokens)
		return ok
	case c == '"':
		p.Kind = TextPrompt
		return p.readBatch(list, p.addText)
	case c == '[':
		p.Kind = TokenPrompt
		return p.readBatch(list, p.addTokens)
	}
	return false
}

func (p *Prompt) readBatch(list []byte, add func(value []byte) bool) bool {
	_, err := eachElement(list, 0, 1, func(value []byte) error {
		if p.Count++; !add(value) {
			return errShort
		}
		return nil
	})
	return err == nil
}

func (p *Prompt) addText(value []byte) bool {
	if value[0] != '"' {
		return false
	}
	p.Size += len(value) - 2
	if p.Count == 1 {
		p.Text = unquote(value)
	}
	return true
}

func (p *Prompt) addTokens(value []byte) bool {
	if value[0] != '[' {
		return false
	}
	tokens, ok := readTokens(value)
	p.Size += len(tokens)
	if p.Count == 1 {
		p.Tokens = tokens
	}
	return ok
}

// readTokens reads a checked JSON array of integers from 0 to 2^32-1; ok is
// false if anything else is in it.
func readTokens(value []byte) (tokens []uint32, ok bool) {
	tokens = make([]uint32, 0, bytes.Count(value, []byte{','})+1)
	for i := skipSpace(value, 1); value[i] != ']'; {
		var id uint64
		start := i
		for ; value[i]-'0' < 10; i++ {
			if id = id*10 + uint64(value[i]-'0'); id > math.MaxUint32 {
				return nil, false
			}
		}
		if value[i] == '.' { // 5.0 is an integer to pydantic
			for i++; value[i] == '0'; i++ {
			}
		}
		if i == start || !endsElement(value[i]) {
			return nil, false
		}
		tokens = append(tokens, uint32(id))
		if i = skipSpace(value, i); value[i] == ',' {
			i = skipSpace(value, i+1)
		}
	}
	return tokens, true
}

// endsElement reports whether c may follow an array's element.
func endsElement(c byte) bool {
	return c == ',' || c == ']' || c == ' ' || c == '\n' || c == '\r' || c == '\t'
}
