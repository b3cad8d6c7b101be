package openai

import "errors"

// Continues reports whether the request goes on with a conversation: an answer
// of the model's stands in it, or in what it refers to. O(body); call it where
// that matters.
func (r *Request) Continues() bool {
	list := r.Messages
	if list == nil && r.Endpoint == Responses {
		list = r.Prompt.Items
	}
	if r.Previous != "" || list == nil {
		return r.Previous != ""
	}
	_, err := eachElement(list, 0, 1, func(value []byte) error {
		if value[0] != '{' {
			return nil
		}
		if string(memberOf(value, "role")) == `"assistant"` || string(memberOf(value, "type")) == `"function_call"` {
			return errAnswered
		}
		return nil
	})
	return errors.Is(err, errAnswered)
}

var errAnswered = errors.New("the model has answered")
