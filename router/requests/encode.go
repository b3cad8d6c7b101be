package requests

import (
	"encoding/hex"
	"strconv"
	"time"
	"unicode/utf8"
)

// timeLayout is RFC 3339 with milliseconds.
const timeLayout = "2006-01-02T15:04:05.000Z07:00"

// AppendJSON appends a record as one JSON object without a line's end. All
// fields are always there; null is unknown. No allocation but dst's.
func AppendJSON(dst []byte, r *Record) []byte {
	dst = append(dst, `{"time":"`...)
	dst = r.At.UTC().AppendFormat(dst, timeLayout)
	dst = append(dst, '"')
	word := func(key, value string) { dst = appendString(appendKey(dst, key), value) }
	word("id", r.ID)
	word("client_id", r.ClientID)
	dst = append(appendKey(dst, "trace_id"), '"')
	dst = append(appendTrace(dst, &r.Trace), '"')
	word("key", r.Client)
	word("tenant", r.Tenant)
	word("model", r.Model)
	word("endpoint", r.Endpoint)
	dst = strconv.AppendBool(appendKey(dst, "stream"), r.Stream)
	word("replica", r.Replica)
	word("decode_replica", r.Decode)
	word("policy", r.Policy)
	word("reason", r.Reason)
	dst = strconv.AppendInt(appendKey(dst, "status"), int64(r.Status), 10)
	word("error", r.Error)
	dst = appendMillis(appendKey(dst, "queue_ms"), r.Queue)
	dst = appendKey(dst, "ttft_ms")
	if r.TTFT > 0 {
		dst = appendMillis(dst, r.TTFT)
	} else {
		dst = append(dst, "null"...)
	}
	dst = appendMillis(appendKey(dst, "duration_ms"), r.Duration)
	dst = appendTokens(appendKey(dst, "matched_tokens"), r.Matched)
	dst = appendTokens(appendKey(dst, "prompt_tokens"), r.Prompt)
	dst = appendTokens(appendKey(dst, "cached_tokens"), r.Cached)
	dst = appendTokens(appendKey(dst, "output_tokens"), r.Output)
	dst = append(appendKey(dst, "tries"), '[')
	for i := range r.Tries {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendTry(dst, &r.Tries[i])
	}
	dst = strconv.AppendInt(append(dst, `],"tries_total":`...), int64(len(r.Tries)+r.More), 10)
	return append(dst, '}')
}

func appendTry(dst []byte, t *Try) []byte {
	dst = appendString(append(dst, `{"replica":`...), t.Replica)
	dst = strconv.AppendInt(appendKey(dst, "status"), int64(t.Status), 10)
	dst = appendString(appendKey(dst, "cause"), t.Cause)
	dst = appendString(appendKey(dst, "detail"), t.Detail)
	dst = strconv.AppendBool(appendKey(dst, "lost"), t.Lost)
	dst = appendMillis(appendKey(dst, "begin_ms"), t.Begin)
	dst = appendMillis(appendKey(dst, "took_ms"), t.Took)
	return append(dst, '}')
}

func appendKey(dst []byte, key string) []byte {
	dst = append(dst, ',', '"')
	dst = append(dst, key...)
	return append(dst, '"', ':')
}

func appendTrace(dst []byte, id *[16]byte) []byte {
	if *id == [16]byte{} {
		return dst
	}
	return hex.AppendEncode(dst, id[:])
}

// appendMillis keeps microseconds.
func appendMillis(dst []byte, d time.Duration) []byte {
	return strconv.AppendFloat(dst, float64(d.Microseconds())/1000, 'f', -1, 64)
}

func appendTokens(dst []byte, n int) []byte {
	if n < 0 {
		return append(dst, "null"...)
	}
	return strconv.AppendInt(dst, int64(n), 10)
}

