package workload

import "strings"

// Role says who speaks a segment in a chat.
type Role uint8

// The roles. Plain segments make a completion prompt of token ids.
const (
	Plain Role = iota
	System
	User
	Assistant
)

// String is the role's name in the chat API.
func (r Role) String() string { return [...]string{"", "system", "user", "assistant"}[r] }

// Segment is a run of tokens with a name: equal ids mean equal tokens.
type Segment struct {
	ID     uint64
	Tokens int
	Role   Role
}

// Request is one request of a workload.
type Request struct {
	ID      int     // index in Workload.Requests
	At      float64 // seconds from the start; not sent before
	Session int     // requests of one conversation share it; -1: none
	Turn    int     // 0 for the first request of a session
	// Lineage is 1 + the session that a subagent's session began in the middle
	// of; 0: it began by itself. Several may have the same.
	Lineage int

	// After is the index of the request that must have finished first, -1 for
	// none; Think is the number of seconds between its end and this request.
	After int
	Think float64

	Prompt []Segment
	Tokens int    // prompt tokens
	Output int    // tokens to generate
	Reply  uint64 // id of the segment that the output is

	// Recorded token ids, where the trace has them: they stand in place of
	// Prompt and Reply.
	PromptIDs, ReplyIDs []uint32
}

// Workload is a request sequence with the fleet it is meant for.
type Workload struct {
	Name     string
	Requests []Request
	Told     string // what reading changed of a trace, for people; "": nothing

	Block    int    // tokens a hash id of the recorded trace; 0: it has none
	Replicas int    // 0: any
	Profile  string // replica profile; "" any
	KVTokens int    // KV cache of a replica; 0: the profile's
	// Concurrency bounds the requests in flight (the next one waits for a
	// finish); 0: arrivals alone decide.
	Concurrency int
	Warm        float64 // seconds at the start that only warm caches

	// Stages, if there are any, are driven one after the other, as inference-perf
	// does: a stage begins Pause seconds after the last request of the one before
	// is over. Request.At tells the times as if none of them overran.
	Stages []Stage
	Pause  float64
}

// Stage is a run of requests at one rate.
type Stage struct {
	Rate  float64 // requests a second
	First int     // index of its first request; it ends where the next one begins
	At    float64 // seconds: where Request.At has its start
}

// Family is the session under whose name a request is sent: a subagent uses that
// of the session that called it. -1: none.
func (r *Request) Family() int {
	if r.Lineage > 0 {
		return r.Lineage - 1
	}
	return r.Session
}

// Chat reports whether the request is a chat (else a token-id completion).
func (r *Request) Chat() bool { return len(r.Prompt) > 0 && r.Prompt[0].Role != Plain }

// AppendTokens appends the prompt's token ids.
func (r *Request) AppendTokens(dst []uint32) []uint32 {
	if r.PromptIDs != nil {
		return append(dst, r.PromptIDs...)
	}
	for _, s := range r.Prompt {
		dst = s.AppendTokens(dst)
	}
	return dst
}

// AppendTokens appends the segment's token ids: words of the made-up language.
func (s Segment) AppendTokens(dst []uint32) []uint32 {
	var bits uint64
	for i := range s.Tokens {
		if i%4 == 0 {
			bits = mix(s.ID, uint64(i/4))
		}
		dst = append(dst, FirstWord+uint32(bits&(Words-1)))
		bits >>= 16
	}
	return dst
}

// AppendKeys appends one key for each full page of prompt and output: the
// first Tokens/page of them are the prompt's. O(pages + segments).
func (r *Request) AppendKeys(dst []uint64, page int) []uint64 {
	c := chain{page: page, key: keySeed, dst: dst}
	if r.PromptIDs != nil {
		c.ids(r.PromptIDs)
		c.ids(r.ReplyIDs)
		return c.dst
	}
	for _, s := range r.Prompt {
		c.segment(s.ID, s.Tokens)
	}
	c.segment(r.Reply, r.Output)
	return c.dst
}

// keySeed starts every chain.
const keySeed = 0x42616e79616e2121

// chain folds pieces of segments into page keys.
type chain struct {
	page int
	fill int // tokens in the open page
	key  uint64
	dst  []uint64
}

func (c *chain) segment(id uint64, tokens int) {
	for at := 0; at < tokens; {
		n := min(c.page-c.fill, tokens-at)
		c.key = mix(mix(c.key, id), uint64(at)<<24|uint64(n))
		at += n
		c.advance(n)
	}
}

func (c *chain) ids(ids []uint32) {
	for _, id := range ids {
		c.key = mix(c.key, uint64(id))
		c.advance(1)
	}
}

func (c *chain) advance(n int) {
	if c.fill += n; c.fill == c.page {
		c.dst = append(c.dst, c.key)
		c.fill = 0
	}
}

// Message is one chat message.
type Message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// Messages writes a chat request. reply gives the text that was really
// answered for an assistant segment; where it is nil or says false the text
// comes from the segment's id. Adjacent segments of one role are one message.
func (r *Request) Messages(reply func(segment uint64) (string, bool)) []Message {
	var out []Message
	for i, s := range r.Prompt {
		text, ok := "", false
		if s.Role == Assistant && reply != nil {
			text, ok = reply(s.ID)
		}
		if !ok {
			text = s.Text()
		}
		if i > 0 && s.Role == r.Prompt[i-1].Role && s.Role != Assistant {
			out[len(out)-1].Content += " " + text
			continue
		}
		out = append(out, Message{Role: s.Role.String(), Content: text})
	}
	return out
}

// Text writes a segment in the made-up language: one word a token.
func (s Segment) Text() string { return Text(s.AppendTokens(make([]uint32, 0, s.Tokens))) }

// Text writes tokens as words of the made-up language; recorded ids that are
// none of its words are given one.
func Text(ids []uint32) string {
	var b strings.Builder
	b.Grow(len(ids) * (wordLen + 1))
	for i, id := range ids {
		if i > 0 {
			b.WriteByte(' ')
		}
		if id < FirstWord || id >= FirstWord+Words {
			id = FirstWord + id%Words
		}
		b.WriteString(Word(id))
	}
	return b.String()
}

// mix is a 64-bit hash step (the finaliser of splitmix64 over both inputs).
func mix(a, b uint64) uint64 {
	x := a*0x9e3779b97f4a7c15 ^ (b+0x2545f4914f6cdd1d)*0xd6e8feb86659fd93
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}
