package replica

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// tiny is a profile with round figures: 1 s a prefill step + 0.1 s a token,
// 0.5 s a decode step.
var tiny = Profile{Name: "tiny", A: 1, B: .1, D0: .5, Chunk: 64, KVTokens: 64 * 16}

func newTiny(t testing.TB, cfg Config) *Replica {
	t.Helper()
	if cfg.Profile.Name == "" {
		cfg.Profile = tiny
	}
	r, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func mustSubmit(t testing.TB, r *Replica, now float64, req Request) {
	t.Helper()
	if err := r.Submit(now, req); err != nil {
		t.Fatal(err)
	}
}

// drain runs the replica until it is idle.
func drain(r *Replica) (kv []KVEvent, tokens []Progress) {
	for {
		res, ok := r.Step(math.Inf(1))
		if !ok {
			return kv, tokens
		}
		kv = append(kv, slices.Clone(res.KV)...)
		tokens = append(tokens, slices.Clone(res.Tokens)...)
	}
}

// keysOf names n pages of a chain.
func keysOf(chain string, n int) []uint64 {
	keys := make([]uint64, n)
	for i := range keys {
		h := uint64(14695981039346656037)
		for _, c := range fmt.Sprint(chain, i) {
			h = (h ^ uint64(c)) * 1099511628211
		}
		keys[i] = h
	}
	return keys
}

func TestStepTimesFollowTheFormula(t *testing.T) {
	p := Profile{A: 1, B: 2, CQ: .5, D0: 3, D1: 4, D2: .25}
	for _, c := range []struct {
		w    Work
		want float64
	}{
		{Work{Prefill: 3, Square: 9}, 1 + 6 + 4.5},
		{Work{Decodes: 2, Context: 8}, 3 + 8 + 2},
		{Work{Prefill: 3, Square: 9, Decodes: 2, Context: 8}, 13},
		{Work{Prefill: 3, Square: 9, Decodes: 1, Context: 8}, 11.5},
	} {
		if got := p.StepTime(c.w); got != c.want {
			t.Errorf("%+v takes %g s, want %g", c.w, got, c.want)
		}
	}
	l := Profile{Linear: []Point{{1, 1}, {11, 2}, {21, 4}}, D1: .5, D2: .25, CQ: .125}
	for tokens, want := range map[int]float64{1: 1, 6: 1.5, 11: 2, 16: 3, 31: 6} {
		if got := l.StepTime(Work{Prefill: tokens}); math.Abs(got-want) > 1e-12 {
			t.Errorf("linear %d tokens take %g s, want %g", tokens, got, want)
		}
	}
	if got := l.StepTime(Work{Prefill: 4, Square: 8, Decodes: 2, Context: 12}); math.Abs(got-(1.5+1+3+1)) > 1e-12 {
		t.Errorf("mixed linear step takes %g s", got)
	}
}

func TestChunkedPrefillSharesStepsWithDecodes(t *testing.T) {
	r := newTiny(t, Config{EveryToken: true, NoCache: true})
	mustSubmit(t, r, 0, Request{ID: 1, Prompt: 64, Output: 4})
	mustSubmit(t, r, 0, Request{ID: 2, Prompt: 100, Output: 1})
	// Step 1: 64 of request 1. Step 2: its second token and 63 of request 2.
	// Step 3: its third token and the last 37. Step 4: its fourth token.
	var ends []float64
	var got []Progress
	for {
		res, ok := r.Step(math.Inf(1))
		if !ok {
			break
		}
		ends = append(ends, res.End)
		got = append(got, slices.Clone(res.Tokens)...)
	}
	want := []float64{7.4, 7.4 + 7.3, 7.4 + 7.3 + 4.7, 7.4 + 7.3 + 4.7 + .5}
	if len(ends) != len(want) {
		t.Fatalf("%d steps end at %v, want %v", len(ends), ends, want)
	}
	for i := range want {
		if math.Abs(ends[i]-want[i]) > 1e-9 {
			t.Errorf("step %d ends at %g, want %g", i, ends[i], want[i])
		}
	}
	tokens := []Progress{
		{ID: 1, Produced: 1, First: true},
		{ID: 1, Produced: 2},
		{ID: 1, Produced: 3},
		{ID: 2, Produced: 1, First: true, Done: true},
		{ID: 1, Produced: 4, Done: true},
	}
	if !reflect.DeepEqual(got, tokens) {
		t.Errorf("tokens %+v\nwant %+v", got, tokens)
	}
}

// I5: a fully cached prompt still computes its last token; with a prompt that
// ends on a page's edge that makes a second physical copy of the last page.
func TestLastPageIsComputedAgainAndStoredTwice(t *testing.T) {
	r := newTiny(t, Config{})
	keys := keysOf("a", 4)
	mustSubmit(t, r, 0, Request{ID: 1, Prompt: 64, Output: 1, Keys: keys})
	drain(r)
	mustSubmit(t, r, 100, Request{ID: 2, Prompt: 64, Output: 1, Keys: keys})
	kv, tokens := drain(r)
	if tokens[0].Cached != 48 {
		t.Errorf("cached %d tokens, want 48", tokens[0].Cached)
	}
	want := []KVEvent{{Kind: Stored, ID: 2, First: 3, Parent: keys[2], Keys: keys[3:4]}}
	if !reflect.DeepEqual(kv, want) {
		t.Errorf("events %+v, want %+v", kv, want)
	}
	if n := r.Copies()[keys[3]]; n != 2 {
		t.Errorf("%d copies of the last page, want 2", n)
	}
}

func TestUniqueReportsPresenceNotCopies(t *testing.T) {
	r := newTiny(t, Config{Unique: true, Blocks: 8})
	keys := keysOf("a", 4)
	for id := range 2 {
		mustSubmit(t, r, float64(100*id), Request{ID: uint64(id), Prompt: 64, Output: 1, Keys: keys})
		kv, _ := drain(r)
		if stored := len(kv); stored != 1-id {
			t.Errorf("request %d told %d events, want %d", id, stored, 1-id)
		}
	}
	mustSubmit(t, r, 300, Request{ID: 3, Prompt: 127, Output: 1, Keys: keysOf("b", 8)})
	kv, _ := drain(r)
	removed := 0
	for _, ev := range kv {
		if ev.Kind == Removed {
			removed++
		}
	}
	if removed != 4 {
		t.Errorf("%d removals for 4 keys in 5 pages", removed)
	}
}

// I3: eviction takes the last page of the oldest request first.
func TestTailIsEvictedFirst(t *testing.T) {
	r := newTiny(t, Config{Blocks: 8})
	a, b := keysOf("a", 4), keysOf("b", 4)
	mustSubmit(t, r, 0, Request{ID: 1, Prompt: 64, Output: 1, Keys: a})
	mustSubmit(t, r, 0, Request{ID: 2, Prompt: 64, Output: 1, Keys: b})
	drain(r)
	mustSubmit(t, r, 100, Request{ID: 3, Prompt: 40, Output: 1, Keys: keysOf("c", 2)})
	kv, _ := drain(r)
	var gone []uint64
	for _, ev := range kv {
		if ev.Kind == Removed {
			gone = append(gone, ev.Key)
		}
	}
	if want := []uint64{a[3], a[2], a[1]}; !slices.Equal(gone, want) {
		t.Errorf("evicted %v, want %v", gone, want)
	}
}

func TestYoungestIsPreemptedAndRecomputed(t *testing.T) {
	r := newTiny(t, Config{Blocks: 8, Watermark: .01})
	mustSubmit(t, r, 0, Request{ID: 1, Prompt: 48, Output: 48, Keys: keysOf("a", 6)})
	mustSubmit(t, r, 0, Request{ID: 2, Prompt: 48, Output: 48, Keys: keysOf("b", 6)})
	_, tokens := drain(r)
	var done []uint64
	for _, p := range tokens {
		if p.Done {
			done = append(done, p.ID)
		}
		if p.Cached != 0 {
			t.Errorf("request %d counts %d cached tokens: its own", p.ID, p.Cached)
		}
	}
	st := r.Stats()
	if !slices.Equal(done, []uint64{1, 2}) || st.Preempted == 0 || st.Generated != 96 {
		t.Errorf("done %v, %d preemptions, %d tokens", done, st.Preempted, st.Generated)
	}
}

func TestPreemptedGoesFirstAgain(t *testing.T) {
	r := newTiny(t, Config{Blocks: 8, MaxSeqs: 2})
	mustSubmit(t, r, 0, Request{ID: 1, Prompt: 48, Output: 48})
	mustSubmit(t, r, 0, Request{ID: 2, Prompt: 48, Output: 48})
	mustSubmit(t, r, 0, Request{ID: 3, Prompt: 16, Output: 1})
	_, tokens := drain(r)
	var done []uint64
	for _, p := range tokens {
		if p.Done {
			done = append(done, p.ID)
		}
	}
	if want := []uint64{1, 3, 2}; r.Stats().Preempted == 0 || !slices.Equal(done, want) {
		t.Errorf("done %v after %d preemptions, want %v", done, r.Stats().Preempted, want)
	}
}

func TestAdmissionKeepsTheWatermark(t *testing.T) {
	r := newTiny(t, Config{Blocks: 20, Watermark: .5})
	mustSubmit(t, r, 0, Request{ID: 1, Prompt: 16, Output: 40})
	mustSubmit(t, r, 0, Request{ID: 2, Prompt: 160, Output: 1})
	r.Step(math.Inf(1))
	if st := r.Stats(); st.Running != 1 || st.Waiting != 1 {
		t.Errorf("%d running, %d waiting beside a watermark of 10 pages", st.Running, st.Waiting)
	}
	drain(r)
	if st := r.Stats(); st.Finished != 2 {
		t.Errorf("%d finished", st.Finished)
	}
}

func TestGivenTokensAreNotComputed(t *testing.T) {
	r := newTiny(t, Config{})
	keys := keysOf("a", 4)
	mustSubmit(t, r, 0, Request{ID: 1, Prompt: 64, Output: 1, Keys: keys, Given: 64})
	kv, tokens := drain(r)
	if st := r.Stats(); st.Computed != 1 || tokens[0].Cached != 63 {
		t.Errorf("computed %d tokens, %d reported cached", st.Computed, tokens[0].Cached)
	}
	if len(kv) != 1 || !slices.Equal(kv[0].Keys, keys) {
		t.Errorf("events %+v", kv)
	}
}

func TestSubmitRefuses(t *testing.T) {
	r := newTiny(t, Config{Blocks: 4})
	if err := r.Submit(0, Request{ID: 1, Prompt: 60, Output: 5}); !errors.Is(err, ErrTooLong) {
		t.Errorf("65 tokens in 64: %v", err)
	}
	for _, req := range []Request{{ID: 1, Prompt: 0, Output: 1}, {ID: 1, Prompt: 1, Output: 0}} {
		if r.Submit(0, req) == nil {
			t.Errorf("accepted %+v", req)
		}
	}
	mustSubmit(t, r, 0, Request{ID: 1, Prompt: 1, Output: 1})
	if r.Submit(0, Request{ID: 1, Prompt: 1, Output: 1}) == nil {
		t.Error("accepted a live id twice")
	}
}

func TestConfigReportsEveryFault(t *testing.T) {
	_, err := New(Config{Page: -1, MaxSeqs: -1, Watermark: 2, Noise: .1, Profile: Profile{A: -1}})
	if err == nil {
		t.Fatal("accepted")
	}
	for _, word := range []string{"page", "max_seqs", "watermark", "noise", "chunk", "profile"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%q does not name %s", err, word)
		}
	}
}

