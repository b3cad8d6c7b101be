package proxy

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// counting is an engine whose every token is the one after its last: token 1007 is
// " w7". Asked for it, it tells the ids, as vLLM 0.32 writes them.
type counting struct {
	lose   func(w http.ResponseWriter, made int) // called before each token; it may panic
	mute   bool                                  // it does not tell ids
	claims int                                   // ids that it makes up in front of its prompt
	think  int                                   // tokens of reasoning first
	late   int                                   // this token is a part of a character: its text comes with the next one's
	asked  atomic.Pointer[asked]
}

type asked struct {
	Prompt     json.RawMessage
	Messages   []json.RawMessage
	Max        int  `json:"max_tokens"`
	IDs        bool `json:"return_token_ids"`
	StreamOpts struct {
		Usage bool `json:"include_usage"`
	} `json:"stream_options"`
}

const (
	firstPrompt   = 1000
	contextLength = 12
)

func (c *counting) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var a asked
	if err := json.Unmarshal([]byte(readAll(r)), &a); err != nil {
		panic(err)
	}
	c.asked.Store(&a)
	chat, prompt := strings.Contains(r.URL.Path, "chat"), []int{11, 12, firstPrompt}
	if a.Prompt != nil && a.Prompt[0] == '[' {
		if err := json.Unmarshal(a.Prompt, &prompt); err != nil {
			panic(err)
		}
	}
	for range c.claims {
		prompt = append([]int{1000}, prompt...)
	}
	ids := a.IDs && !c.mute
	if a.Max == 0 {
		a.Max = contextLength - len(prompt)
	}
	list := func(name string, ids []int, tell bool) string {
		if !tell {
			return `,"` + name + `":null`
		}
		raw, _ := json.Marshal(ids)
		return `,"` + name + `":` + string(raw)
	}
	kind := "text_completion"
	if chat {
		kind = "chat.completion.chunk"
	}
	head := fmt.Sprintf(`data: {"id":"id-%s","object":"%s","created":%d,"model":"m","choices":[`, r.Host, kind, time.Now().UnixNano())
	if chat {
		writeChunks(w, head+`{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]`+list("prompt_token_ids", prompt, ids)+"}\n\n")
	}
	for made := range a.Max {
		if c.lose != nil {
			c.lose(w, made)
		}
		id := prompt[len(prompt)-1] + made + 1
		text, finish := fmt.Sprintf(`" w%d"`, id-firstPrompt), "null"
		switch {
		case c.late > 0 && made+1 == c.late:
			text = `""`
		case c.late > 0 && made == c.late:
			text = fmt.Sprintf(`" w%d w%d"`, id-firstPrompt-1, id-firstPrompt)
		}
		if made == a.Max-1 {
			finish = `"length"`
		}
		field := `"text":` + text
		switch {
		case made < c.think:
			field = `"delta":{"reasoning":` + text + `}`
		case chat:
			field = `"delta":{"content":` + text + `}`
		}
		choice := `{"index":0,` + field + `,"logprobs":null,"finish_reason":` + finish + list("token_ids", []int{id}, ids)
		if !chat {
			choice += list("prompt_token_ids", prompt, ids && made == 0)
		}
		writeChunks(w, head+choice+"}]}\n\n")
	}
	if c.lose != nil {
		c.lose(w, a.Max)
	}
	if a.StreamOpts.Usage {
		writeChunks(w, fmt.Sprintf(`%s],"usage":{"prompt_tokens":%d,"total_tokens":%d,"completion_tokens":%d},"system_fingerprint":"vllm-0.32.0"}`+"\n\n", head, len(prompt), len(prompt)+a.Max, a.Max))
	}
	writeChunks(w, "data: [DONE]\n\n")
}

// after loses an engine before its nth token.
func after(n int, how func(http.ResponseWriter)) func(http.ResponseWriter, int) {
	return func(w http.ResponseWriter, made int) {
		if made == n {
			how(w)
			panic(http.ErrAbortHandler)
		}
	}
}

func atOnce(http.ResponseWriter) {}

// heard is what a client makes of a stream.
type heard struct {
	text, finish string
	ids          []string
	usage        string
	print        string // system_fingerprint of the usage
	done         int
	stray        []string // what a client that asked for no tokens must not see
}

