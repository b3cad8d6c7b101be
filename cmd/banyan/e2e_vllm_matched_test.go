//go:build e2e && e2e_vllm && linux

package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// vllmCase is a prompt as one API takes it.
type vllmCase struct {
	name, path string
	body       func(w *vllmWorld) object
}

var vllmCases = []vllmCase{
	{"completions, text", "/v1/completions", func(w *vllmWorld) object {
		return object{"model": "tiny", "prompt": w.text(60), "max_tokens": 4}
	}},
	{"completions, ids", "/v1/completions", func(w *vllmWorld) object {
		return object{"model": "tiny", "prompt": w.ids(333), "max_tokens": 4}
	}},
	{"completions, ids, whole pages", "/v1/completions", func(w *vllmWorld) object {
		return object{"model": "tiny", "prompt": w.ids(8 * vllmPage), "max_tokens": 1}
	}},
	{"completions, truncated", "/v1/completions", func(w *vllmWorld) object {
		return object{"model": "tiny", "prompt": w.text(60), "max_tokens": 4, "truncate_prompt_tokens": 200}
	}},
	{"completions, truncated on the right", "/v1/completions", func(w *vllmWorld) object {
		return object{"model": "tiny", "prompt": w.text(60), "max_tokens": 4, "truncate_prompt_tokens": 200, "truncation_side": "right"}
	}},
	{"completions, ids, truncated", "/v1/completions", func(w *vllmWorld) object {
		return object{"model": "tiny", "prompt": w.ids(400), "max_tokens": 4, "truncate_prompt_tokens": 150}
	}},
	{"completions, ids, truncated on the right", "/v1/completions", func(w *vllmWorld) object {
		return object{"model": "tiny", "prompt": w.ids(400), "max_tokens": 4, "truncate_prompt_tokens": 150, "truncation_side": "right"}
	}},
	{"completions, cache_salt", "/v1/completions", func(w *vllmWorld) object {
		return object{"model": "tiny", "prompt": w.text(60), "max_tokens": 4, "cache_salt": "red"}
	}},
	{"completions, LoRA", "/v1/completions", func(w *vllmWorld) object {
		return object{"model": "lora", "prompt": w.text(60), "max_tokens": 4}
	}},
	{"chat", "/v1/chat/completions", func(w *vllmWorld) object {
		return w.chat(say("system", w.text(40)), say("user", "What then? Übrigens: 你好 🙂"))
	}},
	{"chat, parts", "/v1/chat/completions", func(w *vllmWorld) object {
		return w.chat(say("user", []object{{"type": "text", "text": w.text(40)}, {"type": "text", "text": "And so on."}}))
	}},
	{"chat, tools and their results", "/v1/chat/completions", func(w *vllmWorld) object {
		call := object{"role": "assistant", "content": "", "tool_calls": []object{{
			"id": "c1", "type": "function", "function": object{"name": "weather", "arguments": `{"place": "Köln", "days": 2}`},
		}}}
		return w.with(w.chat(say("system", w.text(40)), say("user", "Weather?"), call, object{"role": "tool", "tool_call_id": "c1", "content": "rain"}),
			"tools", []object{weatherTool})
	}},
	{"chat, template kwargs", "/v1/chat/completions", func(w *vllmWorld) object {
		return w.with(w.chat(say("user", w.text(40))), "chat_template_kwargs", object{"enable_thinking": false})
	}},
	{"chat, cache_salt", "/v1/chat/completions", func(w *vllmWorld) object {
		return w.with(w.chat(say("user", w.text(40))), "cache_salt", "blue")
	}},
	{"chat, truncated", "/v1/chat/completions", func(w *vllmWorld) object {
		return w.with(w.chat(say("user", w.text(40))), "truncate_prompt_tokens", 200)
	}},
	{"chat, LoRA", "/v1/chat/completions", func(w *vllmWorld) object {
		return w.with(w.chat(say("user", w.text(40))), "model", "lora")
	}},
	{"chat, tools that may not be used", "/v1/chat/completions", func(w *vllmWorld) object {
		return w.with(w.with(w.chat(say("system", w.text(40)), say("user", "Weather?")), "tools", []object{weatherTool}), "tool_choice", "none")
	}},
	{"messages, tools that may not be used", "/v1/messages", func(w *vllmWorld) object {
		return object{
			"model": "tiny", "max_tokens": 4, "system": w.text(40), "messages": []object{say("user", "Weather?")}, "tool_choice": object{"type": "none"},
			"tools": []object{{"name": "weather", "description": "Tells it.", "input_schema": object{"type": "object", "properties": object{"place": object{"type": "string"}}}}},
		}
	}},
	{"responses, tools that may not be used", "/v1/responses", func(w *vllmWorld) object {
		return object{
			"model": "tiny", "max_output_tokens": 4, "instructions": w.text(40), "input": "Weather?", "tool_choice": "none",
			"tools": []object{{"type": "function", "name": "weather", "parameters": object{"type": "object", "properties": object{"place": object{"type": "string"}}}}},
		}
	}},
	{"messages", "/v1/messages", func(w *vllmWorld) object {
		return object{"model": "tiny", "max_tokens": 4, "system": w.text(40), "messages": []object{say("user", "Hello.")}}
	}},
	{"messages, blocks and tools", "/v1/messages", func(w *vllmWorld) object {
		return object{
			"model": "tiny", "max_tokens": 4,
			"system": []object{{"type": "text", "text": w.text(40), "cache_control": object{"type": "ephemeral"}}},
			"tools":  []object{{"name": "weather", "description": "Tells it.", "input_schema": object{"type": "object", "properties": object{"place": object{"type": "string"}}}}},
			"messages": []object{
				say("user", []object{{"type": "text", "text": "Weather?"}}),
				say("assistant", []object{{"type": "text", "text": "I look."}, {"type": "tool_use", "id": "t1", "name": "weather", "input": object{"place": "Köln"}}}),
				say("user", []object{{"type": "tool_result", "tool_use_id": "t1", "content": "rain"}}),
			},
		}
	}},
	{"messages, as of a coding agent", "/v1/messages", func(w *vllmWorld) object {
		return object{
			"model": "tiny", "max_tokens": 4, "stream": false, "metadata": object{"user_id": "u"},
			"thinking": object{"type": "adaptive"}, "output_config": object{"effort": "high"},
			"system": []object{
				{"type": "text", "text": fmt.Sprintf("x-anthropic-billing-header: cc_version=2; cch=%d;", w.serial)},
				{"type": "text", "text": w.text(30), "cache_control": object{"type": "ephemeral"}},
				{"type": "text", "text": "Be brief: \"ja\"."},
			},
			"tools": []object{{"name": "read", "input_schema": object{"properties": object{"path": object{"type": "string"}}}}},
			"messages": []object{
				say("user", []object{{"type": "text", "text": "<system-reminder>x</system-reminder>"}, {"type": "text", "text": "Read it."}}),
				say("assistant", []object{
					{"type": "thinking", "thinking": "I should.", "signature": "s"},
					{"type": "text", "text": "Yes.\n"},
					{"type": "tool_use", "id": "t1", "name": "read", "input": object{"path": "C:\\ü\"\n", "deep": object{"list": []any{1, 2.5, nil, true}}}},
					{"type": "tool_use", "id": "t2", "name": "read", "input": object{}},
				}),
				say("user", []object{
					{"type": "tool_result", "tool_use_id": "t1", "content": []object{{"type": "text", "text": "one"}, {"type": "text", "text": "two 🙂"}}},
					{"type": "tool_result", "tool_use_id": "t2", "content": "", "is_error": true},
					{"type": "text", "text": "Go on."},
				}),
				say("system", "The date changed."),
				say("user", "And now?"),
			},
		}
	}},
	{"messages, no thinking", "/v1/messages", func(w *vllmWorld) object {
		return object{"model": "tiny", "max_tokens": 4, "system": w.text(40), "messages": []object{say("user", "Hello.")}, "thinking": object{"type": "disabled"}}
	}},
	{"responses", "/v1/responses", func(w *vllmWorld) object {
		return object{"model": "tiny", "max_output_tokens": 4, "instructions": w.text(40), "input": "Hello."}
	}},
	{"responses, list", "/v1/responses", func(w *vllmWorld) object {
		return object{"model": "tiny", "max_output_tokens": 4, "input": []object{say("user", w.text(40)), say("assistant", "Yes."), say("user", "And?")}}
	}},
	{"responses, as of a coding agent", "/v1/responses", func(w *vllmWorld) object {
		return object{
			"model": "tiny", "max_output_tokens": 4, "instructions": w.text(40), "store": false, "truncation": "auto", "reasoning": object{"effort": "low"},
			"tools": []object{{"type": "function", "name": "shell", "strict": false, "parameters": object{"type": "object", "properties": object{"command": object{"type": "string"}}}}},
			"input": []object{
				{"type": "message", "role": "developer", "content": []object{{"type": "input_text", "text": "Be brief."}}},
				{"type": "message", "role": "user", "content": []object{{"type": "input_text", "text": "List"}, {"type": "input_text", "text": "it."}}},
				{"type": "reasoning", "id": "rs_1", "summary": []object{}, "content": []object{{"type": "reasoning_text", "text": "I should."}}},
				{"type": "message", "role": "assistant", "content": []object{{"type": "output_text", "text": "I list."}}},
				{"type": "function_call", "call_id": "c1", "name": "shell", "arguments": "{\"command\": \"ls\"}"},
				{"type": "function_call", "call_id": "c2", "name": "shell", "arguments": "{}"},
				{"type": "function_call_output", "call_id": "c1", "output": "a b"},
				{"type": "function_call_output", "call_id": "c2", "output": "ü"},
				{"role": "assistant", "content": "Two."},
				{"role": "user", "content": "And?"},
			},
		}
	}},
}

