package bpe

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// dict is a JSON object.
type dict = map[string]any

// tiny is a tokenizer.json of bytes with a few merges; change alters it.
func tiny(change func(file, model dict)) dict {
	vocab := dict{}
	for b, r := range byteRunes() {
		vocab[string(r)] = b
	}
	var merges []string
	for i, pair := range [][2]string{{"Ġ", "t"}, {"h", "e"}, {"Ġt", "he"}, {"l", "l"}, {"a", "b"}, {"b", "c"}, {"ab", "c"}, {"Ċ", "Ċ"}, {"1", "2"}, {"!", "!"}, {"Ã", "©"}, {"e", "r"}, {"he", "r"}} {
		vocab[pair[0]+pair[1]] = 256 + i
		merges = append(merges, pair[0]+" "+pair[1])
	}
	// Pairs over every border that a pre-tokenizer may cut at.
	letters := []rune("abestx12.,!?'/ASĠĊ")
	for _, b := range []byte("é漢字") {
		letters = append(letters, byteRunes()[b])
	}
	slices.Sort(letters)
	letters = slices.Compact(letters)
	rng := rand.New(rand.NewPCG(1, 2))
	for _, i := range rng.Perm(len(letters) * len(letters)) {
		a, b := string(letters[i%len(letters)]), string(letters[i/len(letters)])
		if _, known := vocab[a+b]; !known {
			vocab[a+b] = len(vocab)
			merges = append(merges, a+" "+b)
		}
	}
	vocab["Ġthere"] = len(vocab) // no merge makes it: a token only if merges are ignored
	model := dict{"type": "BPE", "vocab": vocab, "merges": merges}
	n := len(vocab)
	file := dict{
		"version": "1.0", "model": model,
		"added_tokens": []dict{token(n, "<|a|>"), token(n+1, "<|b|>")},
		"pre_tokenizer": dict{"type": "Sequence", "pretokenizers": []dict{
			{"type": "Split", "pattern": dict{"Regex": contracted + "|" + plainLetters + `|\p{N}{1,3}|` + plainRest}, "behavior": "Isolated", "invert": false},
			{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false},
		}},
		"post_processor": dict{
			"type": "TemplateProcessing", "single": []dict{{"SpecialToken": dict{"id": "<|a|>", "type_id": 0}}, {"Sequence": dict{"id": "A", "type_id": 0}}},
			"pair":           []dict{{"Sequence": dict{"id": "A", "type_id": 0}}, {"Sequence": dict{"id": "B", "type_id": 1}}},
			"special_tokens": dict{"<|a|>": dict{"id": "<|a|>", "ids": []int{n}, "tokens": []string{"<|a|>"}}},
		},
	}
	if change != nil {
		change(file, model)
	}
	return file
}

// tinyPieces is a SentencePiece-like tokenizer.json.
func tinyPieces(change func(file, model dict)) dict {
	vocab := dict{"<unk>": 0, "<s>": 1, "</s>": 2}
	for b := range 256 {
		vocab[fmt.Sprintf("<0x%02X>", b)] = len(vocab)
	}
	for _, r := range "▁abcehlrt.\né漢" {
		vocab[string(r)] = len(vocab)
	}
	var merges [][2]string
	for _, pair := range [][2]string{{"▁", "▁"}, {"▁", "t"}, {"h", "e"}, {"▁t", "he"}, {"l", "l"}, {"a", "b"}, {"b", "c"}, {"ab", "c"}, {"e", "▁"}, {"▁▁", "▁▁"}} {
		vocab[pair[0]+pair[1]] = len(vocab)
		merges = append(merges, pair)
	}
	vocab["▁there"] = len(vocab) // no merge makes it
	model := dict{"type": "BPE", "vocab": vocab, "merges": merges, "unk_token": "<unk>", "fuse_unk": true, "byte_fallback": true}
	file := dict{
		"version": "1.0", "model": model,
		"added_tokens": []dict{token(0, "<unk>"), token(1, "<s>"), token(2, "</s>")},
		"normalizer":   dict{"type": "Sequence", "normalizers": []dict{{"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": dict{"String": " "}, "content": "▁"}}},
	}
	if change != nil {
		change(file, model)
	}
	return file
}

