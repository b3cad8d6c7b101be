package jinja

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var at = time.Date(2026, 3, 5, 14, 7, 9, 0, time.UTC)

func render(source, vars string) (string, error) {
	v, err := ParseJSON([]byte(vars))
	if err != nil {
		return "", err
	}
	t, err := Parse(source)
	if err != nil {
		return "", err
	}
	b, err := t.Render(nil, v.(*Dict), at, Limits{})
	return string(b), err
}

// own are templates and the text Python gives; TestOwnIsPythons holds the
// texts against Python itself. A text "!" is an error.
var own = []struct{ source, vars, want string }{
	{"{{ x }}{{ y }}|{{ [1.0, z, none, true, 'a\\'b'] }}", `{"x": 1.0, "z": [1e16, 1e-5]}`, "1.0|[1.0, [1e+16, 1e-05], None, True, \"a'b\"]"},
	{"  {% if x %}\n  a\n  {%- else %}\nb\n{% endif %}\nc\n", `{"x": 1}`, "  ac"},
	{"{% for k, v in x|items %}{{ loop.index }}{{ k }}={{ v|tojson }}{% if not loop.last %},{% endif %}{% endfor %}", `{"x": {"b": 1.0, "a": ["<é>", null]}}`, `1b=1.0,2a=["<é>", null]`},
	{"{% set ns = namespace(n=0) %}{% for i in range(5) %}{% if i == 3 %}{% break %}{% endif %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}", `{}`, "3"},
	{"{% macro f(a, b=2) %}{{ a }}{{ b }}{{ caller() if caller }}{% endmacro %}{{ f(1) }}{{ f(1, b=3) }}{% call f(0) %}x{% endcall %}", `{}`, "121302x"},
	{"{{ x[1:] }}{{ x[::-1] }}{{ x[-1] }}{{ y[0] }}", `{"x": "aé中", "y": []}`, "é中中éa中"},
	{"{{ x.y.z }}", `{"x": {}}`, "!"},
	{"{{ x + 'a' }}", `{"x": null}`, "!"},
	{"{% generation %}{{ ' a '.strip() }}{% endgeneration %}{{ strftime_now('%d %b %Y') }}", `{}`, "a05 Mar 2026"},
	{"{{ 'a' ~ 1 ~ none }}{{ -7 // 2 }}{{ -7 % 3 }}{{ 1 / 2 }}", `{}`, "a1None-420.5"},
	{"{{ m|selectattr('r', 'equalto', 'u')|map(attribute='c')|list }}", `{"m": [{"r": "u", "c": 1}, {"r": "v"}]}`, "[1]"},
	{"{{ raise_exception('no') }}", `{}`, "!"},
	{"{{ x.items }}", `{}`, "!"},
	{"{{ x|tojson(indent=2) }}", `{"x": {"a": [1, {}], "b": []}}`, "{\n  \"a\": [\n    1,\n    {}\n  ],\n  \"b\": []\n}"},
}

func TestOwn(t *testing.T) {
	for _, c := range own {
		got, err := render(c.source, c.vars)
		if err != nil {
			got = "!"
		}
		if got != c.want {
			t.Errorf("%s gives %q (%v), want %q", c.source, got, err, c.want)
		}
	}
}

func TestLimits(t *testing.T) {
	// A hundred lists, each of the one before, twice: endless to walk.
	const doubled = "{% set ns = namespace(x=[1]) %}{% for i in range(100) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}"
	for _, source := range []string{
		"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
		"{% set ns = namespace(s='aaaaaaaa') %}{% for i in range(1000) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
		"{{ 'a' * 1000000000000 }}",
		"{% set ns = namespace(s='aaaaaaaa') %}{% for i in range(30) %}{% set ns.s = ns.s.replace('a', 'aa') %}{% endfor %}",
		doubled + "{{ ns.x }}", doubled + "{{ ns.x | tojson }}", doubled + "{{ ns.x == ns.x }}", doubled + "{{ [ns.x] < [ns.x] }}", doubled + "{{ ns.x in [ns.x] }}",
		"{{ range(100000) | list | tojson(separators=['" + strings.Repeat("x", 1000) + "', '']) }}",
		"{% for i in range(90000) %}{% for j in range(90000) %}{% endfor %}{% endfor %}",
	} {
		if got, err := render(source, "{}"); err == nil {
			t.Errorf("%s gives %d bytes", source, len(got))
		}
	}
}