// matched holds that the router knows to the token what the engine will find
// cached, through every API. Prompts go to an engine behind the router's back
// first: what the router knows, it knows from events. The peers of the mesh may
// ask either server for the tokens; the peer before the closed one alone has
// nobody to ask but a server without --enable-scale-out.
func (w *vllmWorld) matched(t *testing.T) {
	for _, e := range w.engines {
		for _, c := range vllmCases {
			t.Run(e.name+"/"+c.name, func(t *testing.T) { w.match(t, e, c) })
		}
		t.Run(e.name+"/chat, many turns", func(t *testing.T) { w.matchTurns(t, e) })
		t.Run(e.name+"/other namespaces", func(t *testing.T) { w.matchNothing(t, e) })
		t.Run(e.name+"/no credit", func(t *testing.T) { w.creditNothing(t, e) })
		t.Run(e.name+"/continued", func(t *testing.T) { w.continuation(t, e) })
	}
}

func (w *vllmWorld) match(t *testing.T, e *vllm, c vllmCase) {
	body := c.body(w)
	sendPrompt(t, e.url()+c.path, body)
	var seen []string
	for _, p := range append(w.peers[:len(w.peers):len(w.peers)], e.alone) {
		w.settle(t, "after a request")
		r := sendPrompt(t, p.url()+c.path, body)
		seen = append(seen, w.judge(t, e, r))
	}
	w.note(e, c.name, seen)
}

