package workload

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
)

// maxPause bounds a gap between two turns, in seconds, as the AgentX benchmark
// does.
const maxPause = 10

// chats reads sessions as agentx-harness writes them
// (aiperf/dataset/agentic_code_gen/writer.py, 1.0.12): a line a turn with what
// it adds, its blocks of 512 tokens and the pause before it. The first line of
// a session has a timestamp instead of a pause; its leading blocks are those of
// all sessions and of its group.
type chats struct {
	open   map[string]*chat
	stamps bool // sessions begin at different times
	capped int  // pauses cut to maxPause
	pauses int
}

// chat is a session as far as it was read.
type chat struct {
	conversation
	tokens int
}

// chat adds one turn.
func (t *tracer) chat(l *traceLine) error {
	switch {
	case l.Input == nil || l.Output == nil:
		return errors.New("input_length and output_length are required")
	case *l.Input < 0 || *l.Input > maxTraceTokens:
		return fmt.Errorf("input_length is %d, want 0 to %d", *l.Input, maxTraceTokens)
	case *l.Output < 0 || *l.Output > maxTraceTokens:
		return fmt.Errorf("output_length is %d, want 0 to %d", *l.Output, maxTraceTokens)
	case l.Timestamp != nil && !valid(*l.Timestamp):
		return fmt.Errorf("timestamp is %g", *l.Timestamp)
	case l.Delay != nil && !valid(*l.Delay):
		return fmt.Errorf("delay is %g", *l.Delay)
	}
	if t.block == 0 {
		t.start(false)
		t.chats.open = make(map[string]*chat)
	}
	if need := (*l.Input + t.block - 1) / t.block; len(l.Hashes) > need {
		return fmt.Errorf("%d hash_ids for %d tokens in blocks of %d", len(l.Hashes), *l.Input, t.block)
	}
	c := t.chats.open[*l.SessionID]
	if c == nil {
		c = &chat{conversation: conversation{session: len(t.chats.open), last: -1}}
		if l.Timestamp != nil {
			c.start = *l.Timestamp / 1e3
		}
		t.chats.stamps = t.chats.stamps || c.start > 0
		t.chats.open[*l.SessionID] = c
	}
	if c.tokens += *l.Input; c.tokens > maxTraceTokens {
		return fmt.Errorf("a prompt of %d tokens, want at most %d", c.tokens, maxTraceTokens)
	}
	for _, s := range t.segments(l.Hashes, *l.Input) {
		s.Role = User
		c.history = append(c.history, s)
	}
	r := Request{
		At: c.start, Session: c.session, Turn: c.turn, After: c.last,
		Prompt: slices.Clip(c.history), Tokens: max(c.tokens, 1), Output: max(*l.Output, 1),
	}
	if c.turn > 0 {
		r.Think = t.pause(l.Delay)
	}
	c.last = len(t.w.Requests)
	t.add(r)
	c.history = append(c.history, Segment{ID: t.w.Requests[c.last].Reply, Tokens: r.Output, Role: Assistant})
	c.tokens += r.Output
	c.turn++
	return nil
}

// pause is a delay in seconds.
func (t *tracer) pause(delay *float64) float64 {
	if delay == nil {
		return 0
	}
	t.chats.pauses++
	if *delay > 1e3*maxPause {
		t.chats.capped++
		return maxPause
	}
	return *delay / 1e3
}

// finishChats spaces sessions that all begin at once, and tells the blocks that
// several of them begin with, which a system prompt is, from their own.
func (t *tracer) finishChats() {
	w := t.w
	seen := make(map[uint64]int)
	for i := range w.Requests {
		r := &w.Requests[i]
		for j := 0; r.Turn == 0 && j < len(r.Prompt); j++ {
			seen[r.Prompt[j].ID]++
		}
	}
	for i := range w.Requests {
		prompt := w.Requests[i].Prompt
		for j := range prompt {
			if seen[prompt[j].ID] < 2 {
				break
			}
			prompt[j].Role = System
		}
	}
	w.Told = fmt.Sprintf("%d of %d pauses between turns are longer than %d s and were cut to it", t.chats.capped, t.chats.pauses, maxPause)
	if !t.chats.stamps {
		rnd := rand.New(rand.NewPCG(t.seed, keySeed))
		begin, now := make([]float64, len(t.chats.open)), 0.0
		for i := range begin {
			begin[i] = now
			now += rnd.ExpFloat64()
		}
		for i := range w.Requests {
			w.Requests[i].At = begin[w.Requests[i].Session]
		}
		w.Told += fmt.Sprintf("; all %d sessions begin at once there, here one a second", len(begin))
	}
	arrange(w.Requests)
}