func listen(t *testing.T, body string) (h heard) {
	t.Helper()
	for event := range strings.SplitSeq(strings.TrimSpace(body), "\n\n") {
		data, ok := strings.CutPrefix(event, "data: ")
		if !ok {
			t.Fatalf("no event: %q", event)
		}
		if data == "[DONE]" {
			h.done++
			continue
		}
		var c struct {
			ID, Model, Object string
			Created           int64
			Choices           []struct {
				Text   string
				Delta  struct{ Content, Reasoning string }
				Finish *string `json:"finish_reason"`
				IDs    []int   `json:"token_ids"`
				Prompt []int   `json:"prompt_token_ids"`
			}
			Prompt []int  `json:"prompt_token_ids"`
			Print  string `json:"system_fingerprint"`
			Usage  *struct {
				Prompt     int `json:"prompt_tokens"`
				Total      int `json:"total_tokens"`
				Completion int `json:"completion_tokens"`
			}
		}
		if err := json.Unmarshal([]byte(data), &c); err != nil {
			t.Fatalf("%q: %v", data, err)
		}
		if id := fmt.Sprint(c.ID, c.Created, c.Model, c.Object); !slices.Contains(h.ids, id) {
			h.ids = append(h.ids, id)
		}
		for _, choice := range c.Choices {
			h.text += choice.Text + choice.Delta.Content + choice.Delta.Reasoning
			if choice.Finish != nil {
				h.finish += *choice.Finish
			}
			if choice.IDs != nil || choice.Prompt != nil || c.Prompt != nil {
				h.stray = append(h.stray, data)
			}
		}
		if c.Usage != nil {
			h.usage, h.print = fmt.Sprint(*c.Usage), c.Print
		}
	}
	return h
}

func words(n int) (out string) {
	for i := range n {
		out += fmt.Sprintf(" w%d", i+1)
	}
	return out
}

// outcomes are what a Handler told of streams whose replica was lost. It tells
// before the client reads the end.
type outcomes struct {
	mu   sync.Mutex
	list []Resumption
}

func (o *outcomes) add(how Resumption) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.list = append(o.list, how)
}

func (o *outcomes) are(want ...Resumption) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Equal(o.list, want)
}

// resumeRig has engines in a row; the first one is asked first.
func resumeRig(t *testing.T, told *outcomes, engines ...*counting) *rig {
	t.Helper()
	var handlers []http.HandlerFunc
	for _, e := range engines {
		handlers = append(handlers, e.ServeHTTP)
	}
	g := newRig(t, func(cfg *Config) {
		cfg.Limits.Continue = true
		cfg.Models = func() []Model { return []Model{{ID: "m", MaxModelLen: 4096}} }
		cfg.Resumed = told.add
	}, handlers...)
	for _, target := range g.targets {
		target.Tokens = true
	}
	return g
}

const (
	longChat   = `{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true,"max_tokens":9}`
	longUsage  = `{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true,"max_tokens":9,"stream_options":{"include_usage":true}}`
	longPrompt = `{"model":"m","prompt":"hi","stream":true,"max_tokens":9,"stream_options":{"include_usage":true}}`
)

