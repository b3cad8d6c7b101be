package workload

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Limits of a trace file.
const (
	maxLineBytes   = 16 << 20
	maxTraceTokens = 16 << 20 // tokens of one request
)

// Block sizes of the known traces, tokens a hash id.
const (
	mooncakeBlock = 512
	agentBlock    = 64
)

// bucketMillis is the grid on which the Mooncake conversation trace was
// stamped; stamps are spread over it before anything queues. Its clock
// wavers: a stamp lies up to offGridMillis beside the grid (2,226 of 7,851 at
// 2,999 and 6 at 1), and 24 of the 12,031 published ones lie elsewhere. So the
// grid counts if all but a share of offGridShare keep it; the rest stay where
// they are.
const (
	bucketMillis  = 3000
	offGridMillis = 1
	offGridShare  = 0.01
)

// ReadFile reads a trace file; the workload is named after it.
func ReadFile(path string, seed uint64) (*Workload, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read trace: %w", err)
	}
	defer f.Close()
	w, err := ReadTrace(f, seed)
	if err != nil {
		return nil, fmt.Errorf("read trace %s: %w", path, err)
	}
	w.Name = strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	return w, nil
}

// ReadTrace reads JSON lines in the Mooncake form (timestamp, input_length,
// output_length, hash_ids of 512 tokens), the agent form (the same with
// 64-token blocks and session), the form of agentx-harness (agentx.go) or the
// sharegpt form (input_tok_ids, output_tok_ids, arrival_time_ns). Where 99 of 100
// stamps lie on the 3 s grid, or a millisecond beside it, those are spread over
// it by seed, and Workload.Told says so.
func ReadTrace(r io.Reader, seed uint64) (*Workload, error) {
	t := tracer{seed: seed, w: &Workload{Name: "trace"}}
	in := bufio.NewScanner(r)
	in.Buffer(make([]byte, 64<<10), maxLineBytes)
	line := 0
	for in.Scan() {
		line++
		if len(in.Bytes()) == 0 {
			continue
		}
		if err := t.line(in.Bytes()); err != nil {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
	}
	switch err := in.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, fmt.Errorf("line %d: longer than %d MiB", line+1, maxLineBytes>>20)
	case err != nil:
		return nil, err
	}
	if len(t.w.Requests) == 0 {
		return nil, errors.New("no requests")
	}
	t.finish()
	return t.w, nil
}

// traceLine is the union of the known forms. Pointers tell absent from zero.
type traceLine struct {
	Timestamp *float64 `json:"timestamp"` // ms
	Input     *int     `json:"input_length"`
	Output    *int     `json:"output_length"`
	Hashes    []uint64 `json:"hash_ids"`
	Session   *int     `json:"session"`

	SessionID *string  `json:"session_id"`
	Delay     *float64 `json:"delay"` // ms

	Arrival *float64 `json:"arrival_time_ns"`
	Prompt  []uint32 `json:"input_tok_ids"`
	Reply   []uint32 `json:"output_tok_ids"`
	InToks  int      `json:"input_toks"`
	OutToks int      `json:"output_toks"`
}

type tracer struct {
	w       *Workload
	seed    uint64
	block   int // tokens a hash id; 0: nothing read yet
	salt    uint64
	offGrid int // stamps that lie off the 3 s grid

	chats chats

	turns map[int]int    // agent traces: session -> turns so far
	owner map[uint64]int // Mooncake traces: block -> session that brought it
}

func (t *tracer) line(b []byte) error {
	var l traceLine
	if err := json.Unmarshal(b, &l); err != nil {
		return err
	}
	if l.Arrival != nil {
		return t.recorded(&l)
	}
	if l.SessionID != nil {
		return t.chat(&l)
	}
	return t.hashed(&l)
}

// recorded adds a request with token ids.
func (t *tracer) recorded(l *traceLine) error {
	if len(l.Prompt) == 0 || len(l.Reply) == 0 {
		return errors.New("input_tok_ids and output_tok_ids must not be empty")
	}
	if !valid(*l.Arrival) {
		return fmt.Errorf("arrival_time_ns is %g", *l.Arrival)
	}
	t.offGrid++
	t.add(Request{
		At: *l.Arrival / 1e9, Session: -1, After: -1, PromptIDs: l.Prompt, ReplyIDs: l.Reply,
		Tokens: len(l.Prompt), Output: len(l.Reply),
	})
	return nil
}