func TestEveryProfileRuns(t *testing.T) {
	names := slices.Sorted(maps.Keys(profiles()))
	if len(names) < 10 {
		t.Errorf("only %v", names)
	}
	for _, name := range names {
		p, err := ProfileByName(name)
		if err != nil {
			t.Fatal(err)
		}
		r := newTiny(t, Config{Profile: p})
		mustSubmit(t, r, 0, Request{ID: 1, Prompt: 1000, Output: 10})
		drain(r)
		if st := r.Stats(); st.Finished != 1 || st.Busy <= 0 || st.Busy > 10 {
			t.Errorf("%s: 1,000 tokens in and 10 out took %g s", name, st.Busy)
		}
	}
	if _, err := ProfileByName("nope"); err == nil {
		t.Error("unknown profile accepted")
	}
	q32, _ := ProfileByName("q32")
	if took := q32.Prefill(8192, 0); math.Abs(took-.41) > .01 {
		t.Errorf("q32 computes 8,192 tokens in %g s, published .41", took)
	}
}

// machine drives a replica with random requests beside a naive account of
// what its events and results promise.
type machine struct {
	r      *Replica
	cfg    Config
	now    float64
	next   uint64
	open   map[uint64]Request
	made   map[uint64]int
	gone   map[uint64]bool // aborted
	copies map[uint64]int  // folded from events
}