// TestAStreamOutlivesItsReplica (I8): however a replica is lost in mid-answer, the
// client reads one answer, whole, under one id.
func TestAStreamOutlivesItsReplica(t *testing.T) {
	ways := map[string]func(http.ResponseWriter){
		"killed": atOnce,
		"killed inside an event": func(w http.ResponseWriter) {
			writeChunks(w, `data: {"id":"x","choices":[{"index":0,"delta":{"content":" half`)
		},
		"stopped": func(w http.ResponseWriter) {
			writeChunks(w, `data: {"choices":[{"index":0,"text":"","delta":{"content":""},"finish_reason":"abort","token_ids":[]}]}`+"\n\n", "data: [DONE]\n\n")
		},
		"its core died": func(w http.ResponseWriter) {
			writeChunks(w, `data: {"error":{"message":"EngineCore encountered an issue","code":500}}`+"\n\n", "data: [DONE]\n\n")
		},
		"an end without an end": func(w http.ResponseWriter) {
			conn, buf, _ := http.NewResponseController(w).Hijack()
			_, _ = io.WriteString(buf, "0\r\n\r\n")
			_ = buf.Flush()
			_ = conn.Close()
		},
		"silent": func(http.ResponseWriter) { time.Sleep(2 * patience) },
	}
	for name, how := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for path, body := range map[string]string{"/v1/chat/completions": longUsage, "/v1/completions": longPrompt} {
				for _, n := range []int{1, 5, 9} {
					var told outcomes
					second := &counting{}
					g := resumeRig(t, &told, &counting{lose: after(n, how)}, second)
					if name == "silent" {
						limits := *g.handler.limits.Load()
						limits.Idle = patience
						g.handler.SetLimits(limits)
					}
					a := g.do(http.MethodPost, path, body, nil)
					h := listen(t, a.body)
					if a.err != nil || h.text != words(9) || h.finish != "length" || h.usage != "{3 12 9}" || h.done != 1 || len(h.ids) != 1 || h.stray != nil {
						t.Errorf("%s, lost after %d: %+v %v", path, n, h, a.err)
					}
					if want := "vllm-0.32.0"; n < 9 && h.print != want {
						t.Errorf("%s, lost after %d: the usage has the fingerprint %q, want %q", path, n, h.print, want)
					}
					if !told.are(ResumeDone) {
						t.Errorf("told %v", told.list)
					}
					if q := second.asked.Load(); n < 9 && (q == nil || q.Max != 9-n || !q.IDs) || n == 9 && q != nil {
						t.Errorf("%s, lost after %d: the second one was asked %+v", path, n, q)
					}
					if a.header.Get("X-Banyan-Replica") != "r0" {
						t.Errorf("the header names %s", a.header.Get("X-Banyan-Replica"))
					}
				}
			}
		})
	}
}

// TestAnAdaptersStreamOutlivesItsReplica: engines tell the length of the context
// of the base model alone, and an adapter's is the same.
func TestAnAdaptersStreamOutlivesItsReplica(t *testing.T) {
	var told outcomes
	second := &counting{}
	g := newRig(t, func(cfg *Config) {
		cfg.Limits.Continue = true
		cfg.Models = func() []Model {
			return []Model{{ID: "m", MaxModelLen: contextLength}, {ID: "lora", Parent: "m"}, {ID: "own", Parent: "own"}}
		}
		cfg.Resumed = told.add
	}, handlersOf([]*counting{{lose: after(5, atOnce)}, second})...)
	for _, target := range g.targets {
		target.Tokens = true
	}
	body := strings.NewReplacer(`"model":"m"`, `"model":"lora"`, `,"max_tokens":9`, ``).Replace(longUsage)
	h := listen(t, g.chat(body).body)
	if h.text != words(9) || h.finish != "length" || h.usage != "{3 12 9}" || h.done != 1 || !told.are(ResumeDone) {
		t.Errorf("%+v; told %v", h, told.list)
	}
	if q := second.asked.Load(); q == nil || q.Max != 4 {
		t.Errorf("the second one was asked %+v", q)
	}
}

// TestAStreamOutlivesTwoReplicas: the second one is lost as well, and its tokens
// count.
func TestAStreamOutlivesTwoReplicas(t *testing.T) {
	var told outcomes
	third := &counting{}
	g := resumeRig(t, &told, &counting{lose: after(3, atOnce)}, &counting{lose: after(2, atOnce)}, third)
	h := listen(t, g.chat(longUsage).body)
	if h.text != words(9) || h.usage != "{3 12 9}" || h.done != 1 || len(h.ids) != 1 || third.asked.Load().Max != 4 || !told.are(ResumeDone) {
		t.Errorf("%+v; the third one was asked %+v; %v", h, third.asked.Load(), told.list)
	}
	for i, want := range []int{0, 3, 5} {
		if r := g.last(); r.Before != want || r.Answered != (i == 2) || r.Retried == r.Answered || (r.Err == nil) != r.Answered {
			t.Errorf("try %d: %+v", i, r)
		}
	}
}

