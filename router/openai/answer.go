package openai

import "bytes"

// Wrong says what is wrong with an answer of status 200; a closed list.
type Wrong string

// What can be wrong with an answer.
const (
	WrongNothing    Wrong = ""
	WrongEmpty      Wrong = "no body"
	WrongContent    Wrong = "neither JSON nor an event stream"
	WrongChoices    Wrong = "no choices"
	WrongEvent      Wrong = "events that are no JSON"
	WrongNoToken    Wrong = "a stream without a token"
	WrongUnfinished Wrong = "a stream without its end"
)

// generates reports whether a model writes the endpoint's answers: those are JSON
// or events. Embeddings may be plain bytes.
func (e Endpoint) generates() bool {
	switch e {
	case Chat, Completions, Responses, Messages, Generate, SGLGenerate:
		return true
	}
	return false
}

// Ends reports whether a stream of the endpoint says where it ends: by a finish
// reason, an event of its own or [DONE].
func (e Endpoint) Ends() bool {
	return e == Chat || e == Completions || e == Responses || e == Messages
}

// Begins says what is wrong with an answer of status 200 that begins with first
// (all of it, if whole). It goes by the bytes: engines behind a proxy may name
// another content type. O(len(first)), no allocation.
func (e Endpoint) Begins(first []byte, whole bool) Wrong {
	if !e.generates() {
		return WrongNothing
	}
	text := bytes.TrimLeft(first, "\ufeff \t\r\n")
	switch {
	case len(text) == 0 && whole:
		return WrongEmpty
	case len(text) == 0:
		return WrongNothing
	case text[0] == '{' || text[0] == '[':
		if whole {
			return e.Whole(text)
		}
		return WrongNothing
	case !beginsEvent(text):
		return WrongContent
	}
	var wrong Wrong
	first, ended := bytes.CutSuffix(firstEvent(text), []byte("\n\n"))
	if ended {
		var s Scanner
		s.finish(first, func(ev Event) { wrong = ev.Wrong() })
	}
	return wrong
}

// firstEvent is text up to the end of its first event; all of it if that has not
// come.
func firstEvent(text []byte) []byte {
	if end := bytes.Index(text, []byte("\n\n")); end >= 0 {
		return text[:end+2]
	}
	return text
}

// eventFields begin the lines of an event stream.
var eventFields = [][]byte{[]byte("data:"), []byte("event:"), []byte("id:"), []byte("retry:"), []byte(":")}

// beginsEvent reports whether text may be the begin of an event stream.
func beginsEvent(text []byte) bool {
	for _, field := range eventFields {
		if n := min(len(field), len(text)); bytes.Equal(text[:n], field[:n]) {
			return true
		}
	}
	return false
}

// Whole says what is wrong with a whole answer of status 200.
func (e Endpoint) Whole(body []byte) Wrong {
	if e != Chat && e != Completions {
		return WrongNothing
	}
	i := skipSpace(body, 0)
	if i == len(body) || body[i] != '{' {
		return WrongChoices
	}
	wrong := WrongChoices
	_, err := eachMember(body, i, 0, func(key, value []byte) error {
		if string(key) == `"choices"` && value[0] == '[' && value[skipSpace(value, 1)] != ']' {
			wrong = WrongNothing
		}
		return nil
	})
	if err != nil {
		return WrongContent
	}
	return wrong
}

// Wrong says what is wrong with an event's data: every API sends JSON objects, and
// [DONE] at the end.
func (e *Event) Wrong() Wrong {
	data := bytes.TrimSpace(e.Data)
	if len(data) == 0 || data[0] == '{' || string(data) == "[DONE]" {
		return WrongNothing
	}
	return WrongEvent
}
