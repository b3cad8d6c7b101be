package requests

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"
)

func full() *Record {
	return &Record{
		ID: "00112233445566778899aabbccddeeff", ClientID: "mine", Trace: [16]byte{1, 2, 3}, At: time.UnixMilli(1_795_405_428_957), Client: "team-a", Tenant: "acme", Model: "m",
		Endpoint: "/v1/chat/completions", Stream: true, Replica: "r1", Policy: "ttft", Reason: "prefix", Matched: 32, Status: 200,
		Queue: 1500 * time.Microsecond, TTFT: 20 * time.Millisecond, Duration: time.Second, Prompt: 40, Cached: 16, Output: 7,
		Tries: []Try{
			{Replica: "r0", Cause: "connect", Detail: "connection refused", Begin: time.Millisecond, Took: time.Microsecond},
			{Replica: "r1", Status: 200, Begin: 2 * time.Millisecond, Took: time.Second},
		},
	}
}

// The line of the log and the document have the same fields.
func TestTheLineIsTheDocument(t *testing.T) {
	nasty := full()
	nasty.Model, nasty.Tenant, nasty.ClientID = "a\"\\\n\x1b[31m\u202e<b>", "ü€\xff\xfe", strings.Repeat("é", MaxWord)
	empty := &Record{Matched: Unknown, Prompt: Unknown, Cached: Unknown, Output: Unknown}
	for _, r := range []*Record{full(), nasty, empty} {
		line := AppendJSON(nil, r)
		var got ToldRecord
		dec := json.NewDecoder(strings.NewReader(string(line)))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&got); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		want := r.told()
		want.ClientID = whole(want.ClientID)
		for _, s := range []*string{&want.Model, &want.Tenant, &want.ClientID} {
			*s = strings.ToValidUTF8(strings.ReplaceAll(*s, "\xff\xfe", "\ufffd\ufffd"), "\ufffd")
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("line %+v\ndocument %+v", got, want)
		}
	}
	const want = `time=2026-11-23T03:43:48.957Z id=00112233445566778899aabbccddeeff status=200 replica=r1 model=m key=team-a tenant=acme ` +
		`endpoint=/v1/chat/completions policy=ttft reason=prefix queue=1.5ms ttft=20ms duration=1000ms matched=32 prompt=40 cached=16 output=7 ` +
		`tries=r0:connect,r1 tries_total=2 client_id=mine trace_id=01020300000000000000000000000000`
	if got := string(AppendText(nil, full())); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// FuzzLine: whatever a client calls itself, one request is one bounded line
// without control characters, and valid JSON (Q2).
func FuzzLine(f *testing.F) {
	f.Add("id", "model", "tenant")
	f.Add("a\nstatus=200", "\x00\x7f\u2028\u202e", strings.Repeat("\xf0", 300))
	f.Add(`"}{"`, strings.Repeat("x", MaxWord-1)+"é", " = ")
	f.Add(" status=", "m status=500", `" status="`)
	f.Fuzz(func(t *testing.T, id, model, tenant string) {
		r := full()
		r.ClientID, r.Model, r.Tenant = Word(id), Word(model), Word(tenant)
		for _, line := range [][]byte{AppendJSON(nil, r), AppendText(nil, r)} {
			if len(line) > 8<<10 || !utf8.Valid(line) || strings.ContainsFunc(string(line), func(r rune) bool { return unicode.IsControl(r) || bidi(r) || r == 0x2028 }) {
				t.Fatalf("%q", line)
			}
		}
		var doc ToldRecord
		if err := json.Unmarshal(AppendJSON(nil, r), &doc); err != nil {
			t.Fatal(err)
		}
		fields := fieldsOf(t, string(AppendText(nil, r)))
		for name, want := range map[string]string{
			"status": "200", "id": r.ID, "replica": "r1", "model": doc.Model, "tenant": doc.Tenant, "client_id": doc.ClientID,
		} {
			if got := fields[name]; got != want {
				t.Fatalf("%s: a field was forged: %s is %q, want %q", AppendText(nil, r), name, got, want)
			}
		}
	})
}

