package openai

import (
	"math"
	"strconv"
)

// Usage is what an engine reported of one answer, in tokens.
type Usage struct {
	Known      bool // a usage object was seen
	Prompt     int
	Completion int
	// Cached is the part of Prompt served from cache. Unknown unless the
	// engine wrote a number: some leave it out when it is 0, some always.
	Cached      int
	CachedKnown bool
}

// ParseUsage finds the usage of a whole, non-streamed answer. Answers that are
// not JSON objects, or have none, give a Usage that is not Known.
func ParseUsage(body []byte) Usage {
	var u Usage
	if i := skipSpace(body, 0); i < len(body) && body[i] == '{' {
		_, _ = eachMember(body, i, 0, func(key, value []byte) error {
			if name := string(key); name == `"usage"` || name == `"meta_info"` {
				u = readUsage(value)
			}
			return nil
		})
	}
	return u
}

// Then is the usage of a stream that told u and then later: each figure as it
// was told last. Anthropic's streams tell the prompt at the start and the output
// at the end.
func (u Usage) Then(later Usage) Usage {
	if !later.Known {
		return u
	}
	if later.Prompt == 0 {
		later.Prompt = u.Prompt
	}
	if later.Completion == 0 {
		later.Completion = u.Completion
	}
	if !later.CachedKnown {
		later.Cached, later.CachedKnown = u.Cached, u.CachedKnown
	}
	return later
}

// readUsage reads the usage object of every API: chat and completions, responses
// with names of its own, Anthropic's, whose input_tokens are without those read
// from the cache or written to it, and SGLang's meta_info.
func readUsage(value []byte) Usage {
	var u Usage
	if value[0] != '{' {
		return u
	}
	u.Known = true
	apart := 0 // tokens of the prompt told beside input_tokens
	_, _ = eachMember(value, 0, 1, func(key, value []byte) error {
		switch string(key) {
		case `"prompt_tokens"`, `"input_tokens"`:
			u.Prompt, _ = readTokenCount(value)
		case `"completion_tokens"`, `"output_tokens"`:
			u.Completion, _ = readTokenCount(value)
		case `"prompt_tokens_details"`, `"input_tokens_details"`:
			u.readDetails(value)
		case `"cached_tokens"`:
			u.Cached, u.CachedKnown = readTokenCount(value)
		case `"cache_read_input_tokens"`:
			u.Cached, u.CachedKnown = readTokenCount(value)
			apart += u.Cached
		case `"cache_creation_input_tokens"`:
			n, _ := readTokenCount(value)
			apart += n
		}
		return nil
	})
	u.Prompt += apart
	return u
}

func (u *Usage) readDetails(value []byte) {
	if value[0] != '{' {
		return
	}
	_, _ = eachMember(value, 0, 2, func(key, value []byte) error {
		if string(key) == `"cached_tokens"` {
			u.Cached, u.CachedKnown = readTokenCount(value)
		}
		return nil
	})
}

// readTokenCount reads a checked JSON value as a count of tokens.
func readTokenCount(value []byte) (int, bool) {
	if len(value) > 10 {
		return 0, false
	}
	n, err := strconv.ParseUint(string(value), 10, 31)
	if err != nil || n > math.MaxInt32 {
		return 0, false
	}
	return int(n), true
}
