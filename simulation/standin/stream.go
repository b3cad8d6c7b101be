package standin

import (
	"encoding/json"
	"net/http"
	"strconv"
)

// stream writes an answer as server-sent events, a chunk for each token (or
// for the tokens that piled up while the last one was written), prompts of a
// list one after the other.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, a *answer, account bool) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.Header().Set("Cache-Control", "no-cache")
	flush := http.NewResponseController(w)
	c := newChunker(a)
	for i, g := range a.gens {
		for sent := 0; sent < g.output; {
			if int(g.produced.Load()) == sent && !await(r.Context(), g, running) {
				panic(http.ErrAbortHandler)
			}
			produced := int(g.produced.Load())
			if produced == sent {
				continue
			}
			c.buf = c.buf[:0]
			if a.noise {
				c.buf = append(c.buf, ": keep-alive\n\n"...)
			}
			if sent == 0 {
				c.open(i, g)
			}
			c.tokens(i, g, sent, produced)
			if _, err := w.Write(c.buf); err != nil {
				return
			}
			_ = flush.Flush()
			if a.cut {
				panic(http.ErrAbortHandler)
			}
			sent = produced
		}
	}
	c.buf = c.buf[:0]
	if account {
		c.account(s.usage(a))
	}
	c.buf = append(c.buf, "data: [DONE]\n\n"...)
	_, _ = w.Write(c.buf)
}

// chunker writes chunks into buf without reflection: there is one per token.
type chunker struct {
	a    *answer
	head []byte // data: {"id":…,"model":…
	buf  []byte
}

func newChunker(a *answer) *chunker {
	object := "text_completion"
	if a.chat {
		object = "chat.completion.chunk"
	}
	head, _ := json.Marshal(struct { // strings and ints only: cannot fail
		ID      string `json:"id"`
		Object  string `json:"object"`
		Created int64  `json:"created"`
		Model   string `json:"model"`
	}{a.id, object, a.made, a.model})
	return &chunker{a: a, head: append([]byte("data: "), head[:len(head)-1]...)}
}

// begin opens a chunk for choice i up to its content.
func (c *chunker) begin(i int) {
	c.buf = append(c.buf, c.head...)
	c.buf = append(c.buf, `,"choices":[{"index":`...)
	c.buf = strconv.AppendInt(c.buf, int64(i), 10)
}

// open is the first chunk of a chat: the role, and the prompt's token ids if
// they were asked for.
func (c *chunker) open(i int, g *generation) {
	if !c.a.chat {
		return
	}
	c.begin(i)
	c.buf = append(c.buf, `,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]`...)
	if c.a.ids {
		c.list(`,"prompt_token_ids":`, g.tokens)
	}
	c.buf = append(c.buf, "}\n\n"...)
}

// tokens is the chunk of tokens [from, to); words need no escaping.
func (c *chunker) tokens(i int, g *generation, from, to int) {
	c.begin(i)
	if c.a.chat {
		c.buf = append(c.buf, `,"delta":{"content":"`...)
		c.buf = append(g.text(c.buf, from, to), `"}`...)
	} else {
		c.buf = append(c.buf, `,"text":"`...)
		c.buf = append(g.text(c.buf, from, to), '"')
	}
	c.buf = append(c.buf, `,"logprobs":null,"finish_reason":`...)
	if to == g.output {
		c.buf = append(c.buf, '"')
		c.buf = append(c.buf, c.a.finish()...)
		c.buf = append(c.buf, `","stop_reason":null`...)
	} else {
		c.buf = append(c.buf, `null`...)
	}
	if c.a.ids {
		c.list(`,"token_ids":`, g.answers(to)[from:])
		if from == 0 && !c.a.chat {
			c.list(`,"prompt_token_ids":`, g.tokens)
		}
	}
	c.buf = append(c.buf, "}]}\n\n"...)
}

// account is the usage chunk: no choices.
func (c *chunker) account(u usage) {
	c.buf = append(c.buf, c.head...)
	c.buf = append(c.buf, `,"choices":[],"usage":`...)
	b, _ := json.Marshal(u) // ints only: cannot fail
	c.buf = append(c.buf, b...)
	c.buf = append(c.buf, "}\n\n"...)
}

func (c *chunker) list(name string, ids []uint32) {
	c.buf = append(append(c.buf, name...), '[')
	for i, id := range ids {
		if i > 0 {
			c.buf = append(c.buf, ',')
		}
		c.buf = strconv.AppendUint(c.buf, uint64(id), 10)
	}
	c.buf = append(c.buf, ']')
}