// TestAContinuedAnswerTookAllItsTime: what is remembered of a request counts from
// its arrival, not from where another replica went on.
func TestAContinuedAnswerTookAllItsTime(t *testing.T) {
	const before = 50 * time.Millisecond
	first := &counting{lose: after(3, func(http.ResponseWriter) { time.Sleep(before) })}
	ended := make(chan End, 1)
	g := newRig(t, func(cfg *Config) {
		cfg.Limits.Continue = true
		cfg.Models = func() []Model { return []Model{{ID: "m", MaxModelLen: 4096}} }
		cfg.Ended = func(_ *Call, end End) { ended <- end }
	}, first.ServeHTTP, (&counting{}).ServeHTTP)
	for _, target := range g.targets {
		target.Tokens = true
	}
	if h := listen(t, g.chat(longChat).body); h.text != words(9) {
		t.Fatalf("%+v", h)
	}
	if end := <-ended; end.Duration < before {
		t.Errorf("it took %v, of which the first replica took %v", end.Duration, before)
	}
}

// TestHalfACharacterIsGeneratedAgain: a token whose text has not come is not among
// those that the next replica goes on from.
func TestHalfACharacterIsGeneratedAgain(t *testing.T) {
	var told outcomes
	second := &counting{}
	g := resumeRig(t, &told, &counting{late: 3, lose: after(3, atOnce)}, second)
	h := listen(t, g.chat(longUsage).body)
	if h.text != words(9) || h.usage != "{3 12 9}" || second.asked.Load().Max != 7 {
		t.Errorf("%+v; the second one was asked %+v", h, second.asked.Load())
	}
}

// TestAHedgedStreamOutlivesItsReplica: the try that was too slow is over before the
// rest is asked for.
func TestAHedgedStreamOutlivesItsReplica(t *testing.T) {
	var told outcomes
	second, third := &counting{lose: after(5, atOnce)}, &counting{}
	g := newRig(t, func(cfg *Config) {
		cfg.Limits.Continue = true
		cfg.Models = func() []Model { return []Model{{ID: "m", MaxModelLen: 4096}} }
		cfg.Resumed, cfg.Hedge = told.add, Hedge{After: time.Millisecond, Ratio: 1}
	}, stall, second.ServeHTTP, third.ServeHTTP)
	for _, target := range g.targets {
		target.Tokens = true
	}
	g.handler.hedges.saved = 10
	pick := g.handler.cfg.Pick
	g.handler.cfg.Pick = func(ctx context.Context, call *Call) (*Target, error) {
		if call.Attempt > 0 { // the one that was too slow is no candidate either
			next := *call
			next.Tried = append(slices.Clone(call.Tried), "r0")
			call = &next
		}
		return pick(ctx, call)
	}
	h := listen(t, g.chat(longUsage).body)
	if h.text != words(9) || h.usage != "{3 12 9}" || h.done != 1 || !told.are(ResumeDone) {
		t.Errorf("%+v; told %v", h, told.list)
	}
}

