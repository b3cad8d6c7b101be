package bpe

import (
	"slices"
	"strings"
	"testing"

	"golang.org/x/text/unicode/norm"
)

// TestT1Patterns: each expression cuts as the original does (pieces written by
// tokenizers 0.23.3), with escapes and with line breaks as such.
func TestT1Patterns(t *testing.T) {
	const text = "We'LL it'ſ aBCd ABc1234é漢字カ\u3000 don't//x\n\n  y \n ! é!/\r\n٣Ⅷ $x\u0301\u0302A"
	for _, c := range []struct{ regex, want string }{
		{`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`, "We|'LL| it|'ſ| aBCd| ABc|123|4|é漢字カ|\u3000| don|'t|//|x|\n\n| | y| \n| !| é|!/\r\n|٣Ⅷ| $|x|\u0301\u0302|A"},
		{`'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+`, "We|'LL| it|'ſ| aBCd| ABc|123|4|é漢字カ|\u3000| don|'t|//|x|\n\n| | y| \n| !| é|!/\r\n|٣Ⅷ| $|x|\u0301\u0302|A"},
		{`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`, "We|'LL| it|'ſ| aBCd| ABc|1|2|3|4|é漢字カ|\u3000| don|'t|//|x|\n\n| | y| \n| !| é|!/\r\n|٣|Ⅷ| $|x|\u0301\u0302|A"},
		{`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`, "We|'LL| it|'ſ| aBCd| ABc|1|2|3|4|é漢字カ|\u3000| don|'t|//|x|\n\n| | y| \n| !| é|!/\r\n|٣|Ⅷ| $|x\u0301\u0302A"},
		{`[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`, "We'LL| it'ſ| a|BCd| ABc|123|4|é漢字カ|\u3000| don't|//|x|\n\n| | y| \n| !| é|!/\r\n|٣Ⅷ| $|x\u0301\u0302|A"},
		{`[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`, "We|'LL| it|'ſ| a|BCd| ABc|1|2|3|4|é漢字カ|\u3000| don|'t|//|x|\n\n| | y| \n| !| é|!/\r\n|٣|Ⅷ| $|x\u0301\u0302|A"},
		{`[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`, "We'LL| it'ſ| a|BCd| ABc|123|4|é|漢字|カ|\u3000| don't|//|x|\n\n| | y| \n| !| é|!/\r\n|٣Ⅷ| $|x\u0301\u0302|A"},
		{`'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`, "We|'|LL| it|'|ſ| aBCd| ABc|1234|é漢字カ|\u3000| don|'t|//|x|\n\n | y| \n| !| é|!/|\r|\n|٣Ⅷ| $|x|\u0301\u0302|A"},
		{`\p{N}{1,3}`, "We'LL it'ſ aBCd ABc|123|4|é漢字カ\u3000 don't//x\n\n  y \n ! é!/\r\n|٣Ⅷ| $x\u0301\u0302A"},
		{`[一-龥぀-ゟ゠-ヿ]+`, "We'LL it'ſ aBCd ABc1234é|漢字カ|\u3000 don't//x\n\n  y \n ! é!/\r\n٣Ⅷ $x\u0301\u0302A"},
		{`[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_` + "`" + `{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`, "We|'LL| it|'|ſ| aBCd| ABc|123|4é漢字カ|\u3000| don|'t|//|x|\n\n| | y| \n| !| é|!/\r\n|٣Ⅷ| $|x\u0301\u0302A"},
	} {
		for _, regex := range []string{c.regex, strings.NewReplacer(`\r`, "\r", `\n`, "\n").Replace(c.regex)} {
			p, ok := patternOf(regex)
			if !ok {
				t.Errorf("%s is not known", regex)
				continue
			}
			if got := strings.Join(pieces(p, text), "|"); got != c.want {
				t.Errorf("%s:\n got %q\nwant %q", regex, got, c.want)
			}
		}
	}
}

func pieces(p finder, s string) (out []string) {
	for at := 0; at < len(s); {
		start, end := p.find(s, at)
		if start < 0 {
			return append(out, s[at:])
		}
		if start > at {
			out = append(out, s[at:start])
		}
		out = append(out, s[start:end])
		at = end
	}
	return out
}

// TestT1UnicodeForms: as x/text, but for its limit of 30 marks in a row.
func TestT1UnicodeForms(t *testing.T) {
	for form, n := range map[norm.Form]unicodeForm{norm.NFC: {norm.NFC, true}, norm.NFD: {norm.NFD, false}, norm.NFKC: {norm.NFKC, true}, norm.NFKD: {norm.NFKD, false}} {
		for _, s := range slices.Concat(variantTexts(), everyCharacter()) {
			if got, want := n.normalize(s), form.String(s); got != want && !strings.Contains(want, "\u034f") {
				t.Errorf("%d: %q: %q, want %q", form, s, got, want)
			}
		}
		marks := strings.Repeat("\u0323", 40) + strings.Repeat("\u0301", 40)
		if got := n.normalize("漢" + strings.Repeat("\u0301", 40) + strings.Repeat("\u0323", 40)); got != "漢"+marks {
			t.Errorf("%d: 80 marks become %q", form, got)
		}
	}
}
