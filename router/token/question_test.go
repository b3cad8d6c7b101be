package token

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
)

// shop is an engine that renders nothing, tokenizes bodies "N" to N tokens, and
// counts as many tokens as count says; "bad" it refuses.
type shop struct {
	count   atomic.Int64 // 0: it has no such endpoint
	counted atomic.Int64
}

func (s *shop) serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	switch {
	case strings.HasSuffix(r.URL.Path, "/render"):
		w.WriteHeader(http.StatusForbidden)
	case strings.HasSuffix(r.URL.Path, "/count_tokens"):
		s.counted.Add(1)
		n := s.count.Load()
		if n == 0 {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		fmt.Fprintf(w, `{"input_tokens":%d}`, n)
	case string(body) == "bad":
		w.WriteHeader(http.StatusBadRequest)
	default:
		first, more, _ := strings.Cut(string(body), "+") // first id, and how many
		from, _ := strconv.Atoi(first)
		n, _ := strconv.Atoi(more)
		ids := make([]string, n)
		for i := range ids {
			ids[i] = strconv.Itoa(from + i)
		}
		fmt.Fprintf(w, `{"tokens":[%s],"max_model_len":100}`, strings.Join(ids, ","))
	}
}

func newShop(t *testing.T, count int64) (*shop, *engine) {
	s := &shop{}
	s.count.Store(count)
	return s, newEngine(t, s.serve)
}

var serial atomic.Int64

// ask asks for a prompt that was not asked for before.
func (q Question) ask(tok *Tokenizer, e *engine, k Kind) Keys {
	query := textQuery(e, strconv.FormatInt(serial.Add(1), 10))
	query.Kind = k
	query.Ask = func(rung Rung, _ string, body []byte) (Question, string) {
		if rung == Render {
			return Question{Forms: [][]byte{body}}, ""
		}
		return q, ""
	}
	return tok.Keys(context.Background(), query)
}

func converted(shape uint16, forms ...string) Question {
	q := Question{Converted: true, Shape: shape}
	for _, f := range forms {
		q.Forms = append(q.Forms, []byte(f))
	}
	return q
}

// Of several forms that of as many tokens as the engine counts is taken, and
// for the next prompts of the shape it alone is asked.
func TestTheFormThatTheEngineCountsIsTaken(t *testing.T) {
	s, e := newShop(t, 40)
	tok, _ := withClock(t, nil)
	for i, forms := range [][]string{{"0+44", "bad", "100+40"}, {"0+50", "bad", "200+45"}} {
		before := e.asked.Load()
		k := converted(3, forms...).ask(tok, e, Messages)
		if want := []int{40, 45}[i]; k.Scheme != Engine || k.Rung() != Tokenize || k.Tokens != want {
			t.Fatalf("prompt %d: %d tokens, %s by %s", i, k.Tokens, k.Scheme, k.Reason)
		}
		// render, count, three forms; then one form
		if got, want := e.asked.Load()-before, []int64{5, 1}[i]; got != want {
			t.Errorf("prompt %d: %d questions, want %d", i, got, want)
		}
	}
	if s.counted.Load() != 1 {
		t.Errorf("counted %d times", s.counted.Load())
	}
}