func newMachine(t *rapid.T) *machine {
	m := &machine{
		cfg: Config{
			Profile: tiny, EveryToken: true,
			Page:    rapid.SampledFrom([]int{1, 4, 16}).Draw(t, "page"),
			Blocks:  rapid.IntRange(8, 40).Draw(t, "blocks"),
			MaxSeqs: rapid.IntRange(1, 6).Draw(t, "seqs"),
			Chunk:   rapid.IntRange(1, 48).Draw(t, "chunk"),
			Unique:  rapid.Bool().Draw(t, "unique"),
		},
		open: map[uint64]Request{}, made: map[uint64]int{}, gone: map[uint64]bool{}, copies: map[uint64]int{},
	}
	r, err := New(m.cfg)
	if err != nil {
		t.Fatal(err)
	}
	m.r = r
	return m
}

func (m *machine) submit(t *rapid.T) {
	m.next++
	room := m.cfg.Blocks * m.cfg.Page
	prompt := rapid.IntRange(1, room-1).Draw(t, "prompt")
	if edge := prompt - prompt%m.cfg.Page; edge > 0 && rapid.IntRange(0, 3).Draw(t, "edge") > 0 {
		prompt = edge // makes second copies
	}
	req := Request{ID: m.next, Prompt: prompt, Output: rapid.IntRange(1, min(40, room-prompt)).Draw(t, "output")}
	req.Given = rapid.SampledFrom([]int{0, 0, prompt / 2, prompt}).Draw(t, "given")
	// Chains fork: the first pages of all, then of each family.
	shared := rapid.SampledFrom([]int{0, 3}).Draw(t, "shared")
	family := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "family")
	req.Keys = append(keysOf("root", shared), keysOf(fmt.Sprint(family, shared), room/m.cfg.Page)...)
	req.Keys = req.Keys[:(req.Prompt+req.Output)/m.cfg.Page]
	if err := m.r.Submit(m.now, req); err != nil {
		t.Fatal(err)
	}
	m.open[req.ID] = req
}

