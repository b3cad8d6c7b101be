package openai

import "bytes"

// Chunk is what a router looks at in one chunk of a streamed answer.
type Chunk struct {
	Done   bool   // data: [DONE]
	Token  bool   // carries generated output: the first such chunk is the first token
	Finish string // finish_reason of its last choice that has one
	Failed bool   // an error sent as an event
	Usage  Usage
	// OnlyUsage: an empty list of choices and a usage object; such a chunk
	// exists only because the request asked for usage.
	OnlyUsage bool

	// Next is the sequence_number that the event after this one has; 0: such
	// events have none.
	Next int

	// HasUsage: a usage field is there, perhaps null.
	HasUsage bool

	noChoices bool // "choices":[]
}

// ParseChunk reads the data of one event. Data that is no JSON object gives an
// empty Chunk. O(len(data)), no allocation unless a finish reason is unusual.
func ParseChunk(data []byte) Chunk {
	var c Chunk
	i := skipSpace(data, 0)
	if i == len(data) {
		return c
	}
	if data[i] != '{' {
		c.Done = string(bytes.TrimSpace(data)) == "[DONE]"
		return c
	}
	var response []byte // of the responses API, or Anthropic's message
	_, err := eachMember(data, i, 0, func(key, value []byte) error {
		switch string(key) {
		case `"choices"`:
			c.readChoices(value)
		case `"usage"`:
			c.HasUsage, c.Usage = true, readUsage(value)
		case `"error"`:
			c.Failed = !isNull(value)
		case `"type"`:
			c.readType(value)
		case `"sequence_number"`:
			if n, ok := laxCount(value); ok {
				c.Next = n + 1
			}
		case `"response"`, `"message"`:
			response = value
		case `"delta"`:
			c.readStopReason(value)
		case `"meta_info"`:
			c.Token, c.Usage = true, readUsage(value)
		}
		return nil
	})
	if err != nil {
		return Chunk{}
	}
	if response != nil && !c.Usage.Known {
		c.Usage = ParseUsage(response)
	}
	c.OnlyUsage = c.noChoices && c.Usage.Known
	return c
}

// readStopReason reads the end of an answer of Anthropic's.
func (c *Chunk) readStopReason(value []byte) {
	if value[0] != '{' {
		return
	}
	_, _ = eachMember(value, 0, 1, func(key, value []byte) error {
		if string(key) == `"stop_reason"` && value[0] == '"' {
			c.Finish = finishReason(value)
		}
		return nil
	})
}

// readType reads the event type of the responses API and of Anthropic's.
func (c *Chunk) readType(value []byte) {
	switch string(value) {
	case `"response.completed"`:
		c.Finish = "stop"
	case `"response.incomplete"`:
		c.Finish = "length"
	case `"response.failed"`, `"error"`:
		c.Failed = true
	case `"content_block_delta"`:
		c.Token = true
	case `"message_stop"`:
		c.Done = true
	default:
		c.Token = c.Token || bytes.HasPrefix(value, []byte(`"response.`)) && bytes.HasSuffix(value, []byte(`.delta"`))
	}
}

func (c *Chunk) readChoices(value []byte) {
	if value[0] != '[' {
		return
	}
	c.noChoices = true
	_, _ = eachElement(value, 0, 1, func(choice []byte) error {
		c.noChoices = false
		if choice[0] == '{' {
			_, _ = eachMember(choice, 0, 2, c.readChoice)
		}
		return nil
	})
}

func (c *Chunk) readChoice(key, value []byte) error {
	switch string(key) {
	case `"finish_reason"`:
		if value[0] == '"' {
			c.Finish, c.Token = finishReason(value), true
		}
	case `"text"`:
		c.Token = true
	case `"token_ids"`:
		c.Token = c.Token || value[0] == '[' && value[skipSpace(value, 1)] != ']'
	case `"delta"`:
		if value[0] == '{' {
			c.Token = c.Token || deltaHasToken(value)
		}
	}
	return nil
}

// deltaHasToken tells a delta with output from the one that opens an answer
// and says only who speaks. An empty text without a role counts: the token
// was part of a character.
func deltaHasToken(delta []byte) bool {
	role, filled, fields := false, false, false
	_, _ = eachMember(delta, 0, 3, func(key, value []byte) error {
		switch {
		case string(key) == `"role"`:
			role = true
		case isNull(value) || string(value) == `""` || string(value) == `[]`:
			fields = true
		default:
			filled = true
		}
		return nil
	})
	return filled || fields && !role
}

// finishReasons are those of the APIs.
var finishReasons = []string{
	"stop", "length", "tool_calls", "abort", "end_turn", "tool_use", "function_call", "content_filter", "error",
	"max_tokens", "stop_sequence", "pause_turn", "refusal", "model_context_window_exceeded",
}

// finishReason reads a reason, which is told in traces: "other" if it is none of
// the APIs', for then it may be any text.
func finishReason(raw []byte) string {
	for _, known := range finishReasons {
		if len(raw) == len(known)+2 && string(raw[1:len(raw)-1]) == known {
			return known
		}
	}
	return "other"
}

// AppendWithoutUsage appends the event's raw bytes without the top-level usage
// field of its data; unchanged if it has none, or lies on several data lines.
func AppendWithoutUsage(dst []byte, event Event) []byte {
	offset := bytes.Index(event.Raw, event.Data)
	start, end := memberSpan(event.Data, `"usage"`)
	if offset < 0 || start == end {
		return append(dst, event.Raw...)
	}
	dst = append(dst, event.Raw[:offset+start]...)
	return append(dst, event.Raw[offset+end:]...)
}

// memberSpan is what to cut from a checked object to remove a field: the field
// and one comma. key is quoted. An empty span means that there is none.
func memberSpan(object []byte, key string) (start, end int) {
	i := skipSpace(object, 0)
	comma := -1 // the comma before the current field
	for i = skipSpace(object, i+1); i < len(object) && object[i] == '"'; {
		keyStart := i
		keyEnd, _ := skipString(object, i)
		i = skipSpace(object, keyEnd) + 1 // the colon
		i, _ = skipValue(object, skipSpace(object, i), 1)
		next := skipSpace(object, i)
		found := string(object[keyStart:keyEnd]) == key
		last := next >= len(object) || object[next] != ','
		switch {
		case found && comma >= 0:
			return comma, i
		case found && last:
			return keyStart, i
		case found:
			return keyStart, skipSpace(object, next+1)
		case last:
			return 0, 0
		}
		comma = next
		i = skipSpace(object, next+1)
	}
	return 0, 0
}