// A prompt that cannot be counted has the form that is right for its trial; a
// server that counts nothing leaves it to its text, for other tokens are worse.
func TestATrialTellsTheForm(t *testing.T) {
	s, e := newShop(t, 45)
	tok, _ := withClock(t, nil)
	ask := func(shape uint16, trial ...string) Keys {
		q := converted(shape, "0+60", "100+61")
		q.Trial = &Trial{Body: []byte("trial"), Forms: converted(0, trial...).Forms}
		return q.ask(tok, e, Responses)
	}
	for range 2 {
		if k := ask(1, "0+44", "0+45"); k.Scheme != Engine || k.Tokens != 61 {
			t.Fatalf("%d tokens, %s by %s", k.Tokens, k.Scheme, k.Reason)
		}
	}
	if s.counted.Load() != 1 {
		t.Errorf("counted %d times", s.counted.Load())
	}
	if k := ask(2, "0+45", "1+45"); k.Reason != Unaskable {
		t.Errorf("a trial that tells nothing: %s by %s", k.Scheme, k.Reason)
	}
	s.count.Store(0)
	if k := ask(3, "0+44", "0+45"); k.Reason != Unaskable {
		t.Errorf("without a count: %s by %s", k.Scheme, k.Reason)
	}
	q := converted(4, "0+60", "100+61") // a chat is likely what it says
	q.Trial, q.Converted = &Trial{Body: []byte("trial"), Forms: q.Forms}, false
	if k := q.ask(tok, e, Chat); k.Scheme != Engine || k.Tokens != 60 {
		t.Errorf("a chat without a count: %d tokens, %s by %s", k.Tokens, k.Scheme, k.Reason)
	}
}

// A shape none of whose forms the engine counts is keyed by text for a minute;
// other shapes are not.
func TestAShapeThatTheEngineDeniesIsKeyedByText(t *testing.T) {
	s, e := newShop(t, 41)
	tok, c := withClock(t, nil)
	for range 3 {
		if k := converted(1, "0+40").ask(tok, e, Messages); k.Scheme != Text || k.Reason != Differs {
			t.Fatalf("%s by %s", k.Scheme, k.Reason)
		}
	}
	if s.counted.Load() != 1 || tok.Stats().Wrong[Tokenize] != 1 {
		t.Errorf("counted %d times, %v", s.counted.Load(), tok.Stats().Wrong)
	}
	if k := converted(2, "0+41").ask(tok, e, Messages); k.Scheme != Engine {
		t.Errorf("another shape: %s by %s", k.Scheme, k.Reason)
	}
	c.at.Add(61)
	if k := converted(1, "0+41").ask(tok, e, Messages); k.Scheme != Engine {
		t.Errorf("a minute later: %s by %s", k.Scheme, k.Reason)
	}
}

// Two forms of equally many tokens cannot be told apart by their number.
func TestFormsThatCannotBeToldApartAreNotBelieved(t *testing.T) {
	_, e := newShop(t, 40)
	tok, _ := withClock(t, nil)
	if k := converted(1, "0+40", "1+40").ask(tok, e, Messages); k.Scheme != Text || k.Reason != Unaskable {
		t.Errorf("%s by %s", k.Scheme, k.Reason)
	}
	if k := converted(2, "0+40", "0+40").ask(tok, e, Messages); k.Scheme != Engine {
		t.Errorf("equal forms: %s by %s", k.Scheme, k.Reason)
	}
}

// Where nothing proves a conversion, the first answer that counts other tokens
// puts the rung to rest, by one.
func TestAConversionIsBelievedUntilItsFirstAnswer(t *testing.T) {
	for _, kind := range []Kind{Messages, Responses} {
		_, e := newShop(t, 0)
		tok, c := withClock(t, nil)
		ask := func() Keys { return converted(1, "0+40").ask(tok, e, kind) }
		k := ask()
		tok.Verify(&k, 40)
		if k = ask(); k.Scheme != Engine {
			t.Fatalf("%s: %s by %s", kind, k.Scheme, k.Reason)
		}
		tok.Verify(&k, 41)
		if k = ask(); k.Scheme != Text || k.Reason != Differs {
			t.Errorf("%s: after a difference %s by %s", kind, k.Scheme, k.Reason)
		}
		if why := tok.Why(&Oracle{URL: e.URL, Engine: "vllm"}, kind); !strings.Contains(why, differs) {
			t.Errorf("%s: told %q", kind, why)
		}
		c.at.Add(61)
		if k = ask(); k.Scheme != Engine {
			t.Errorf("%s: a minute later %s by %s", kind, k.Scheme, k.Reason)
		}
	}
}