// judge holds that a prompt met its cached prefix, as the router foretold.
func (w *vllmWorld) judge(t *testing.T, e *vllm, r reply) (seen string) {
	t.Helper()
	matched, cached := r.matched(t), r.cached(t)
	if r.replica() != e.name || matched != cached || cached == 0 {
		t.Errorf("%s has it; sent to %s for %d matched tokens, %d were cached there", e.name, r.replica(), matched, cached)
	}
	return fmt.Sprintf("%d/%d", matched, cached)
}

func (w *vllmWorld) matchTurns(t *testing.T, e *vllm) {
	talk := []object{say("system", w.text(40)), say("user", "Begin.")}
	sendPrompt(t, e.url()+"/v1/chat/completions", w.chat(talk...))
	var seen []string
	for turn := range 6 {
		w.settle(t, "after a turn")
		r := sendPrompt(t, w.peers[turn%len(w.peers)].url()+"/v1/chat/completions", w.chat(talk...))
		seen = append(seen, w.judge(t, e, r))
		answer := r.doc["choices"].([]any)[0].(object)["message"].(object)["content"]
		talk = append(talk, say("assistant", answer), say("user", fmt.Sprintf("Turn %d, please. %s", turn, strings.Repeat("More of it. ", 10*turn))))
	}
	w.note(e, "chat, many turns", seen)
}

// matchNothing: equal tokens of another salt or adapter are never a match.
func (w *vllmWorld) matchNothing(t *testing.T, e *vllm) {
	plain := object{"model": "tiny", "max_tokens": 4}
	spaces := []object{plain, w.with(plain, "cache_salt", "red"), w.with(plain, "model", "lora"), w.with(plain, "model", "lora", "cache_salt", "red")}
	for i, own := range spaces {
		tokens := w.ids(333)
		sendPrompt(t, e.url()+"/v1/completions", w.with(own, "prompt", tokens))
		w.settle(t, "after a request")
		for j, other := range spaces {
			r := sendPrompt(t, w.peers[(i+j)%len(w.peers)].url()+"/v1/completions", w.with(other, "prompt", tokens))
			if i == j {
				w.judge(t, e, r)
			} else if r.matched(t) != 0 || r.cached(t) != 0 {
				t.Errorf("namespace %d finds %d tokens of namespace %d, %d cached at %s", j, r.matched(t), i, r.cached(t), r.replica())
			}
		}
	}
}

func (w *vllmWorld) note(e *vllm, name string, seen []string) {
	w.rows = append(w.rows, []string{name, e.name, strings.Join(seen, ", ")})
}

// tableVariable names a file for the table.
const tableVariable = "E2E_VLLM_TABLE"

func (w *vllmWorld) writeTable(t *testing.T) {
	var b strings.Builder
	b.WriteString("| prompt | server | matched/cached: through one peer, another one, a peer that knows this server alone |\n|---|---|---|\n")
	for _, row := range w.rows {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
	}
	t.Log("\n" + b.String())
	if path := os.Getenv(tableVariable); path != "" {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
