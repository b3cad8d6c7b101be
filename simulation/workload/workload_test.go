package workload

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// traceDir finds the recorded traces, which are not part of this repository.
func traceDir(t testing.TB) string {
	t.Helper()
	for _, dir := range []string{os.Getenv("BANYAN_TRACES"), "../../../shared/traces"} {
		if dir == "" {
			continue
		}
		if _, err := os.Stat(filepath.Join(dir, "mooncake_conversation.jsonl")); !errors.Is(err, fs.ErrNotExist) {
			return dir
		}
	}
	t.Skip("no traces: set BANYAN_TRACES to their directory")
	return ""
}

func TestIdealHitOfGivenTraces(t *testing.T) {
	dir := traceDir(t)
	for name, want := range map[string]float64{
		"mooncake_conversation": .3577, "mooncake_synthetic": .4536, "agent_sessions": .8949,
	} {
		w, err := ReadFile(filepath.Join(dir, name+".jsonl"), 1)
		if err != nil {
			t.Fatal(err)
		}
		if got := w.IdealHit(); math.Abs(got-want) > .00005 {
			t.Errorf("%s: ideal hit %.4f, want %.4f", name, got, want)
		}
	}
}

func TestGivenTracesReadWhole(t *testing.T) {
	dir := traceDir(t)
	for name, want := range map[string]struct {
		requests int
		end      float64
	}{
		"mooncake_conversation": {7851, 2400}, "mooncake_synthetic": {2687, 700},
		"agent_sessions": {9714, 0}, "sharegpt_300": {300, 30},
	} {
		w, err := ReadFile(filepath.Join(dir, name+".jsonl"), 1)
		if err != nil {
			t.Fatal(err)
		}
		if len(w.Requests) != want.requests {
			t.Errorf("%s: %d requests, want %d", name, len(w.Requests), want.requests)
		}
		if last := w.Requests[len(w.Requests)-1].At; want.end > 0 && (last < want.end*.9 || last > want.end*1.01) {
			t.Errorf("%s ends at %g s, want about %g", name, last, want.end)
		}
		checkOrder(t, w)
	}
}

// The spread of quantised stamps: every request stays in its 3 s bucket.
func TestConversationStampsAreSpread(t *testing.T) {
	text := `{"timestamp": 0, "input_length": 10, "output_length": 1, "hash_ids": [0]}
{"timestamp": 0, "input_length": 10, "output_length": 1, "hash_ids": [1]}
{"timestamp": 3000, "input_length": 10, "output_length": 1, "hash_ids": [2]}
`
	w, err := ReadTrace(strings.NewReader(text), 7)
	if err != nil {
		t.Fatal(err)
	}
	at := []float64{w.Requests[0].At, w.Requests[1].At, w.Requests[2].At}
	if !(0 < at[0] && at[0] < at[1] && at[1] < 3 && 3 < at[2] && at[2] < 6) {
		t.Errorf("stamps %v", at)
	}
	again, _ := ReadTrace(strings.NewReader(text), 7)
	if again.Hash() != w.Hash() {
		t.Error("I1: the same seed spreads otherwise")
	}
	exact, _ := ReadTrace(strings.NewReader(strings.Replace(text, "3000", "3100", 1)), 7)
	if exact.Requests[2].At != 3.1 {
		t.Errorf("stamps off the grid were moved: %g", exact.Requests[2].At)
	}
}

// A millisecond beside the grid is on it: 5,999 belongs to the bucket of 6 s.
func TestStampsBesideTheGridAreSpread(t *testing.T) {
	text := `{"timestamp": 0, "input_length": 10, "output_length": 1, "hash_ids": [0]}
{"timestamp": 5999, "input_length": 10, "output_length": 1, "hash_ids": [1]}
{"timestamp": 42001, "input_length": 10, "output_length": 1, "hash_ids": [2]}
`
	for seed := range uint64(20) {
		w, err := ReadTrace(strings.NewReader(text), seed)
		if err != nil {
			t.Fatal(err)
		}
		for i, from := range []float64{0, 6, 42} {
			if at := w.Requests[i].At; at < from || at >= from+3 || at == from {
				t.Errorf("seed %d: stamp %d is spread to %g s, want (%g, %g)", seed, i, at, from, from+3)
			}
		}
	}
	w, err := ReadTrace(strings.NewReader(strings.Replace(text, "5999", "5998", 1)), 1)
	if err != nil {
		t.Fatal(err)
	}
	if w.Requests[1].At != 5.998 {
		t.Errorf("a stamp off the grid was moved to %g s", w.Requests[1].At)
	}
}