// appendString quotes s for JSON: at most MaxWord bytes of it, control
// characters escaped, broken UTF-8 replaced, and the line separators of
// JavaScript escaped.
func appendString(dst []byte, s string) []byte {
	const digits = "0123456789abcdef"
	dst = append(dst, '"')
	s = whole(s)
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			i++
			switch {
			case c == '"' || c == '\\':
				dst = append(dst, '\\', c)
			case c < 0x20 || c == 0x7f || c == '<' || c == '>' || c == '&':
				dst = append(dst, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
			default:
				dst = append(dst, c)
			}
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			dst = append(dst, `\ufffd`...)
		case r < 0xa0 || r == 0x2028 || r == 0x2029 || bidi(r):
			dst = append(dst, '\\', 'u', digits[r>>12&15], digits[r>>8&15], digits[r>>4&15], digits[r&15])
		default:
			dst = append(dst, s[i:i+n]...)
		}
		i += n
	}
	return append(dst, '"')
}

// bidi are the characters that make a terminal show a line in another order.
func bidi(r rune) bool {
	return r == 0x200e || r == 0x200f || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
}

// whole cuts s to MaxWord bytes, between characters.
func whole(s string) string {
	if len(s) <= MaxWord {
		return s
	}
	n := MaxWord
	for n > MaxWord-utf8.UTFMax && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// AppendText appends a record as one line of key=value without the line's end.
// What is empty or unknown is left out; values with anything but letters,
// digits and common signs are quoted as in JSON. No allocation but dst's.
func AppendText(dst []byte, r *Record) []byte {
	dst = r.At.UTC().AppendFormat(append(dst, "time="...), timeLayout)
	word := func(key, value string) {
		if value != "" {
			dst = append(append(append(dst, ' '), key...), '=')
			dst = appendPlain(dst, value)
		}
	}
	millis := func(key string, d time.Duration) {
		dst = append(append(append(dst, ' '), key...), '=')
		dst = append(appendMillis(dst, d), "ms"...)
	}
	tokens := func(key string, n int) {
		if n >= 0 {
			dst = append(append(append(dst, ' '), key...), '=')
			dst = strconv.AppendInt(dst, int64(n), 10)
		}
	}
	word("id", r.ID)
	dst = strconv.AppendInt(append(dst, " status="...), int64(r.Status), 10)
	word("error", r.Error)
	word("replica", r.Replica)
	word("decode_replica", r.Decode)
	word("model", r.Model)
	word("key", r.Client)
	word("tenant", r.Tenant)
	word("endpoint", r.Endpoint)
	word("policy", r.Policy)
	word("reason", r.Reason)
	if r.Queue > 0 {
		millis("queue", r.Queue)
	}
	if r.TTFT > 0 {
		millis("ttft", r.TTFT)
	}
	millis("duration", r.Duration)
	tokens("matched", r.Matched)
	tokens("prompt", r.Prompt)
	tokens("cached", r.Cached)
	tokens("output", r.Output)
	if r.Retried() {
		dst = append(dst, " tries="...)
		for i := range r.Tries {
			if i > 0 {
				dst = append(dst, ',')
			}
			t := &r.Tries[i]
			dst = appendPlain(dst, t.Replica)
			if why := t.outcome(); why != "" {
				dst = append(append(dst, ':'), why...)
			}
		}
		tokens("tries_total", len(r.Tries)+r.More)
	}
	word("client_id", r.ClientID)
	if r.Trace != [16]byte{} {
		dst = appendTrace(append(dst, " trace_id="...), &r.Trace)
	}
	return dst
}

// outcome is why a try was not the answer.
func (t *Try) outcome() string {
	if t.Lost {
		return "lost"
	}
	return t.Cause
}

// appendPlain appends a word as it is if it can be told from its surroundings.
func appendPlain(dst []byte, s string) []byte {
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9':
		case c == '-' || c == '_' || c == '.' || c == '/' || c == ':' || c == '@' || c == '+':
		default:
			return appendString(dst, s)
		}
	}
	return append(dst, whole(s)...)
}
