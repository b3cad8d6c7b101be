package token

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/banyan-llm/banyan/radix"
)

// Config is what a Tokenizer needs.
type Config struct {
	Hasher *radix.Hasher // required
	Grid   int           // tokens per block, at least 1
	// Mode is auto, engine or text. Auto and engine ask an engine where one
	// answers and else use text; text never asks.
	Mode       string
	Deadline   time.Duration     // longest wait for an engine; default 250 ms
	Late       time.Duration     // so long is an answer waited for that nobody waits for any more; default 5 s
	CacheBytes int               // default 32 MiB
	AskBytes   int64             // of the questions under way, late ones included; beyond, text is hashed; default 64 MiB
	MaxBlocks  int               // keys per prompt, the rest is not keyed; default 65,536
	Transport  http.RoundTripper // to engines; default a pool of its own
	Now        func() time.Time  // default time.Now
	// Inexact is called when prompts of a model begin to get text keys for
	// want of an endpoint to ask, or again and again; nil: nobody is told. It
	// must not block.
	Inexact func(q *Query, why Reason)
}

// validate reports all faults and fills the defaults in.
func (c *Config) validate() error {
	var errs []error
	if c.Hasher == nil {
		errs = append(errs, errors.New("hasher: required"))
	}
	if c.Grid < 1 {
		errs = append(errs, fmt.Errorf("grid: %d is less than 1", c.Grid))
	}
	switch c.Mode {
	case "auto", "engine", "text":
	default:
		errs = append(errs, fmt.Errorf("tokenizer: %q is not auto, engine or text", c.Mode))
	}
	if c.Deadline <= 0 {
		c.Deadline = 250 * time.Millisecond
	}
	if c.Late <= 0 {
		c.Late = 5 * time.Second
	}
	c.Late = max(c.Late, c.Deadline)
	if c.CacheBytes <= 0 {
		c.CacheBytes = 32 << 20
	}
	if c.AskBytes == 0 {
		c.AskBytes = 64 << 20
	}
	if c.MaxBlocks <= 0 {
		c.MaxBlocks = 1 << 16
	}
	if c.Transport == nil {
		c.Transport = &http.Transport{
			MaxIdleConnsPerHost: 64,
			IdleConnTimeout:     4 * time.Second, // uvicorn closes after 5 s
			DisableCompression:  true,
		}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return errors.Join(errs...)
}

// Query is one prompt and where its tokens may come from.
type Query struct {
	Model string
	LoRA  string
	Salt  string // cache salt as the engine will see it, tenant included

	Tokens []uint32 // the prompt as token ids; nil if it is text
	// Text appends the canonical text; nil if there is none.
	Text func(dst []byte) []byte

	Kind Kind // the API of Body
	// Engines are asked in turn until one answers: a render server before a
	// replica. None: nobody can be asked.
	Engines []Oracle
	// PageTokens is the engine's block size, 0 if it is the grid: events name
	// images by page.
	PageTokens int
	// Body is what to ask with: the request's fields that decide its tokens,
	// and nothing else, for it also names the answer in the cache.
	Body func() []byte
	// Ask rewrites a Body for a rung of an engine, or says why that cannot be;
	// nil: every rung takes it as it is. Called later, from another goroutine.
	Ask func(rung Rung, engine string, body []byte) (ask Question, why string)
}

// maxFlights bounds the questions under way, late ones included.
const maxFlights = 256

// bodyCopies is what a question takes for each byte of its body: the body, and
// what is made of it for the rung that is asked.
const bodyCopies = 2

// Tokenizer turns prompts into keys. Safe for concurrent use.
type Tokenizer struct {
	cfg       Config
	cache     *cache
	abilities abilities
	tally     tally
	text      sync.Pool // of *[]byte: canonical text

	ctx    context.Context //nolint:containedctx // ends the questions under way at Close
	cancel context.CancelFunc
	asking sync.WaitGroup

	mu      sync.Mutex
	flights map[identity]*flight
	asked   int64 // bytes of their questions
	closed  bool
}

// flight is one question under way; fields are set before done is closed.
type flight struct {
	done   chan struct{}
	answer answer
	err    error
}

// New returns a Tokenizer; Close it.
func New(cfg Config) (*Tokenizer, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	t := &Tokenizer{cfg: cfg, cache: newCache(cfg.CacheBytes), flights: make(map[identity]*flight)}
	t.abilities.replicas = make(map[string]*ability)
	t.tally = newTally()
	t.text.New = func() any { return new([]byte) }
	t.ctx, t.cancel = context.WithCancel(context.Background())
	return t, nil
}

// Close ends the questions under way and waits for them.
func (t *Tokenizer) Close() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.cancel()
	t.asking.Wait()
	if c, ok := t.cfg.Transport.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// Resting reports whether a server is not asked for prompts of a kind now,
// because it failed or cannot tell their tokens: better ask another one.
func (t *Tokenizer) Resting(o *Oracle, k Kind) bool {
	return t.abilities.resting(o, k, t.cfg.Now())
}

// Why says for people which endpoints of a server are not asked for prompts of
// a kind, and what they answered last; empty if all are asked.
func (t *Tokenizer) Why(o *Oracle, k Kind) string {
	return t.abilities.why(o, k, t.cfg.Now())
}

// Keys turns one prompt into keys: token ids as given, else an engine's within
// the deadline, else text. It never fails. About half a ns a token with token
// ids or a cached answer, 1 ns a byte of text.
func (t *Tokenizer) Keys(ctx context.Context, q *Query) Keys {
	k := t.keys(ctx, q)
	if t.tally.add(q, &k) && t.cfg.Inexact != nil {
		t.cfg.Inexact(q, k.Reason)
	}
	return k
}

func (t *Tokenizer) keys(ctx context.Context, q *Query) Keys {
	if q.Tokens != nil {
		return t.given(q)
	}
	if q.Text == nil {
		return Keys{Scheme: None, Reason: NoPrompt, Grid: t.cfg.Grid}
	}
	a, reason := t.fromEngine(ctx, q)
	if reason == Asked || reason == Cached {
		return t.exact(q, Keys{Scheme: Engine, Reason: reason, Hashes: a.hashes, Next: a.next, Tokens: a.tokens, from: a.from})
	}
	scratch := t.text.Get().(*[]byte)
	defer t.text.Put(scratch)
	*scratch = q.Text((*scratch)[:0])
	k := textKeys(t.cfg.Hasher, TextRoot(t.cfg.Hasher, q.Model, q.LoRA, q.Salt), *scratch, t.cfg.MaxBlocks)
	k.Reason = reason
	return k
}

// given keys a prompt of token ids, hashes and keys in one pass.
func (t *Tokenizer) given(q *Query) Keys {
	k := Keys{Scheme: Ids, Reason: Given, Grid: t.cfg.Grid, Root: TokenRoot(t.cfg.Hasher, q.LoRA, q.Salt), Tokens: len(q.Tokens)}
	blocks := min(len(q.Tokens)/t.cfg.Grid, t.cfg.MaxBlocks)
	k.Hashes, k.Keys = t.cfg.Hasher.AppendBlocks(
		make([]radix.TokenHash, 0, blocks), make([]radix.Key, 0, blocks), k.Root, t.cfg.Grid, q.Tokens[:blocks*t.cfg.Grid])
	k.Next = t.next(q.Tokens)
	return k
}

func (t *Tokenizer) exact(q *Query, k Keys) Keys {
	k.Grid = t.cfg.Grid
	k.Root = TokenRoot(t.cfg.Hasher, q.LoRA, q.Salt)
	k.chain(t.cfg.Hasher)
	return k
}

// fromEngine asks the cache, a question already under way, or the engine. Any
// reason but Asked and Cached means that there is no answer.
func (t *Tokenizer) fromEngine(ctx context.Context, q *Query) (answer, Reason) {
	switch {
	case t.cfg.Mode == "text":
		return answer{}, Configured
	case q.Body == nil:
		return answer{}, NoEngine
	}
	body := q.Body()
	id := identify(q, body)
	if a, ok := t.cache.get(id); ok {
		return a, Cached
	}
	if len(q.Engines) == 0 {
		return answer{}, NoEngine
	}
	f, refusal := t.join(q, id, body)
	if refusal != "" {
		return answer{}, refusal
	}
	wait := time.NewTimer(t.cfg.Deadline)
	defer wait.Stop()
	select {
	case <-f.done:
		return f.answer, reasonOf(f.err)
	case <-wait.C:
	case <-ctx.Done():
	}
	return answer{}, Timeout
}

// identify names a question: whatever its answer depends on.
func identify(q *Query, body []byte) identity {
	h := sha256.New()
	head := binary.LittleEndian.AppendUint32(make([]byte, 0, 8), uint32(q.PageTokens))
	head = append(head, byte(q.Kind), ':')
	h.Write(head)
	h.Write(body)
	var id identity
	h.Sum(id[:0])
	return id
}

// join finds the flight of an equal question or starts one (I4). A flight
// outlives the callers that wait for it: its answer is kept for the next one.
func (t *Tokenizer) join(q *Query, id identity, body []byte) (*flight, Reason) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if f := t.flights[id]; f != nil {
		return f, ""
	}
	if t.closed {
		return nil, Failed
	}
	size := bodyCopies * int64(len(body))
	if len(t.flights) >= maxFlights || t.asked+size > t.cfg.AskBytes {
		return nil, Busy
	}
	now := t.cfg.Now()
	open := make([][maxSteps]bool, len(q.Engines))
	var refusal Reason
	anyone := false
	for i := range q.Engines {
		var why Reason
		if open[i], why = t.abilities.ask(&q.Engines[i], q.Kind, now, t.cfg.Deadline); why == "" {
			anyone = true
		} else {
			open[i], refusal = [maxSteps]bool{}, why
		}
	}
	if !anyone {
		return nil, refusal
	}
	f := &flight{done: make(chan struct{})}
	t.flights[id] = f
	t.asked += size
	t.asking.Add(1)
	question := *q
	go func() {
		defer t.asking.Done()
		t.fly(f, id, &question, body, open, now)
		t.mu.Lock()
		t.asked -= size
		t.mu.Unlock()
	}()
	return f, ""
}