// The published conversation trace has 24 of 12,031 stamps off its grid: the
// others are spread all the same, those 24 stay, and the reader says so.
func TestAFewStampsOffTheGridDoNotStopTheSpread(t *testing.T) {
	read := func(off int) *Workload {
		var text strings.Builder
		for i := range 1000 {
			stamp := 3000 * (i / 4)
			if i < off {
				stamp = 3000*i + 1234
			}
			fmt.Fprintf(&text, `{"timestamp": %d, "input_length": 10, "output_length": 1, "hash_ids": [%d]}`+"\n", stamp, i)
		}
		w, err := ReadTrace(strings.NewReader(text.String()), 3)
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	exact := func(w *Workload) (n int) {
		for i := range w.Requests {
			if at := w.Requests[i].At * 1e3; math.Abs(at-math.Round(at)) < 1e-6 {
				n++
			}
		}
		return n
	}
	some := read(10)
	if n := exact(some); n != 10 {
		t.Errorf("%d stamps stayed, want the 10 that lie off the grid", n)
	}
	if want := "990 of 1000 stamps lie on a grid of 3 s and were spread over it"; some.Told != want {
		t.Errorf("told %q, want %q", some.Told, want)
	}
	if many := read(11); exact(many) != 1000 || many.Told != "" {
		t.Errorf("with 11 stamps of 1,000 off the grid %d stayed, told %q", exact(many), many.Told)
	}
}

// Once spread, no two requests of the conversation trace share a stamp.
func TestGivenConversationIsSpread(t *testing.T) {
	w, err := ReadFile(filepath.Join(traceDir(t), "mooncake_conversation.jsonl"), 1)
	if err != nil {
		t.Fatal(err)
	}
	for i := 1; i < len(w.Requests); i++ {
		if w.Requests[i].At == w.Requests[i-1].At {
			t.Fatalf("requests %d and %d both arrive at %g s", i-1, i, w.Requests[i].At)
		}
	}
}

func TestBadLinesAreNamed(t *testing.T) {
	good := `{"timestamp": 0, "input_length": 600, "output_length": 1, "hash_ids": [0, 1]}` + "\n"
	for _, bad := range []string{
		`{`, `[]`, `{"timestamp": 1}`, `{"timestamp": -1, "input_length": 1, "output_length": 1, "hash_ids": [0]}`,
		`{"timestamp": 1, "input_length": -1, "output_length": 1, "hash_ids": []}`,
		`{"timestamp": 1, "input_length": 1, "output_length": -1, "hash_ids": [0]}`,
		`{"timestamp": 1, "input_length": 99999999, "output_length": 1, "hash_ids": [0]}`,
		`{"timestamp": 1, "input_length": 512, "output_length": 1, "hash_ids": [0, 1]}`,
		`{"timestamp": 1, "input_length": 1, "output_length": 1, "hash_ids": [-1]}`,
		`{"timestamp": "x", "input_length": 1, "output_length": 1, "hash_ids": [0]}`,
		`{"arrival_time_ns": 1, "input_tok_ids": [], "output_tok_ids": [1]}`,
		`{"arrival_time_ns": 1, "input_tok_ids": [-1], "output_tok_ids": [1]}`,
	} {
		_, err := ReadTrace(strings.NewReader(good+"\n"+bad+"\n"+good), 1)
		if err == nil || !strings.Contains(err.Error(), "line 3:") {
			t.Errorf("%s: %v", bad, err)
		}
	}
	if _, err := ReadTrace(strings.NewReader(""), 1); err == nil {
		t.Error("an empty trace was accepted")
	}
	endless := good + strings.Repeat("x", maxLineBytes+1)
	if _, err := ReadTrace(strings.NewReader(endless), 1); err == nil || err.Error() != "line 2: longer than 16 MiB" {
		t.Errorf("an endless line: %v", err)
	}
	if _, err := ReadFile("testdata/none.jsonl", 1); err == nil {
		t.Error("a missing file was accepted")
	}
}

func TestSessionsOfHashedTraces(t *testing.T) {
	text := `{"timestamp": 1, "input_length": 1100, "output_length": 1, "hash_ids": [0, 1, 2]}
{"timestamp": 2, "input_length": 1100, "output_length": 1, "hash_ids": [0, 3, 4]}
{"timestamp": 3, "input_length": 1600, "output_length": 1, "hash_ids": [0, 1, 5, 6]}
`
	w, err := ReadTrace(strings.NewReader(text), 1)
	if err != nil {
		t.Fatal(err)
	}
	got := []int{w.Requests[0].Session, w.Requests[1].Session, w.Requests[2].Session, w.Requests[2].Turn}
	if !slices.Equal(got, []int{0, 1, 0, 1}) {
		t.Errorf("sessions and last turn %v", got)
	}
}

func checkOrder(t testing.TB, w *Workload) {
	t.Helper()
	for i := range w.Requests {
		r := &w.Requests[i]
		sum := 0
		for _, s := range r.Prompt {
			sum += s.Tokens
		}
		if r.ID != i || r.After >= i || r.Tokens < 1 || r.Output < 1 || sum+len(r.PromptIDs) != r.Tokens {
			t.Fatalf("%s: request %d is inconsistent: %+v", w.Name, i, r)
		}
		if i > 0 && r.At < w.Requests[i-1].At {
			t.Fatalf("%s: request %d goes back in time", w.Name, i)
		}
	}
}

func TestEveryWorkloadIsConsistent(t *testing.T) {
	hashes := map[uint64]string{}
	for _, name := range Names() {
		w, err := Generate(name, Options{Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		checkOrder(t, w)
		checkFollowUps(t, w)
		if again, _ := Generate(name, Options{Seed: 1}); again.Hash() != w.Hash() {
			t.Errorf("I1: %s differs from itself", name)
		}
		if other, _ := Generate(name, Options{Seed: 2}); other.Hash() == w.Hash() {
			t.Errorf("%s ignores its seed", name)
		}
		if w.Replicas == 0 || w.Profile == "" {
			t.Errorf("%s names no fleet", name)
		}
		hashes[w.Hash()] = name
	}
	if len(hashes) != len(Names()) {
		t.Error("two workloads are the same")
	}
}

// I3, I4. Coding agents compact their context, and go on when the last of their
// subagents is done: TestCodingIsAsPublished looks at those.
func checkFollowUps(t *testing.T, w *Workload) {
	if w.Name == "coding" {
		return
	}
	for i := range w.Requests {
		r := &w.Requests[i]
		if r.After < 0 {
			continue
		}
		p := &w.Requests[r.After]
		head := append(slices.Clone(p.Prompt), Segment{ID: p.Reply, Tokens: p.Output, Role: Assistant})
		if p.Session != r.Session || p.Turn+1 != r.Turn || !slices.Equal(r.Prompt[:len(head)], head) {
			t.Fatalf("I4: %s: request %d does not follow request %d", w.Name, i, r.After)
		}
	}
}

// Pinned so that a change of a generator is a decision.
func TestGeneratedWorkloadsStayTheSame(t *testing.T) {
	for name, want := range map[string]uint64{
		"b2b": 0x15f4c21976a61496, "demo": 0x9c13d6fb33a6c2d2, "multi_turn": 0x7aab3f1ab4b5c351,
	} {
		w, err := Generate(name, Options{Seed: 42, Requests: 500})
		if err != nil {
			t.Fatal(err)
		}
		if got := w.Hash(); got != want {
			t.Errorf("%s has hash %#x, want %#x", name, got, want)
		}
	}
}

func TestB2BHasThePublishedShape(t *testing.T) {
	w, err := Generate("b2b", Options{Seed: 3})
	if err != nil {
		t.Fatal(err)
	}
	if w.Replicas != 8 || w.KVTokens != 307328 || len(w.Stages) != 17 || w.Pause != 1 {
		t.Errorf("fleet %d x %d, %d stages, pause %g", w.Replicas, w.KVTokens, len(w.Stages), w.Pause)
	}
	prompts, heads, warm := map[uint64]bool{}, map[uint64]bool{}, 0
	for i := range w.Requests {
		r := &w.Requests[i]
		heads[r.Prompt[0].ID], prompts[r.Prompt[1].ID] = true, true
		if r.Tokens != 7200 || r.Output != 1000 {
			t.Fatalf("prompt of %d tokens, answer of %d", r.Tokens, r.Output)
		}
		if r.At < w.Warm {
			warm++
		}
	}
	if len(heads) != 150 || len(prompts) != 750 || warm != 750 || w.Stages[1].First != 750 {
		t.Errorf("%d heads, %d prompts, %d requests in the warm-up", len(heads), len(prompts), warm)
	}
	if ideal := w.IdealHit(); ideal < .981 || ideal > .986 {
		t.Errorf("ideal hit %.4f, want .981 to .985", ideal)
	}
}

func TestStagesSendRateTimesSecondsInOneOrder(t *testing.T) {
	for name, sent := range map[string][]int{
		"b2b":   {750, 60, 200, 300, 760, 748, 750, 750, 735, 1024, 1024, 1024, 1024, 1024, 1024, 1024, 1024},
		"b2b37": {270, 630, 720, 600, 720, 720, 700, 720, 750, 1000},
	} {
		w, err := Generate(name, Options{Seed: 3})
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range w.Stages {
			end := len(w.Requests)
			if i+1 < len(w.Stages) {
				end = w.Stages[i+1].First
			}
			if end-s.First != sent[i] {
				t.Errorf("%s: stage %d sends %d, published %d", name, i, end-s.First, sent[i])
			}
			if first, want := w.Requests[s.First].Prompt[1].ID, w.Requests[0].Prompt[1].ID; first != want {
				t.Errorf("%s: stage %d does not begin with the first prompt", name, i)
			}
			if at := w.Requests[s.First].At; at < s.At || i > 0 && w.Requests[s.First-1].At >= at {
				t.Errorf("%s: stage %d begins at %g, its first request comes at %g", name, i, s.At, at)
			}
		}
	}
}

func TestOptionsScale(t *testing.T) {
	slow, _ := Generate("zipf", Options{Seed: 1, Requests: 2000})
	fast, _ := Generate("zipf", Options{Seed: 1, Requests: 2000, Rate: 2})
	wide, _ := Generate("zipf", Options{Seed: 1, Requests: 2000, Replicas: 32})
	last := func(w *Workload) float64 { return w.Requests[len(w.Requests)-1].At }
	if len(slow.Requests) != 2000 || math.Abs(last(slow)/last(fast)-2) > 1e-9 || math.Abs(last(slow)/last(wide)-2) > 1e-9 {
		t.Errorf("%d requests end at %g, %g at double rate, %g on double fleet", len(slow.Requests), last(slow), last(fast), last(wide))
	}
	for _, o := range []Options{{Requests: -1}, {Rate: -1}, {Replicas: -1}, {Rate: math.NaN()}} {
		if _, err := Generate("zipf", o); err == nil {
			t.Errorf("accepted %+v", o)
		}
	}
	if _, err := Generate("nope", Options{}); err == nil {
		t.Error("unknown workload accepted")
	}
}

func TestWordsAreABijection(t *testing.T) {
	seen := map[string]bool{}
	for id := uint32(FirstWord); id < FirstWord+Words; id++ {
		word := Word(id)
		back, ok := WordID(word)
		if !ok || back != id || seen[word] {
			t.Fatalf("%d is %q is %d", id, word, back)
		}
		seen[word] = true
	}
	for _, no := range []string{"", "babab ", "ababa", "Babab", "baba", "bubab", "bab\xffb", "bbbbb", "baaab"} {
		if _, ok := WordID(no); ok {
			t.Errorf("%q is a word", no)
		}
	}
	if Word(FirstWord-1) != "" || Word(FirstWord+Words) != "" {
		t.Error("a word outside the vocabulary")
	}
}

// I2: keys agree exactly as far as tokens do.
func TestKeysAgreeWithTokens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		page := rapid.SampledFrom([]int{1, 4, 16, 64}).Draw(t, "page")
		pool := make([]Segment, 4)
		for i := range pool {
			pool[i] = Segment{ID: uint64(i + 1), Tokens: rapid.IntRange(1, 50).Draw(t, "tokens"), Role: User}
		}
		draw := func(name string) Request {
			r := Request{Reply: uint64(rapid.IntRange(1, 2).Draw(t, name+"reply")), Output: 20}
			for _, i := range rapid.SliceOfN(rapid.IntRange(0, 3), 1, 6).Draw(t, name) {
				r.Prompt = append(r.Prompt, pool[i])
				r.Tokens += pool[i].Tokens
			}
			return r
		}
		a, b := draw("a"), draw("b")
		whole := func(r Request) []uint32 {
			return Segment{ID: r.Reply, Tokens: r.Output}.AppendTokens(r.AppendTokens(nil))
		}
		ta, tb := whole(a), whole(b)
		ka, kb := a.AppendKeys(nil, page), b.AppendKeys(nil, page)
		if len(ka) != len(ta)/page || len(kb) != len(tb)/page {
			t.Fatalf("%d keys for %d tokens", len(ka), len(ta))
		}
		for i := range min(len(ka), len(kb)) {
			same := slices.Equal(ta[:(i+1)*page], tb[:(i+1)*page])
			if same != (ka[i] == kb[i]) {
				t.Fatalf("I2: page %d: tokens equal %v, keys equal %v", i, same, ka[i] == kb[i])
			}
		}
	})
}

