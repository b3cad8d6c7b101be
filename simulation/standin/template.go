package standin

import (
	"encoding/json"
	"fmt"
)

// message is one chat message as a client sends it.
type message struct {
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	ToolCalls json.RawMessage `json:"tool_calls"`
}

// part is one piece of structured content.
type part struct {
	Type     string          `json:"type"`
	Text     string          `json:"text"`
	ImageURL json.RawMessage `json:"image_url"`
}

var roleTokens = map[string]uint32{
	"system": tokenSystem, "developer": tokenSystem, "user": tokenUser,
	"assistant": tokenAssistant, "tool": tokenTool,
}

// renderChat is the chat template: a marker, the content and an end mark for
// each message, then the assistant's marker. It only ever appends: with the
// answer as the next assistant message, the earlier prompt and the generated
// tokens are a prefix of the new prompt. I3.
func renderChat(messages []message, tools json.RawMessage) ([]uint32, error) {
	if len(messages) == 0 {
		return nil, badParam("messages", "messages must not be empty")
	}
	out := []uint32{tokenBOS}
	if len(tools) > 0 && string(tools) != "null" {
		out = append(appendText(append(out, tokenTools), string(tools)), tokenEnd)
	}
	for i, m := range messages {
		marker, ok := roleTokens[m.Role]
		if !ok {
			return nil, badParam("messages", fmt.Sprintf("messages[%d]: unknown role %q", i, m.Role))
		}
		var err error
		if out, err = appendContent(append(out, marker), m.Content); err != nil {
			return nil, badParam("messages", fmt.Sprintf("messages[%d]: %v", i, err))
		}
		if len(m.ToolCalls) > 0 && string(m.ToolCalls) != "null" {
			out = appendText(append(out, tokenTools), string(m.ToolCalls))
		}
		out = append(out, tokenEnd)
	}
	return append(out, tokenAssistant), nil
}

// appendContent appends content: null, a string or a list of parts. An image
// is one marker and tokens of its address.
func appendContent(dst []uint32, raw json.RawMessage) ([]uint32, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return dst, nil
	}
	var text string
	if err := json.Unmarshal(raw, &text); err == nil {
		return appendText(dst, text), nil
	}
	var parts []part
	if err := json.Unmarshal(raw, &parts); err != nil {
		return nil, fmt.Errorf("content is neither text nor a list of parts")
	}
	for _, p := range parts {
		if p.Type == "text" || p.Type == "input_text" || p.Type == "output_text" {
			dst = appendText(dst, p.Text)
			continue
		}
		dst = appendText(append(dst, tokenImage), string(p.ImageURL))
	}
	return dst, nil
}