type answer struct{ Text, Error *string }

func oracle(t *testing.T, templates []string, cases []json.RawMessage) [][]answer {
	t.Helper()
	in, _ := json.Marshal(map[string]any{"templates": templates, "cases": cases})
	cmd := exec.Command("python3", "testdata/oracle.py")
	cmd.Stdin = bytes.NewReader(in)
	out, err := cmd.Output()
	if err != nil {
		t.Skipf("python3 with jinja2 is not here: %v", err)
	}
	var rows [][]answer
	if err := json.Unmarshal(out, &rows); err != nil {
		t.Fatal(err)
	}
	return rows
}

func TestOwnIsPythons(t *testing.T) {
	for _, c := range own {
		got := oracle(t, []string{c.source}, []json.RawMessage{json.RawMessage(c.vars)})[0][0]
		if got.Error != nil != (c.want == "!") || got.Text != nil && *got.Text != c.want {
			t.Errorf("%s: Python gives %+v, want %q", c.source, got, c.want)
		}
	}
}

// TestTemplatesArePythons renders every *.jinja of TEST_JINJA_TEMPLATES, or
// of ~/.cache/banyan-jinja/templates, here and in Python.
func TestTemplatesArePythons(t *testing.T) {
	dir := os.Getenv("TEST_JINJA_TEMPLATES")
	if dir == "" {
		home, _ := os.UserHomeDir()
		dir = filepath.Join(home, ".cache/banyan-jinja/templates")
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*.jinja"))
	if len(files) == 0 {
		t.Skipf("no templates in %s: set TEST_JINJA_TEMPLATES", dir)
	}
	raw, err := os.ReadFile("testdata/cases.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []json.RawMessage
	if err := json.Unmarshal(raw, &cases); err != nil {
		t.Fatal(err)
	}
	var sources []string
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		sources = append(sources, string(b))
	}
	var full, equal, refused, rejected int
	for i, row := range oracle(t, sources, cases) {
		ok := 0
		for j, want := range row {
			got, err := render(sources[i], string(cases[j]))
			switch {
			case err == nil && want.Text == nil:
				t.Errorf("%s case %d: Python rejects it: %s", filepath.Base(files[i]), j, *want.Error)
			case want.Text == nil:
				rejected++
				ok++
			case err != nil:
				refused++
				t.Logf("%s case %d refused: %v", filepath.Base(files[i]), j, err)
			case got != *want.Text:
				t.Errorf("%s case %d: got %q, want %q", filepath.Base(files[i]), j, got, *want.Text)
			default:
				equal++
				ok++
			}
		}
		if ok == len(cases) {
			full++
		}
	}
	t.Logf("%d templates, %d fully equal; cases: %d equal, %d refused, %d rejected by both", len(files), full, equal, refused, rejected)
}

func FuzzRender(f *testing.F) {
	for _, c := range own {
		f.Add(c.source, c.vars)
	}
	f.Fuzz(func(_ *testing.T, source, vars string) {
		v, err := ParseJSON([]byte(vars))
		d, ok := v.(*Dict)
		if err != nil || !ok {
			return
		}
		tmpl, err := Parse(source)
		if err != nil {
			return
		}
		_, _ = tmpl.Render(nil, d, at, Limits{Steps: 100_000, Output: 1 << 20})
	})
}

func BenchmarkRender(b *testing.B) {
	t, err := Parse("{% for m in messages %}<|{{ m.role }}|>{{ m['content']|trim }}\n{% endfor %}")
	if err != nil {
		b.Fatal(err)
	}
	m := NewDict()
	m.Set("role", "user")
	m.Set("content", "a message of some length that is rendered")
	l := &List{}
	for range 40 {
		l.Items = append(l.Items, m)
	}
	vars := NewDict()
	vars.Set("messages", l)
	var out []byte
	b.ReportAllocs()
	for b.Loop() {
		if out, err = t.Render(out[:0], vars, at, Limits{}); err != nil {
			b.Fatal(err)
		}
	}
}