func (m *machine) step(t *rapid.T) {
	before := m.r.Stats()
	res, ok := m.r.Step(m.r.Next())
	if !ok {
		if len(m.open)-len(m.gone) > 0 && before.Running+before.Waiting > 0 {
			t.Fatalf("idle with %d open requests", len(m.open))
		}
		return
	}
	if !(res.End > res.Start) || res.Start < m.now && before.Steps > 0 && res.Start < 0 {
		t.Fatalf("step from %g to %g at %g", res.Start, res.End, m.now)
	}
	m.now = max(m.now, res.End)
	m.fold(t, res.KV)
	for _, p := range res.Tokens {
		m.progress(t, p)
	}
	if after := m.r.Stats(); int(after.Computed-before.Computed) > m.cfg.Chunk {
		t.Fatalf("I8: %d tokens in a step of %d", after.Computed-before.Computed, m.cfg.Chunk)
	}
}

// fold is I4.
func (m *machine) fold(t *rapid.T, kv []KVEvent) {
	for _, ev := range kv {
		switch ev.Kind {
		case Stored:
			req := m.open[ev.ID]
			if !slices.Equal(ev.Keys, req.Keys[ev.First:ev.First+len(ev.Keys)]) || ev.First > 0 && ev.Parent != req.Keys[ev.First-1] {
				t.Fatalf("store %+v is not a run of request %d", ev, ev.ID)
			}
			for _, key := range ev.Keys {
				m.copies[key]++
			}
		case Removed:
			if m.copies[ev.Key]--; m.copies[ev.Key] == 0 {
				delete(m.copies, ev.Key)
			}
		}
	}
	for key, n := range m.copies {
		if n < 0 || m.cfg.Unique && n > 1 {
			t.Fatalf("I4: %d copies of %x", n, key)
		}
	}
	if truth := m.r.Copies(); !maps.Equal(truth, m.copies) {
		t.Fatalf("I4: events give %v, the cache is %v", m.copies, truth)
	}
}

func (m *machine) progress(t *rapid.T, p Progress) {
	req, ok := m.open[p.ID]
	if !ok || m.gone[p.ID] {
		t.Fatalf("token for a request that is not there: %+v", p)
	}
	if m.made[p.ID]++; p.Produced != m.made[p.ID] || p.First != (p.Produced == 1) || p.Done != (p.Produced == req.Output) {
		t.Fatalf("I6: progress %+v after %d tokens of %d", p, m.made[p.ID]-1, req.Output)
	}
	if p.Cached >= req.Prompt {
		t.Fatalf("I5: %d of %d tokens cached", p.Cached, req.Prompt)
	}
	if p.Done {
		delete(m.open, p.ID)
	}
}

