package openai

import "slices"

// Bytes that never occur in UTF-8 mark the structure of canonical text, so
// that no text can imitate it.
const (
	markTools   = 0xF8
	markMessage = 0xF9
	markField   = 0xFA
	markList    = 0xFB
	markObject  = 0xFC
	markEnd     = 0xFD
	markScalar  = 0xFE
	markComma   = 0xFF
)

// AppendCanonical appends the prompt as text for text-mode block keys: tools,
// then the system prompt, then messages with their roles, or the first text
// prompt as it is. Model, adapter and salt are not in it: they are the
// namespace. O(size of prompt).
func (r *Request) AppendCanonical(dst []byte) []byte {
	if r.Tools != nil {
		dst = appendValue(append(dst, markTools), r.Tools)
	}
	switch {
	case r.System != nil:
		dst = appendValue(append(dst, markMessage), r.System)
	case r.Endpoint == Responses:
		if instructions := r.body.get("instructions"); instructions != nil && !isNull(instructions) {
			dst = appendValue(append(dst, markMessage), instructions)
		}
	}
	switch {
	case r.Messages != nil:
		return appendMessages(dst, r.Messages)
	case r.Prompt.Kind == TextPrompt && r.Endpoint == Responses:
		// A text is short for one message of the user's, and the next turn
		// spells it so.
		dst = append(append(dst, markMessage, markField), "user"...)
		return append(append(dst, markField), r.Prompt.Text...)
	case r.Prompt.Kind == TextPrompt:
		dst = append(dst, r.Prompt.Text...)
	case r.Prompt.Kind == ItemsPrompt:
		return appendMessages(dst, r.Prompt.Items)
	}
	return r.appendSecond(dst)
}

// seconds are the other halves of the pairs that rerank and score compare.
var seconds = []string{"documents", "items", "data_2", "text_2"}

// appendSecond appends what is compared with the first text.
func (r *Request) appendSecond(dst []byte) []byte {
	if r.Endpoint != Rerank && r.Endpoint != Score {
		return dst
	}
	for _, name := range seconds {
		if value := r.body.get(name); value != nil {
			return appendValue(append(dst, markField), value)
		}
	}
	return dst
}

// leading are the fields of a message that come first, in this order, wherever
// the client put them.
var leading = []string{"role", "name", "content"}

// appendMessages writes every message whole before the next, so that a longer
// conversation has the shorter one as its prefix (I5).
func appendMessages(dst, messages []byte) []byte {
	_, _ = eachElement(messages, 0, 1, func(value []byte) error {
		dst = append(dst, markMessage)
		if value[0] == '{' {
			dst = appendMessage(dst, value)
		} else {
			dst = appendValue(dst, value)
		}
		return nil
	})
	return dst
}

// leadingIndex is the place of a key among the leading fields, or -1.
func leadingIndex(key []byte) int {
	for i, name := range leading {
		if string(key[1:len(key)-1]) == name {
			return i
		}
	}
	if skipPlain(key, 1) == len(key)-1 {
		return -1
	}
	return slices.Index(leading, unquote(key)) // escapes: seldom
}

func appendMessage(dst, message []byte) []byte {
	var first [3][]byte
	_, _ = eachMember(message, 0, 2, func(key, value []byte) error {
		if i := leadingIndex(key); i >= 0 {
			first[i] = value
		}
		return nil
	})
	for _, value := range first {
		if value != nil && !isNull(value) {
			dst = appendValue(append(dst, markField), value)
		}
	}
	_, _ = eachMember(message, 0, 2, func(key, value []byte) error {
		if leadingIndex(key) < 0 && !isNull(value) {
			dst = appendUnquoted(append(dst, markField), key)
			dst = appendValue(append(dst, markField), value)
		}
		return nil
	})
	return dst
}

// appendValue writes any checked value in one flat pass: strings as their
// text, the rest with marks; white space and escapes are gone.
func appendValue(dst, value []byte) []byte {
	for i := 0; i < len(value); {
		switch c := value[i]; c {
		case ' ', '\n', '\r', '\t':
			i++
		case '"':
			end, _ := skipString(value, i)
			dst = appendUnquoted(dst, value[i:end])
			i = end
		case ',', ':', '[', '{', ']', '}':
			dst = append(dst, marks[c])
			i++
		default:
			dst = append(dst, markScalar)
			for ; i < len(value) && !endsElement(value[i]) && value[i] != '}'; i++ {
				dst = append(dst, value[i])
			}
		}
	}
	return dst
}

// marks stand for the punctuation of JSON.
var marks = [256]byte{
	',': markComma, ':': markField, '[': markList, '{': markObject, ']': markEnd, '}': markEnd,
}
