package openai

import (
	"strings"
	"testing"
)

// chatBody is a conversation of about size bytes in messages of 1 KiB.
func chatBody(size int) []byte {
	message := `{"role":"user","content":"` + strings.Repeat(`Some words of a prompt, \"quoted\".\n`, 28) + `"}`
	n := max(1, size/len(message))
	return []byte(`{"model":"org/model","stream":true,"temperature":0.7,"max_tokens":256,"messages":[` +
		strings.Repeat(message+",", n-1) + message + `]}`)
}

func BenchmarkParse(b *testing.B) {
	for _, size := range []struct {
		name  string
		bytes int
	}{{"1KB", 1 << 10}, {"16KB", 16 << 10}, {"512KB", 512 << 10}} {
		body := chatBody(size.bytes)
		b.Run(size.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				if _, err := Parse(Chat, body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkCanonical(b *testing.B) {
	body := chatBody(16 << 10)
	r, err := Parse(Chat, body)
	if err != nil {
		b.Fatal(err)
	}
	var dst []byte
	b.ReportAllocs()
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		dst = r.AppendCanonical(dst[:0])
	}
}

func BenchmarkEdit(b *testing.B) {
	r, err := Parse(Chat, chatBody(16<<10))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		c := r.Clone()
		c.AskUsage()
		_ = c.Bytes()
	}
}

func BenchmarkStreamChunk(b *testing.B) {
	event := []byte(`data: {"id":"chatcmpl-0123456789abcdef","object":"chat.completion.chunk","created":1700000000,"model":"org/model",` +
		`"choices":[{"index":0,"delta":{"content":" token"},"logprobs":null,"finish_reason":null}],"usage":null}` + "\n\n")
	var s Scanner
	tokens := 0
	b.ReportAllocs()
	b.SetBytes(int64(len(event)))
	for b.Loop() {
		s.Feed(event, func(e Event) {
			if c := ParseChunk(e.Data); c.Token {
				tokens++
			}
		})
	}
	if tokens == 0 {
		b.Fatal("no token seen")
	}
}

// BenchmarkTokenizeBody is what it costs to write a prompt as a tokenizer
// endpoint takes it: Messages and Responses become chats.
func BenchmarkTokenizeBody(b *testing.B) {
	for _, size := range []struct {
		name       string
		characters int
	}{{"1k", 1000}, {"100k", 100_000}} {
		text := strings.Repeat(`Some words of a prompt, \"quoted\".\n`, size.characters/35/4)
		block := `{"type":"text","text":"` + text + `"}`
		for _, c := range []struct {
			endpoint Endpoint
			body     string
		}{
			{Chat, `{"model":"m","messages":[{"role":"system","content":"` + text + `"},{"role":"user","content":"` + text + text + text + `"}]}`},
			{Messages, `{"model":"m","system":[` + block + `],"messages":[{"role":"user","content":[` + block + `,` + block + `]},{"role":"assistant","content":[{"type":"tool_use","id":"i","name":"n","input":{"text":"` + text + `"}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"i","content":"x"}]}]}`},
			{Responses, `{"model":"m","instructions":"` + text + `","input":[{"role":"user","content":"` + text + `"},{"role":"assistant","content":"` + text + `"},{"role":"user","content":"` + text + `"}]}`},
		} {
			b.Run(c.endpoint.Path()+"/"+size.name, func(b *testing.B) {
				b.SetBytes(int64(len(c.body)))
				b.ReportAllocs()
				for b.Loop() {
					if _, why := TokenizeBody(c.endpoint, "vllm", []byte(c.body)); why != "" {
						b.Fatal(why)
					}
				}
			})
		}
	}
}