func TestMessagesCarryTheRealReply(t *testing.T) {
	r := Request{Prompt: []Segment{
		{ID: 1, Tokens: 2, Role: System},
		{ID: 2, Tokens: 1, Role: System},
		{ID: 3, Tokens: 1, Role: User},
		{ID: 4, Tokens: 2, Role: Assistant},
		{ID: 5, Tokens: 1, Role: User},
	}}
	got := r.Messages(func(id uint64) (string, bool) { return "what was said", id == 4 })
	text := func(id uint64, n int) string { return Segment{ID: id, Tokens: n}.Text() }
	want := []Message{
		{"system", text(1, 2) + " " + text(2, 1)},
		{"user", text(3, 1)},
		{"assistant", "what was said"},
		{"user", text(5, 1)},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("messages %q\nwant %q", got, want)
	}
	if plain := r.Messages(nil); plain[2].Content != text(4, 2) {
		t.Errorf("without a reply: %q", plain[2].Content)
	}
	if !r.Chat() || (&Request{Prompt: []Segment{{ID: 1, Tokens: 1}}}).Chat() {
		t.Error("chat and completion are mixed up")
	}
}

func TestRecordedIDsKeepTheirPrefixes(t *testing.T) {
	line := `{"arrival_time_ns": 5e8, "input_tok_ids": [1, 2, 3, 4], "output_tok_ids": [5, 6]}
{"arrival_time_ns": 1e9, "input_tok_ids": [1, 2, 3, 4, 5, 6, 7], "output_tok_ids": [8]}
`
	w, err := ReadTrace(strings.NewReader(line), 1)
	if err != nil {
		t.Fatal(err)
	}
	a, b := w.Requests[0].AppendKeys(nil, 2), w.Requests[1].AppendKeys(nil, 2)
	if len(a) != 3 || len(b) != 4 || !slices.Equal(a, b[:3]) {
		t.Errorf("keys %x and %x", a, b)
	}
	if w.Requests[0].At != .5 || !slices.Equal(w.Requests[0].AppendTokens(nil), []uint32{1, 2, 3, 4}) {
		t.Errorf("request %+v", w.Requests[0])
	}
}