// fieldsOf reads a line of key=value, as tools for such lines do: what is quoted
// is one value. A key that comes twice fails.
func fieldsOf(t *testing.T, line string) map[string]string {
	t.Helper()
	fields := make(map[string]string)
	for rest := line; rest != ""; {
		name, value, ok := strings.Cut(rest, "=")
		if _, twice := fields[name]; !ok || twice {
			t.Fatalf("%s: the field %q has no value or comes twice", line, name)
		}
		if strings.HasPrefix(value, `"`) {
			dec := json.NewDecoder(strings.NewReader(value))
			var s string
			if err := dec.Decode(&s); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			fields[name], rest = s, strings.TrimPrefix(value[dec.InputOffset():], " ")
			continue
		}
		fields[name], rest, _ = strings.Cut(value, " ")
	}
	return fields
}

func TestEachModeLogsMore(t *testing.T) {
	good := func() *Record { r := full(); r.Tries = r.Tries[1:]; return r }
	failed, slow, cut, left, told := good(), good(), good(), good(), good()
	failed.Status = 503
	slow.TTFT = 3 * time.Second
	cut.Error = ErrCut
	left.Error = ErrLeft
	told.Error = ErrInStream
	none := good()
	none.Status = 0
	for _, c := range []struct {
		mode                                                 string
		sample                                               float64
		good, failed, slow, cut, left, retried, told, silent bool
	}{
		{mode: Off},
		{mode: Errors, failed: true, cut: true, told: true, silent: true},
		{mode: Slow, failed: true, cut: true, slow: true, told: true, silent: true},
		{mode: Sampled, sample: 0, failed: true, cut: true, slow: true, told: true, silent: true},
		{mode: Sampled, sample: 1, good: true, failed: true, slow: true, cut: true, left: true, retried: true, told: true, silent: true},
		{mode: All, good: true, failed: true, slow: true, cut: true, left: true, retried: true, told: true, silent: true},
	} {
		cfg := Config{Mode: c.mode, Slow: 2 * time.Second, Sample: c.sample}
		for name, of := range map[string]struct {
			r    *Record
			want bool
		}{
			"good": {good(), c.good}, "failed": {failed, c.failed}, "slow": {slow, c.slow}, "cut": {cut, c.cut}, "left": {left, c.left},
			"retried": {full(), c.retried}, "told in the stream": {told, c.told}, "no answer": {none, c.silent},
		} {
			if got := cfg.Wants(of.r); got != of.want {
				t.Errorf("%s %v: %s: %v", c.mode, c.sample, name, got)
			}
		}
	}
	hits := 0
	cfg := Config{Mode: Sampled, Sample: .25}
	for i := range 4096 {
		r := good()
		r.ID = fmt.Sprintf("%024x%08x", i, uint32(i)*2654435761)
		if cfg.Wants(r) {
			hits++
		}
	}
	if hits < 900 || hits > 1150 {
		t.Errorf("%d of 4096 are a quarter", hits)
	}
	for _, bad := range []Config{{}, {Mode: All, Format: JSON}, {Mode: All, Format: JSON, Path: "x", Slow: -1}, {Mode: All, Format: JSON, Path: "x", Sample: math.NaN()}} {
		if len(bad.Faults()) == 0 {
			t.Errorf("%+v is no fault", bad)
		}
	}
	if ok := DefaultConfig(); len(ok.Faults()) > 0 {
		t.Errorf("%v", ok.Faults())
	}
}

