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
	CacheBytes int               // default 32 MiB
	MaxBlocks  int               // keys per prompt, the rest is not keyed; default 65,536
	Transport  http.RoundTripper // to engines; default a pool of its own
	Now        func() time.Time  // default time.Now
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
	if c.CacheBytes <= 0 {
		c.CacheBytes = 32 << 20
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

	// Chat: the body is that of a chat completion, else of a completion.
	Chat   bool
	Engine string // base URL of a replica to ask; "" for none
	Header http.Header
	// PageTokens is the engine's block size, 0 if it is the grid: events name
	// images by page.
	PageTokens int
	// Body is what to ask it with: the request's fields that decide its
	// tokens, and nothing else, for it also names the answer in the cache.
	Body func() []byte
}

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
	t.tally.counts = make(map[Count]uint64)
	t.tally.models = make(map[string]Scheme)
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

// Resting reports whether a replica is not asked now, because it failed or
// cannot render prompts: better ask another one of the same pool.
func (t *Tokenizer) Resting(engine string) bool {
	return t.abilities.resting(engine, t.cfg.Now())
}

// Keys turns one prompt into keys: token ids as given, else an engine's within
// the deadline, else text. It never fails. About half a ns a token with token
// ids or a cached answer, 1 ns a byte of text.
func (t *Tokenizer) Keys(ctx context.Context, q *Query) Keys {
	k := t.keys(ctx, q)
	t.tally.add(q.Model, &k)
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
		return t.exact(q, Keys{Scheme: Engine, Reason: reason, Hashes: a.hashes, Tokens: a.tokens})
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
	if q.Engine == "" {
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
	if q.Chat {
		head = append(head, 1)
	}
	head = append(head, ':')
	h.Write(head)
	h.Write(body)
	var id identity
	h.Sum(id[:0])
	return id
}

// join finds the flight of an equal question or starts one (I4). A flight
// outlives the caller that started it, but not the deadline.
func (t *Tokenizer) join(q *Query, id identity, body []byte) (*flight, Reason) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if f := t.flights[id]; f != nil {
		return f, ""
	}
	if t.closed {
		return nil, Failed
	}
	render, refusal := t.abilities.ask(q.Engine, t.cfg.Now(), t.cfg.Deadline)
	if refusal != "" {
		return nil, refusal
	}
	f := &flight{done: make(chan struct{})}
	t.flights[id] = f
	t.asking.Add(1)
	question := *q
	go func() {
		defer t.asking.Done()
		t.fly(f, id, &question, body, render)
	}()
	return f, ""
}

func (t *Tokenizer) fly(f *flight, id identity, q *Query, body []byte, render bool) {
	ctx, cancel := context.WithTimeout(t.ctx, t.cfg.Deadline)
	defer cancel()
	f.answer, f.err = t.askEngine(ctx, q, body, render)
	if f.err == nil {
		t.cache.put(id, f.answer)
	}
	t.mu.Lock()
	delete(t.flights, id)
	t.mu.Unlock()
	close(f.done)
}

func reasonOf(err error) Reason {
	switch {
	case err == nil:
		return Asked
	case errors.Is(err, errMissing):
		return Unsupported
	case errors.Is(err, errRejected):
		return Rejected
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return Timeout
	}
	return Failed
}