// TestNobodyGoesOn (I8): where the rest cannot be had the client sees a stream that
// broke off, and it is told why.
func TestNobodyGoesOn(t *testing.T) {
	lost := func() *counting { return &counting{lose: after(5, atOnce)} }
	with := func(field string) string { return strings.Replace(longChat, `"stream"`, field+`,"stream"`, 1) }
	for name, c := range map[string]struct {
		body    string
		engines []*counting
		change  func(*Config)
		want    Resumption
	}{
		"tools":                        {with(`"tools":[{"type":"function","function":{"name":"f"}}]`), []*counting{lost(), {}}, nil, ResumeTools},
		"stop":                         {with(`"stop":["x"]`), []*counting{lost(), {}}, nil, ResumeField},
		"two":                          {with(`"n":2`), []*counting{lost(), {}}, nil, ResumeChoices},
		"no ids":                       {longChat, []*counting{{lose: after(5, atOnce), mute: true}, {}}, nil, ResumeTokens},
		"thinking":                     {longChat, []*counting{{lose: after(5, atOnce), think: 5}, {}}, nil, ResumeThoughts},
		"nobody":                       {longChat, []*counting{lost()}, nil, ResumeNobody},
		"nobody in the end":            {longChat, []*counting{lost(), {lose: after(1, atOnce)}, {lose: after(1, atOnce)}, {}}, nil, ResumeBudget},
		"no retries":                   {longChat, []*counting{lost(), {}}, func(c *Config) { c.Limits.Retries = -1 }, ResumeBudget},
		"no memory":                    {longChat, []*counting{lost(), {}}, func(c *Config) { c.Limits.BodiesBytes = bodyCopies*int64(len(longChat)+1) + 16 }, ResumeMemory},
		"more than a body":             {longChat, []*counting{{lose: after(5, atOnce), claims: 1000}, {}}, func(c *Config) { c.Limits.BodyBytes = 1000 }, ResumeLength},
		"more ids than a body of them": {longChat, []*counting{{lose: after(5, atOnce), claims: 300}, {}}, func(c *Config) { c.Limits.BodyBytes = 1000 }, ResumeLength},
		"more than the context":        {longChat, []*counting{{lose: after(5, atOnce), claims: 5000}, {}}, nil, ResumeLength},
		"no known room": {strings.Replace(longChat, `,"max_tokens":9`, `,"max_completion_tokens":null,"max_tokens":9`, 1), []*counting{lost(), {}}, func(c *Config) {
			c.Models = func() []Model { return []Model{{ID: "m", MaxModelLen: 8}} }
		}, ResumeLength},
	} {
		var told outcomes
		g := newRig(t, func(cfg *Config) {
			cfg.Limits.Continue = true
			cfg.Models = func() []Model { return []Model{{ID: "m", MaxModelLen: 4096}} }
			cfg.Resumed = told.add
			if c.change != nil {
				c.change(cfg)
			}
		}, handlersOf(c.engines)...)
		for _, target := range g.targets {
			target.Tokens = true
		}
		a := g.chat(c.body)
		if a.err == nil || !strings.Contains(a.body, " w5") || !strings.Contains(a.body, "the connection to the replica was lost") || strings.Contains(a.body, "DONE") {
			t.Errorf("%s: %v %s", name, a.err, a.body)
		}
		if !told.are(c.want) {
			t.Errorf("%s: told %v, want %s", name, told.list, c.want)
		}
	}
}

func handlersOf(engines []*counting) (out []http.HandlerFunc) {
	for _, e := range engines {
		out = append(out, e.ServeHTTP)
	}
	return out
}

// TestAnswersAreWhatTheyWere: with continuing on, a stream that nothing happens to
// reads byte for byte as with continuing off (I3), and what was kept is given back.
func TestAnswersAreWhatTheyWere(t *testing.T) {
	for _, body := range []string{longChat, longUsage, strings.Replace(longChat, `"stream"`, `"return_token_ids":true,"stream"`, 1)} {
		var bodies []string
		for _, on := range []bool{false, true} {
			var told outcomes
			e := &counting{}
			g := resumeRig(t, &told, e)
			limits := *g.handler.limits.Load()
			limits.Continue = on
			g.handler.SetLimits(limits)
			a := g.chat(body)
			if !told.are() {
				t.Errorf("told %v", told.list)
			}
			bodies = append(bodies, normal(a.body))
			g.last()
			if used := g.handler.Stats().BodyBytes; used != 0 {
				t.Errorf("%d bytes are still held", used)
			}
		}
		if bodies[0] != bodies[1] {
			t.Errorf("off: %s\non: %s", bodies[0], bodies[1])
		}
	}
}

// normal leaves out what differs from run to run.
func normal(body string) string {
	var out []string
	for line := range strings.SplitSeq(body, "\n") {
		if i, j := strings.Index(line, `"id":`), strings.Index(line, `"model"`); i >= 0 && j > i {
			line = line[:i] + line[j:]
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}

// TestAClientThatLeftIsNotContinued: nobody would read it.
func TestAClientThatLeftIsNotContinued(t *testing.T) {
	var told outcomes
	lost, second := make(chan struct{}), &counting{}
	g := resumeRig(t, &told, &counting{lose: func(_ http.ResponseWriter, made int) {
		if made == 5 {
			<-lost
			panic(http.ErrAbortHandler)
		}
	}}, second)
	ctx, leave := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.front.URL+"/v1/chat/completions", strings.NewReader(longChat))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	leave()
	_ = res.Body.Close()
	if r := g.last(); !r.ClientGone || r.Retried {
		t.Errorf("%+v", r)
	}
	close(lost)
	if second.asked.Load() != nil || !told.are() {
		t.Errorf("the second one was asked %+v, and %v told", second.asked.Load(), told.list)
	}
}