// hashed adds a request whose prompt is given as chained block ids.
func (t *tracer) hashed(l *traceLine) error {
	switch {
	case l.Timestamp == nil || l.Input == nil || l.Output == nil:
		return errors.New("timestamp, input_length and output_length are required")
	case !valid(*l.Timestamp):
		return fmt.Errorf("timestamp is %g", *l.Timestamp)
	case *l.Input < 0 || *l.Input > maxTraceTokens:
		return fmt.Errorf("input_length is %d, want 0 to %d", *l.Input, maxTraceTokens)
	case *l.Output < 0 || *l.Output > maxTraceTokens:
		return fmt.Errorf("output_length is %d, want 0 to %d", *l.Output, maxTraceTokens)
	}
	if t.block == 0 {
		t.start(l.Session != nil)
	}
	if need := (*l.Input + t.block - 1) / t.block; len(l.Hashes) > need {
		return fmt.Errorf("%d hash_ids for %d tokens in blocks of %d", len(l.Hashes), *l.Input, t.block)
	}
	r := Request{
		At: *l.Timestamp / 1e3, After: -1, Prompt: t.segments(l.Hashes, *l.Input),
		Tokens: max(*l.Input, 1), Output: max(*l.Output, 1),
	}
	if l.Session != nil {
		r.Session = *l.Session
		r.Turn = t.turns[r.Session]
		t.turns[r.Session]++
	} else {
		r.Session, r.Turn = t.guessSession(l.Hashes)
	}
	if beside(*l.Timestamp) {
		t.offGrid++
	}
	t.add(r)
	return nil
}

func (t *tracer) start(agents bool) {
	t.block = mooncakeBlock
	if agents {
		t.block = agentBlock
	}
	t.w.Block = t.block
	t.salt = mix(keySeed, uint64(t.block))
	t.turns, t.owner = make(map[int]int), make(map[uint64]int)
}

// segments turns block ids into segments; tokens that no id covers get one of
// their own.
func (t *tracer) segments(ids []uint64, tokens int) []Segment {
	out := make([]Segment, 0, len(ids)+1)
	for _, id := range ids {
		n := min(t.block, tokens)
		out = append(out, Segment{ID: mix(t.salt, id), Tokens: n})
		tokens -= n
	}
	if tokens > 0 || len(out) == 0 {
		own := mix(t.salt^1, uint64(len(t.w.Requests)))
		out = append(out, Segment{ID: own, Tokens: max(tokens, 1)})
	}
	return out
}

// guessSession gives a request to the session that first had its deepest
// known block, leaving out block 0, which nearly all prompts share.
func (t *tracer) guessSession(ids []uint64) (session, turn int) {
	session = len(t.turns)
	for i := len(ids) - 1; i > 0; i-- {
		if known, ok := t.owner[ids[i]]; ok {
			session = known
			break
		}
	}
	for _, id := range ids {
		if _, ok := t.owner[id]; !ok {
			t.owner[id] = session
		}
	}
	turn = t.turns[session]
	t.turns[session]++
	return session, turn
}

func (t *tracer) add(r Request) {
	r.ID = len(t.w.Requests)
	r.Reply = mix(t.salt^2, uint64(r.ID))
	t.w.Requests = append(t.w.Requests, r)
}

// finish spreads quantised stamps and sorts by time.
func (t *tracer) finish() {
	reqs := t.w.Requests
	if len(t.chats.open) > 0 {
		t.finishChats()
		return
	}
	if len(reqs) > 1 && float64(t.offGrid) <= offGridShare*float64(len(reqs)) {
		rnd := rand.New(rand.NewPCG(t.seed, keySeed))
		for i := range reqs {
			if at := reqs[i].At * 1e3; !beside(at) {
				reqs[i].At = (onGrid(at) + rnd.Float64()*bucketMillis) / 1e3
			}
		}
		t.w.Told = fmt.Sprintf("%d of %d stamps lie on a grid of 3 s and were spread over it", len(reqs)-t.offGrid, len(reqs))
	}
	slices.SortStableFunc(reqs, func(a, b Request) int { return cmp.Compare(a.At, b.At) })
	for i := range reqs {
		reqs[i].ID = i
	}
}

// beside reports whether a stamp in milliseconds lies off the 3 s grid. Seconds
// and back cost it less than a microsecond.
func beside(stamp float64) bool { return math.Abs(stamp-onGrid(stamp)) > offGridMillis+1e-3 }

// onGrid is the point of the 3 s grid nearest to a stamp in milliseconds.
func onGrid(stamp float64) float64 { return bucketMillis * math.Round(stamp/bucketMillis) }

func valid(x float64) bool { return x >= 0 && x < 1e18 }