// A prompt whose twin has other tokens depends on what the endpoint changes.
func TestTwinsMustBeEqual(t *testing.T) {
	_, e := newShop(t, 0)
	tok, _ := withClock(t, nil)
	q := converted(1, "0+40")
	q.Twin = []byte("0+42")
	for range 2 {
		if k := q.ask(tok, e, Responses); k.Scheme != Text || k.Reason != Unaskable {
			t.Fatalf("%s by %s", k.Scheme, k.Reason)
		}
	}
	q = converted(2, "0+40")
	q.Twin = []byte("0+40")
	for i, want := range []int64{2, 1} { // the prompt and its twin; then the prompt
		before := e.asked.Load()
		if k := q.ask(tok, e, Responses); k.Scheme != Engine || e.asked.Load()-before != want {
			t.Errorf("prompt %d: %s by %s after %d questions", i, k.Scheme, k.Reason, e.asked.Load()-before)
		}
	}
}

// TestCuts: tokens 0 to 39, or with special tokens around 1 to 38.
func TestCuts(t *testing.T) {
	_, e := newShop(t, 0)
	tok, _ := withClock(t, nil)
	for name, c := range map[string]struct {
		cut  Cut
		want []uint32
	}{
		"the last ones stay":           {Cut{Keep: 8}, []uint32{32, 33, 34, 35, 36, 37, 38, 39}},
		"the first ones stay":          {Cut{Keep: 4, First: true}, []uint32{0, 1, 2, 3}},
		"special tokens stay":          {Cut{Keep: 4, Bare: []byte("1+38")}, []uint32{0, 37, 38, 39}},
		"special tokens stay in front": {Cut{Keep: 4, Bare: []byte("1+39")}, []uint32{0, 37, 38, 39}},
		"there are none":               {Cut{Keep: 4, Bare: []byte("0+40")}, []uint32{36, 37, 38, 39}},
		"they are the first kept":      {Cut{Keep: 4, First: true, Bare: []byte("1+38")}, []uint32{0, 1, 2, 39}},
		"other tokens":                 {Cut{Keep: 4, Bare: []byte("7+38")}, nil},
		"no room but for special ones": {Cut{Keep: 2, Bare: []byte("1+38")}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			q := Question{Forms: [][]byte{[]byte("0+40")}, Cut: &c.cut}
			k := q.ask(tok, e, Completion)
			if c.want == nil {
				if k.Scheme != Text || k.Reason != Unaskable {
					t.Errorf("%s by %s", k.Scheme, k.Reason)
				}
				return
			}
			if want := tok.hashes(c.want); k.Scheme != Engine || k.Tokens != len(c.want) || !slices.Equal(k.Hashes, want) {
				t.Errorf("%d tokens, %v, want %v (%s by %s)", k.Tokens, k.Hashes, want, k.Scheme, k.Reason)
			}
		})
	}
	for form, want := range map[string]Scheme{"0+98": Engine, "0+99": Text, "0+120": Text} { // of 100 that fit
		q := Question{Forms: [][]byte{[]byte(form)}, Cut: &Cut{Keep: -1}}
		if k := q.ask(tok, e, Completion); k.Scheme != want {
			t.Errorf("%s: %s by %s", form, k.Scheme, k.Reason)
		}
	}
	q := Question{Forms: [][]byte{[]byte("0+40")}, Cut: &Cut{Keep: 40}}
	if k := q.ask(tok, e, Completion); k.Tokens != 40 {
		t.Errorf("%d tokens of a prompt that fits", k.Tokens)
	}
}

// A new life of the server forgets what was proven of the old one.
func TestAnotherLifeIsProvenAnew(t *testing.T) {
	s, e := newShop(t, 40)
	tok, _ := withClock(t, nil)
	for life := range int64(2) {
		query := textQuery(e, fmt.Sprint("life", life))
		query.Kind, query.Engines[0].Life = Messages, life
		query.Ask = func(Rung, string, []byte) (Question, string) { return converted(1, "0+40"), "" }
		if k := tok.Keys(context.Background(), query); k.Scheme != Engine || s.counted.Load() != life+1 {
			t.Errorf("life %d: %s by %s, counted %d times", life, k.Scheme, k.Reason, s.counted.Load())
		}
	}
}