func (m *machine) abort(t *rapid.T) {
	ids := slices.Sorted(maps.Keys(m.open))
	if len(ids) == 0 {
		return
	}
	id := rapid.SampledFrom(ids).Draw(t, "id")
	if m.r.Abort(id) == m.gone[id] {
		t.Fatalf("abort of %d", id)
	}
	m.gone[id] = true
	if !m.r.Live(id) {
		delete(m.open, id)
		delete(m.gone, id)
	}
}

// check is I1 and I2 on the pool's own structure.
func (m *machine) check(t *rapid.T) {
	for id := range m.gone { // left with their step
		if !m.r.Live(id) {
			delete(m.open, id)
			delete(m.gone, id)
		}
	}
	p := m.r.pool
	refs := make(map[int32]int32)
	for _, s := range m.r.running {
		for _, at := range s.pages {
			refs[at]++
		}
	}
	for _, s := range m.r.waiting.all() {
		if len(s.pages) > 0 {
			t.Fatal("I1: a waiting request holds pages")
		}
	}
	listed := make(map[int32]bool)
	for at := p.pages[0].next; at != 0; at = p.pages[at].next {
		if listed[at] {
			t.Fatal("I1: the free list has a loop")
		}
		listed[at] = true
	}
	for i := 1; i < len(p.pages); i++ {
		at := int32(i)
		if p.pages[at].ref != refs[at] || listed[at] != (refs[at] == 0) {
			t.Fatalf("I1: page %d has %d references of %d, listed %v", at, p.pages[at].ref, refs[at], listed[at])
		}
	}
	if len(listed) != p.listed || p.free()+p.used() != m.cfg.Blocks {
		t.Fatalf("I1: %d free and %d used of %d pages", p.free(), p.used(), m.cfg.Blocks)
	}
}

func TestReplicaKeepsItsInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine(t)
		t.Repeat(map[string]func(*rapid.T){
			"submit": m.submit, "step": m.step, "step2": m.step, "step3": m.step, "abort": m.abort, "": m.check,
		})
		for limit := 100_000; m.r.Stats().Running+m.r.Stats().Waiting > 0; limit-- {
			if limit == 0 {
				t.Fatal("I6: never done")
			}
			m.step(t)
		}
		m.check(t)
		if len(m.open) != 0 || m.r.Stats().Used != 0 {
			t.Fatalf("I6: %d requests unfinished, %d pages held", len(m.open), m.r.Stats().Used)
		}
	})
}

// I7: the same inputs give the same results, noise included.
func TestRunsAreDeterministic(t *testing.T) {
	run := func() (out []float64) {
		p, _ := ProfileByName("demo")
		r := newTiny(t, Config{Profile: p, Blocks: 200, Noise: .1, Rand: rand.New(rand.NewPCG(1, 2))})
		rnd := rand.New(rand.NewPCG(3, 4))
		now := 0.0
		for id := range uint64(300) {
			now += rnd.ExpFloat64() / 50
			for {
				res, ok := r.Step(now)
				if !ok {
					break
				}
				out = append(out, res.End, float64(len(res.KV)))
			}
			n := 1 + rnd.IntN(100)
			mustSubmit(t, r, now, Request{ID: id, Prompt: 10 * n, Output: n, Keys: keysOf(fmt.Sprint("d", n%7), 10*n/16)})
		}
		return out
	}
	if a, b := run(), run(); !slices.Equal(a, b) {
		t.Error("two runs differ")
	}
}

func TestClearIsRefusedWhileBusy(t *testing.T) {
	r := newTiny(t, Config{})
	keys := keysOf("a", 2)
	mustSubmit(t, r, 0, Request{ID: 1, Prompt: 32, Output: 1, Keys: keys})
	if r.Clear() {
		t.Error("cleared under a running request")
	}
	drain(r)
	if got := r.Cached(keys, 40); got != 32 {
		t.Errorf("%d tokens cached, want 32", got)
	}
	if !r.Clear() || len(r.Drain()) != 1 || len(r.Drain()) != 0 || r.Cached(keys, 40) != 0 {
		t.Error("clear did not clear, or told it more than once")
	}
}
