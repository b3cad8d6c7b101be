package token

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Questions that nobody waits for any more hold their prompts: together they are
// bounded in bytes, beyond that text is hashed, and what they took comes back.
func TestI5QuestionsUnderWayAreBoundedInBytes(t *testing.T) {
	release := make(deaf)
	tok := newTokenizer(t, func(c *Config) { c.Transport, c.Deadline, c.AskBytes = release, time.Nanosecond, 100<<10 })
	for i, want := range []Reason{Timeout, Busy} {
		q := textQuery(nil, strings.Repeat("x", 30<<10+i))
		q.Engines = []Oracle{{URL: "http://127.0.0.1:" + strconv.Itoa(i), Engine: "vllm"}}
		if k := tok.Keys(context.Background(), q); k.Reason != want {
			t.Errorf("question %d of 30 KB: %s, want %s", i, k.Reason, want)
		}
	}
	close(release)
	tok.asking.Wait()
	if tok.asked != 0 {
		t.Errorf("%d bytes are counted and not there", tok.asked)
	}
}