// Q4: a book is bounded, and good requests push out good ones only.
func TestABookKeepsWhatMatters(t *testing.T) {
	b := NewBook(4, 3)
	begin := time.Now()
	run := func(i int, notable bool) {
		trail := b.Begin(fmt.Sprint("id", i), begin.Add(time.Duration(i)))
		trail.Note(func(r *Record) { r.ClientID, r.Status, r.Trace = "same", 200, [16]byte{byte(i)} })
		trail.Decided(&Decision{Replica: "r0", At: begin}, []Candidate{{Replica: "r0", Score: 1}, {Replica: "r1", Score: math.MaxFloat64}})
		trail.Tried(Try{Replica: "r0", Status: 200}, begin, true)
		b.End(trail, notable)
	}
	run(0, true)
	for i := 1; i < 100; i++ {
		run(i, false)
	}
	if got := b.Find("id0", "a", begin); got == nil || got.Peer != "a" || got.State != "ended" || got.Request.Replica != "r0" {
		t.Errorf("%+v", got)
	}
	for i := 1; i < 100; i++ {
		if got := b.Find(fmt.Sprint("id", i), "a", begin); (got != nil) != (i >= 96) {
			t.Errorf("%d: %+v", i, got)
		}
	}
	if got := b.Find("same", "a", begin); got == nil || got.Request.ID != "id99" {
		t.Errorf("the newest of the client's name: %+v", got)
	}
	if got := b.Find("63000000000000000000000000000000", "a", begin); got == nil || got.Request.ID != "id99" {
		t.Errorf("by its trace: %+v", got)
	}
	if c := b.Find("id99", "a", begin).Decisions[0].Candidates; len(c) != 2 || *c[0].Score != 1 || c[1].Score != nil {
		t.Errorf("%+v", c)
	}
	for i := 100; i < 105; i++ {
		run(i, true)
	}
	if list := b.Notable(10, "a", begin); len(list) != 3 || list[0].Request.ID != "id104" || list[2].Request.ID != "id102" {
		t.Errorf("%+v", list)
	}
	running := b.Begin("on", begin)
	if got := b.Find("on", "a", begin.Add(time.Second)); got == nil || got.State != "running" || got.Request.Duration != 1000 {
		t.Errorf("%+v", got)
	}
	for range MaxTries + 2 {
		running.Decided(&Decision{Replica: "r9"}, make([]Candidate, MaxCandidates+1))
		running.Tried(Try{Replica: "r9", Cause: "reset"}, begin, false)
	}
	if got := b.Find("on", "a", begin); len(got.Decisions) != MaxDecisions || len(got.Decisions[3].Candidates) != MaxCandidates || len(got.Request.Tries) != MaxTries || got.Request.Total != MaxTries+2 {
		t.Errorf("%+v", got)
	}
	if b.Find("", "a", begin) != nil {
		t.Error("no id is no request")
	}
}

// Q5: remembering allocates nothing once the book is full.
func TestRememberingAllocatesNothing(t *testing.T) {
	one := remembering(16)
	for range 64 {
		one(nil)
	}
	if n := testing.AllocsPerRun(200, func() { one(nil) }); n > 0 {
		t.Errorf("%v allocations a request", n)
	}
}

// remembering is what the request path does for one request.
func remembering(candidates int) func(l *Log) {
	b, cands, i := NewBook(8, 8), make([]Candidate, candidates), 0
	ids := [...]string{"a", "b", "c", "d"}
	for k := range cands {
		cands[k].Replica = "r0"
	}
	r := full()
	return func(l *Log) {
		now := time.Now()
		i++
		t := b.Begin(ids[i%len(ids)], now)
		t.Note(func(rec *Record) { rec.Model, rec.Endpoint, rec.Client = r.Model, r.Endpoint, r.Client })
		t.Decided(&Decision{At: now, Replica: "r0", Policy: "ttft", Reason: "load"}, cands)
		t.Tried(Try{Replica: "r0", Status: 200, Took: time.Second}, now, true)
		t.Note(func(rec *Record) {
			rec.Status, rec.TTFT, rec.Duration = 200, time.Millisecond, time.Second
			if l != nil {
				l.Add(rec)
			}
		})
		b.End(t, false)
	}
}

// BenchmarkRemember is the whole cost of remembering a request, and of its line
// in the log. The budget is 5 us.
func BenchmarkRemember(b *testing.B) {
	for _, candidates := range []int{4, 16, 64} {
		for _, format := range []string{Off, JSON, Text} {
			b.Run(fmt.Sprintf("%d/%s", candidates, format), func(b *testing.B) {
				one := remembering(candidates)
				var l *Log
				if format != Off {
					var err error
					if l, err = NewLog(b.TempDir()+"/log", format, nil); err != nil {
						b.Fatal(err)
					}
					defer l.Close()
				}
				b.ReportAllocs()
				for b.Loop() {
					one(l)
				}
			})
		}
	}
}