func FuzzReadTrace(f *testing.F) {
	f.Add([]byte(`{"timestamp": 0, "input_length": 600, "output_length": 1, "hash_ids": [0, 1]}`))
	f.Add([]byte(`{"timestamp": 1, "input_length": 60, "output_length": 1, "hash_ids": [0], "session": 3, "app": "x"}`))
	f.Add([]byte(`{"arrival_time_ns": 1, "input_tok_ids": [1], "output_tok_ids": [1]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		w, err := ReadTrace(strings.NewReader(string(b)), 1)
		if err != nil {
			return
		}
		checkOrder(t, w)
	})
}

func Example() {
	w, _ := Generate("multi_turn", Options{Seed: 1, Requests: 100})
	for i := range w.Requests {
		if r := &w.Requests[i]; r.Session == 0 && r.Turn < 2 {
			keys := r.AppendKeys(nil, 16)
			fmt.Printf("turn %d after %d: %d messages, %d tokens, %d pages, first %x\n",
				r.Turn, r.After, len(r.Messages(nil)), r.Tokens, len(keys), keys[0]>>48)
		}
	}
	// Output:
	// turn 0 after -1: 2 messages, 320 tokens, 26 pages, first c33f
	// turn 1 after 0: 4 messages, 584 tokens, 76 pages, first c33f
}