func (t *Tokenizer) fly(f *flight, id identity, q *Query, body []byte, open [][maxSteps]bool, begin time.Time) {
	ctx, cancel := context.WithTimeout(t.ctx, t.cfg.Late)
	defer cancel()
	f.answer, f.err = t.askAll(ctx, q, body, open, begin)
	if f.err == nil {
		f.answer.from.id = id
		t.cache.put(id, f.answer)
	}
	t.mu.Lock()
	delete(t.flights, id)
	t.mu.Unlock()
	close(f.done)
}

// Verify compares the length of keys that an engine was asked for with what
// the engine then counted in the same prompt. A rung that is wrong again and
// again (a model whose chats are not rendered by its template, a server flag
// that changes prompts) is not asked for a while: its keys would never match.
// One that asked with a conversion is not asked after the first difference.
func (t *Tokenizer) Verify(k *Keys, promptTokens int) {
	if k.Scheme != Engine || k.from == nil {
		return
	}
	off := promptTokens - k.Tokens
	right := off == 0 || !k.from.converted && -sameEnd <= off && off <= sameEnd
	if !right {
		t.cache.drop(k.from.id)
		t.tally.differed(k.from.name)
	}
	t.abilities.judged(k.from, right, t.cfg.Now(), fmt.Sprintf("%d, not %d", k.Tokens, promptTokens))
}

// sameEnd is how many tokens a count may be off: some engines leave the tokens
// that open the answer out of it, which are at most the last block's.
const sameEnd = 4

func reasonOf(err error) Reason {
	switch {
	case err == nil:
		return Asked
	case errors.Is(err, errMissing):
		return Unsupported
	case errors.Is(err, errRejected):
		return Rejected
	case errors.Is(err, errShape):
		return Unaskable
	case errors.Is(err, errDiffers):
		return Differs
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return Timeout
	}
	return Failed
}
