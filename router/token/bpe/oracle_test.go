package bpe

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
)

// python is an interpreter that has tokenizers (Rust), the oracle: that of
// TOKENIZERS_PYTHON, or python3.
func python(t testing.TB) string {
	t.Helper()
	p := os.Getenv("TOKENIZERS_PYTHON")
	if p == "" {
		p = "python3"
	}
	if err := exec.Command(p, "-c", "import tokenizers").Run(); err != nil {
		t.Skipf("%s cannot import tokenizers (pip install tokenizers; TOKENIZERS_PYTHON names another python): %v", p, err)
	}
	return p
}

// ask runs testdata/oracle.py.
func ask(t testing.TB, in any, out any, args ...string) {
	t.Helper()
	stdin, is := in.(string)
	if !is {
		b, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		stdin = string(b)
	}
	cmd := exec.Command(python(t), append([]string{"testdata/oracle.py"}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("the oracle fails: %v\n%s", err, stderr.String())
	}
	if raw, is := out.(*[]byte); is {
		*raw = stdout.Bytes()
	} else if err := json.Unmarshal(stdout.Bytes(), out); err != nil {
		t.Fatal(err)
	}
}

type question struct {
	Texts   []string `json:"texts"`
	Special bool     `json:"special"`
}

// oracle returns what tokenizers makes of texts, by file and text.
func oracle(t testing.TB, texts []string, special bool, files ...string) (ids [][][]uint32) {
	t.Helper()
	ask(t, question{texts, special}, &ids, files...)
	return ids
}

// differing returns the numbers of the texts that have other tokens here.
func differing(tok *Tokenizer, texts []string, want [][]uint32, special bool) (bad []int) {
	for i, s := range texts {
		if !slices.Equal(tok.Encode(nil, s, special), want[i]) {
			bad = append(bad, i)
		}
	}
	return bad
}

func mustLoad(t testing.TB, file string) *Tokenizer {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	tok, err := Load(b)
	if err != nil {
		t.Fatalf("%s: %v", filepath.Base(file), err)
	}
	return tok
}

// realFiles are the files of TOKENIZERS_DIR, a folder that
// testdata/vocabularies.py fills.
func realFiles(t testing.TB) []string {
	t.Helper()
	files, _ := filepath.Glob(filepath.Join(os.Getenv("TOKENIZERS_DIR"), "*.json"))
	if os.Getenv("TOKENIZERS_DIR") == "" || len(files) == 0 {
		t.Skip("TOKENIZERS_DIR names no folder of tokenizer.json files (testdata/vocabularies.py writes one)")
	}
	return files
}

func compare(t *testing.T, tok *Tokenizer, name string, texts []string, want [][]uint32, special bool) {
	t.Helper()
	bad := differing(tok, texts, want, special)
	for _, i := range bad[:min(5, len(bad))] {
		t.Errorf("%.200q:\n got %v\nwant %v", texts[i], tok.Encode(nil, texts[i], special), want[i])
	}
	t.Logf("%s: %d of %d texts differ", name, len(bad), len(texts))
}

func TestT1RealVocabularies(t *testing.T) {
	for _, file := range realFiles(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			begin := time.Now()
			tok := mustLoad(t, file)
			t.Logf("loaded in %v", time.Since(begin))
			texts, name := manyTexts(1, 3000), filepath.Base(file)
			compare(t, tok, name, texts, oracle(t, texts, false, file)[0], false)
			compare(t, tok, name, plainTexts, oracle(t, plainTexts, true, file)[0], true)
		})
	}
}

// TestT1EveryCharacter: only texts with a character that Go's Unicode tables do not
// know yet may differ.
func TestT1EveryCharacter(t *testing.T) {
	if testing.Short() {
		t.Skip("takes minutes")
	}
	texts := everyCharacter()
	for _, file := range realFiles(t) {
		tok := mustLoad(t, file)
		want := oracle(t, texts, false, file)[0]
		newer := 0
		for _, i := range differing(tok, texts, want, false) {
			if strings.ContainsFunc(texts[i], func(r rune) bool { return unicode.Is(unicode.Cn, r) }) {
				newer++
				continue
			}
			t.Errorf("%q differs", texts[i])
		}
		t.Logf("%s: %d of %d texts differ by characters newer than Go's tables", filepath.Base(file), newer, len(texts))
	}
}