func token(id int, content string) dict {
	return dict{"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true}
}

// flagged is a token with the flags of another.
func flagged(other dict, id int, content string) dict {
	t := maps.Clone(other)
	t["id"], t["content"] = id, content
	return t
}

func written(t testing.TB, file dict) []byte {
	t.Helper()
	b, err := json.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func loaded(t testing.TB, file dict) *Tokenizer {
	t.Helper()
	tok, err := Load(written(t, file))
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// TestT1Golden holds without an oracle: the lists were written by tokenizers
// 0.23.3.
func TestT1Golden(t *testing.T) {
	for _, c := range []struct {
		name    string
		file    dict
		text    string
		special bool
		want    []uint32
	}{
		{"bytes", tiny(nil), "abc the there <|b|>12é!!!\n\n x", true, []uint32{940, 262, 258, 258, 114, 101, 32, 941, 264, 266, 265, 33, 263, 389}},
		{"merges ignored", tiny(func(_, m dict) { m["ignore_merges"] = true }), "the there", false, []uint32{116, 257, 939}},
		{"pieces", tinyPieces(nil), "the  abc\tzé", true, []uint32{275, 272, 279, 12, 125, 270}},
		{"unknown", tinyPieces(func(_, m dict) { m["byte_fallback"] = false }), "a zz b", false, []uint32{259, 260, 259, 0, 259, 261}},
	} {
		if got := loaded(t, c.file).Encode(nil, c.text, c.special); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// variants are the options of every part, one at a time or together.
func variants() map[string]dict {
	v := map[string]dict{"bytes": tiny(nil), "pieces": tinyPieces(nil)}
	pre := func(name string, stages ...dict) {
		v["cut by "+name] = tiny(func(f, _ dict) {
			f["pre_tokenizer"] = dict{"type": "Sequence", "pretokenizers": append(stages, dict{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false})}
		})
	}
	for _, name := range []string{"Isolated", "Removed", "Contiguous", "MergedWithPrevious", "MergedWithNext"} {
		for _, invert := range []bool{false, true} {
			for kind, pattern := range map[string]dict{"text": {"String": " "}, "numbers": {"Regex": `\p{N}{1,3}`}, "cjk": {"Regex": "[一-龥぀-ゟ゠-ヿ]+"}, "gpt2": {"Regex": gpt2Regex}} {
				pre(fmt.Sprint(kind, name, invert), dict{"type": "Split", "pattern": pattern, "behavior": name, "invert": invert})
			}
		}
	}
	pre("digits", dict{"type": "Digits", "individual_digits": true}, dict{"type": "Split", "pattern": dict{"Regex": `\p{N}`}, "behavior": "Isolated", "invert": false})
	pre("runs of digits", dict{"type": "Digits", "individual_digits": false})
	pre("nothing")
	v["a space before"] = tiny(func(f, _ dict) {
		f["pre_tokenizer"] = dict{"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true}
	})
	v["merges ignored"] = tiny(func(_, m dict) { m["ignore_merges"] = true })
	v["bytes missing"] = tiny(func(_, m dict) {
		vocab := m["vocab"].(dict)
		delete(vocab, "z")
		delete(vocab, "x")
		vocab["q1"], vocab["q2"] = 122, 120
		m["merges"] = slices.DeleteFunc(m["merges"].([]string), func(line string) bool { return strings.Contains(line, "x") })
	})
	for _, form := range []string{"NFC", "NFD", "NFKC", "NFKD", "Lowercase"} {
		v[form] = tiny(func(f, _ dict) { f["normalizer"] = dict{"type": form} })
	}
	v["strip"] = tiny(func(f, _ dict) { f["normalizer"] = dict{"type": "Strip", "strip_left": true, "strip_right": true} })
	v["strip left"] = tiny(func(f, _ dict) { f["normalizer"] = dict{"type": "Strip", "strip_left": true, "strip_right": false} })
	flags := []string{"single_word", "lstrip", "rstrip", "normalized"}
	for mask := range 1 << len(flags) {
		v[fmt.Sprintf("added tokens %04b", mask)] = tiny(func(f, m dict) {
			n := len(m["vocab"].(dict))
			odd := token(n, "<|a|>")
			for i, flag := range flags {
				odd[flag] = mask>>i&1 == 1
			}
			f["added_tokens"] = []dict{odd, token(n+1, "<|b|>"), token(n+2, "<|a|>x"), flagged(odd, n+3, "THE"), flagged(odd, n+4, "\n")}
			// A token of spaces alone that takes spaces is refused; tokenizers panics if
			// one is found in the spaces that another took.
			f["added_tokens"].([]dict)[4]["lstrip"], f["added_tokens"].([]dict)[4]["rstrip"] = false, false
			f["normalizer"] = dict{"type": "Lowercase"}
		})
	}
	for _, scheme := range []string{"first", "always", "never"} {
		for _, cut := range []bool{true, false} {
			v[fmt.Sprint("metaspace ", scheme, cut)] = tinyPieces(func(f, _ dict) {
				delete(f, "normalizer")
				f["pre_tokenizer"] = dict{"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": cut}
			})
		}
	}
	for _, fallback := range []bool{true, false} {
		for _, fuse := range []bool{true, false} {
			v[fmt.Sprint("unknown ", fallback, fuse)] = tinyPieces(func(_, m dict) { m["byte_fallback"], m["fuse_unk"] = fallback, fuse })
		}
	}
	v["unknown dropped"] = tinyPieces(func(_, m dict) { m["byte_fallback"] = false; delete(m, "unk_token") })
	v["pieces, merges ignored"] = tinyPieces(func(_, m dict) { m["ignore_merges"] = true })
	return v
}

func variantTexts() []string {
	texts := manyTexts(2, 600)
	for _, s := range []string{"<|a|>", "x<|a|>x", "a <|a|> b", "<|a|><|a|>x<|b|>", " \n <|a|> \n\n <|b|>", "THE the The THEx xTHE THE THE", "\n\n a\n\nb \n <|a|>\n\n\nb", "<|a|", "abcabc  the there", "there", "x 漢字 a漢b 12漢", "zz漢zzé <s> x</s>", "é<|A|>", "e" + strings.Repeat("\u0301\u0323", 60) + "x"} {
		texts = append(texts, s, s+" "+s)
	}
	return texts
}

func TestT1EveryOption(t *testing.T) {
	python(t)
	texts, all := variantTexts(), variants()
	names, files, folder := slices.Sorted(maps.Keys(all)), []string{}, t.TempDir()
	for i, name := range names {
		files = append(files, filepath.Join(folder, fmt.Sprint(i)))
		if err := os.WriteFile(files[i], written(t, all[name]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, special := range []bool{false, true} {
		want := oracle(t, texts, special, files...)
		for i, name := range names {
			t.Run(name, func(t *testing.T) { compare(t, loaded(t, all[name]), name, texts, want[i], special) })
		}
		texts = plainTexts[:8]
	}
}

// TestT1Trained is a vocabulary trained here by the oracle.
func TestT1Trained(t *testing.T) {
	python(t)
	var file []byte
	ask(t, []any{plainTexts, 700}, &file, "--train")
	path := filepath.Join(t.TempDir(), "tokenizer.json")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	tok, err := Load(file)
	if err != nil {
		t.Fatal(err)
	}
	compare(t, tok, "trained", variantTexts(), oracle(t, variantTexts(), false, path)[0], false)
}

// TestT1ControlsAreCaught: the texts tell a wrong setting from the right one, so
// that equality means something.
func TestT1ControlsAreCaught(t *testing.T) {
	texts := variantTexts()
	right := func(file dict) (want [][]uint32) {
		tok := loaded(t, file)
		for _, s := range texts {
			want = append(want, tok.Encode(nil, s, false))
		}
		return want
	}
	bytes, pieces := right(tiny(nil)), right(tinyPieces(nil))
	for name, file := range variants() {
		want := bytes
		if loaded(t, file).model.ofByte == nil {
			want = pieces
		}
		// Bytes stand for every unknown character, so none are left to be fused.
		same := name == "bytes" || name == "pieces" || strings.HasPrefix(name, "unknown true")
		if bad := differing(loaded(t, file), texts, want, false); len(bad) == 0 && !same {
			t.Errorf("%s makes no difference to any text", name)
		}
	}
}

// TestT2Cuts: parts and whole have equal tokens, for all cuts at once and for
// each.
func TestT2Cuts(t *testing.T) {
	toks := map[string]*Tokenizer{}
	names := []string{}
	for name, file := range variants() {
		toks[name] = loaded(t, file)
		names = append(names, name)
	}
	slices.Sort(names)
	parts := []string{"<|a|>", "<|b|>", "<|a|>x", "THE", "<s>", "</s>", " ", "  ", "\n", "x", "the", "e", "\u0301", "1", "é", "!", "<|"}
	cut := 0
	rapid.Check(t, func(rt *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(parts), 0, 20).Draw(rt, "parts"), "")
		for _, name := range names {
			cut += holdCuts(rt, name, toks[name], text)
		}
	})
	if cut == 0 {
		t.Error("no text had a cut")
	}
	if got := toks["bytes"].Cuts(nil, "x<|a|> y<|b|>"); !slices.Equal(got, []int{6, 13}) {
		t.Errorf("cuts %v", got)
	}
	if got := toks["metaspace firsttrue"].Cuts(nil, "x<s>y"); got != nil {
		t.Errorf("cuts %v, where the first piece is treated apart", got)
	}
}

// holdCuts returns how many cuts text has.
func holdCuts(t *rapid.T, name string, tok *Tokenizer, text string) int {
	cuts := tok.Cuts(nil, text)
	whole, joined, from := tok.Encode(nil, text, false), []uint32(nil), 0
	for _, p := range cuts {
		if two := tok.Encode(tok.Encode(nil, text[:p], false), text[p:], false); !slices.Equal(two, whole) {
			t.Fatalf("T2: %s: %q cut at %d: %v, whole %v", name, text, p, two, whole)
		}
		joined = tok.Encode(joined, text[from:p], false)
		from = p
	}
	if joined = tok.Encode(joined, text[from:], false); !slices.Equal(joined, whole) {
		t.Fatalf("T2: %s: %q in parts: %v, whole %v", name, text, joined, whole)
	}
	return len(cuts)
}

// TestT3BothMergesAgree: a piece is merged alike by looking at all pairs and by a
// heap.
func TestT3BothMergesAgree(t *testing.T) {
	m := &model{pairs: newPairTable(400)}
	rapid.Check(t, func(rt *rapid.T) {
		m.pairs = newPairTable(400)
		for rank := range uint32(rapid.IntRange(0, 60).Draw(rt, "merges")) {
			// A new token is of its own, as Load makes sure.
			m.pairs.put(merge{rapid.Uint32Range(0, 4+rank).Draw(rt, "left"), rapid.Uint32Range(0, 4+rank).Draw(rt, "right"), rank, 5 + rank})
		}
		ids := rapid.SliceOfN(rapid.Uint32Range(0, 4), 1, 80).Draw(rt, "ids")
		few := m.mergeFew(nil, &scratch{ids: slices.Clone(ids)})
		many := m.mergeMany(nil, &scratch{ids: slices.Clone(ids)})
		if !slices.Equal(few, many) {
			rt.Fatalf("T3: %v and %v", few, many)
		}
	})
}

// TestT3SeamsChangeNothing: pieces cut where no merge reaches have the tokens of
// the whole.
func TestT3SeamsChangeNothing(t *testing.T) {
	tok, whole := loaded(t, tinyPieces(nil)), loaded(t, tinyPieces(nil))
	whole.model.joints = nil
	if tok.model.joints == nil {
		t.Fatal("pieces are not cut")
	}
	for _, s := range variantTexts() {
		if got, want := tok.Encode(nil, s, false), whole.Encode(nil, s, false); !slices.Equal(got, want) {
			t.Errorf("T3: %q: %v, whole %v", s, got, want)
		}
	}
}

// TestT1TheCacheTellsPiecesApart: short pieces that look alike do not get each
// other's tokens.
func TestT1TheCacheTellsPiecesApart(t *testing.T) {
	tok := loaded(t, tiny(func(f, _ dict) {
		f["pre_tokenizer"] = dict{"type": "ByteLevel", "use_regex": false, "add_prefix_space": false}
	}))
	var sc scratch
	rapid.Check(t, func(rt *rapid.T) {
		s := rapid.StringMatching(`[aAbB12]{1,20}`).Draw(rt, "piece")
		if rapid.Bool().Draw(rt, "one letter") {
			s = strings.Repeat(s[:1], len(s))
		}
		for _, s := range []string{s, s[:1] + s, s + s[len(s)-1:]} {
			got := sc.cache.tokenize(&tok.model, nil, &sc, s)
			if want := tok.model.tokenizePart(nil, &scratch{}, s); !slices.Equal(got, want) {
				rt.Fatalf("T1: %q: %v, want %v", s, got, want)
			}
		}
	})
}

// TestT4ManyAtOnce: goroutines share a Tokenizer and get what one alone gets.
func TestT4ManyAtOnce(t *testing.T) {
	for _, file := range []dict{tiny(nil), tinyPieces(nil), tiny(func(f, _ dict) { f["normalizer"] = dict{"type": "NFC"} })} {
		tok := loaded(t, file)
		texts := variantTexts()
		var want [][]uint32
		for _, s := range texts {
			want = append(want, tok.Encode(nil, s, true))
		}
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				if bad := differing(tok, texts, want, true); bad != nil {
					t.Errorf("T4: %d texts differ", len(bad))
				}
			})
		}
		wg.Wait()
	}
}

// TestT5NoAllocationPerToken: a text is encoded into a slice that has room.
func TestT5NoAllocationPerToken(t *testing.T) {
	text := strings.Repeat("the abc 12 there é!! <|b|>x\n\n", 300)
	for name, file := range map[string]dict{"bytes": tiny(nil), "pieces": tinyPieces(nil)} {
		tok := loaded(t, file)
		ids := tok.Encode(nil, text, true)
		if n := testing.AllocsPerRun(20, func() { ids = tok.Encode(ids[:0], text, true) }); n > 20 {
			t.Errorf("T5: %s: %.0f allocations for %d tokens", name, n, len(ids))
		}
	}
}

func TestInvalidUTF8IsReplaced(t *testing.T) {
	tok := loaded(t, tiny(nil))
	if got, want := tok.Encode(nil, "a\xff\xc3b", false), tok.Encode(nil, "a\ufffd\ufffdb", false); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
