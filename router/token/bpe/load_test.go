package bpe

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestT6WhatIsNotKnownIsRefusedByName: type, option or bound stands in the error.
func TestT6WhatIsNotKnownIsRefusedByName(t *testing.T) {
	set := func(name string, v any) dict { return tiny(func(f, _ dict) { f[name] = v }) }
	model := func(name string, v any) dict { return tiny(func(_, m dict) { m[name] = v }) }
	deep := any(dict{"type": "NFC"})
	for range 12 {
		deep = dict{"type": "Sequence", "normalizers": []any{deep}}
	}
	brackets := json.RawMessage(strings.Repeat("[", 100) + strings.Repeat("]", 100))
	doubling := make([]dict, 8)
	for i := range doubling {
		doubling[i] = dict{"type": "Replace", "pattern": dict{"String": "a"}, "content": "aa"}
	}
	for want, file := range map[string]dict{
		`"Precompiled"`:             set("normalizer", dict{"type": "Precompiled"}),
		`"Whitespace"`:              set("pre_tokenizer", dict{"type": "Whitespace"}),
		"Punctuation":               set("pre_tokenizer", dict{"type": "Punctuation"}),
		`"BertProcessing"`:          set("post_processor", dict{"type": "BertProcessing"}),
		`"Unigram"`:                 model("type", "Unigram"),
		`"dropout"`:                 model("dropout", 0.1),
		"continuing_subword_prefix": model("continuing_subword_prefix", "##"),
		"end_of_word_suffix":        model("end_of_word_suffix", "</w>"),
		`"novel"`:                   model("novel", true),
		`"unheard"`:                 set("unheard", 1),
		`"wild"`:                    set("pre_tokenizer", dict{"type": "ByteLevel", "wild": true}),
		`"truncation"`:              set("truncation", dict{"max_length": 1}),
		`"padding"`:                 set("padding", dict{}),
		`version "2.0"`:             set("version", "2.0"),
		`"\\w+\\s*"`:                set("pre_tokenizer", dict{"type": "Split", "pattern": dict{"Regex": `\w+\s*`}, "behavior": "Isolated", "invert": false}),
		`expression " {2,}"`:        set("normalizer", dict{"type": "Replace", "pattern": dict{"Regex": " {2,}"}, "content": "x"}),
		`"Sideways"`:                set("pre_tokenizer", dict{"type": "Split", "pattern": dict{"String": "x"}, "behavior": "Sideways"}),
		"follow ByteLevel":          set("pre_tokenizer", dict{"type": "Sequence", "pretokenizers": []dict{{"type": "ByteLevel"}, {"type": "Digits"}}}),
		"too deep":                  set("normalizer", deep),
		"64 brackets":               set("decoder", brackets),
		"100 times as long":         set("normalizer", dict{"type": "Sequence", "normalizers": doubling}),
		"more than 16 members":      set("normalizer", dict{"type": "Sequence", "normalizers": slices.Repeat([]dict{{"type": "Strip"}}, 17)}),
		"its id is 7":               set("added_tokens", []dict{token(7, "<|new|>")}),
		"another token's": tiny(func(f, m dict) {
			n := len(m["vocab"].(dict))
			f["added_tokens"] = []dict{flagged(token(0, ""), n, "A B"), flagged(token(0, ""), n+1, "A B")}
		}),
		"of spaces alone": tiny(func(f, m dict) {
			x := token(len(m["vocab"].(dict)), " ")
			x["rstrip"] = true
			f["added_tokens"] = []dict{x}
		}),
		"more than 256 bytes":       tiny(func(f, m dict) { f["added_tokens"] = []dict{token(len(m["vocab"].(dict)), strings.Repeat("x", 257))} }),
		"does not have":             model("merges", []string{"no such"}),
		"not two words":             model("merges", []string{"a b c"}),
		"lists and lines are mixed": model("merges", []any{[]string{"a", "b"}, "b c", "h e", "l l"}),
		"have the id 5":             model("vocab", dict{"a": 5, "b": 5}),
		"below 10,000,000":          model("vocab", dict{"a": 10_000_000}),
		`"unk_token" is not`:        model("unk_token", "<none>"),
		"needs the token <0x00>":    tinyPieces(func(_, m dict) { delete(m["vocab"].(dict), "<0x00>"); m["vocab"].(dict)["other"] = 3 }),
		"stand in \"single\" once":  set("post_processor", dict{"type": "TemplateProcessing", "single": []dict{}}),
		"is not listed":             set("post_processor", dict{"type": "TemplateProcessing", "single": []dict{{"SpecialToken": dict{"id": "x"}}}}),
		"first piece only": tinyPieces(func(f, _ dict) {
			f["pre_tokenizer"] = dict{"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first"}
		}),
	} {
		_, err := Load(written(t, file))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %q, want one with %q", fmt.Sprint(err), want)
		}
	}
}

func TestT6BrokenFilesAreRefused(t *testing.T) {
	good := written(t, tiny(nil))
	for n := 0; n < len(good); n += 1 + n/50 {
		if _, err := Load(good[:n]); err == nil {
			t.Errorf("the first %d of %d bytes are taken", n, len(good))
		}
	}
	for _, bad := range []string{`null`, `[]`, `{"version":"1.0"}`, "{\"version\":\"1.0\xff\"}", `{"version":"1.0","version":"1.0"}`} {
		if _, err := Load([]byte(bad)); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	half := strings.Replace(string(good), `"added_tokens":[`, `"added_tokens":[{"id":1,"content":"\ud800"},`, 1)
	if _, err := Load([]byte(half)); err == nil || !strings.Contains(err.Error(), "surrogate") {
		t.Errorf("half a surrogate pair: %v", err)
	}
	if _, err := Load(make([]byte, MaxFile+1)); err == nil {
		t.Error("a file beyond the limit is taken")
	}
}

// TestT6MergesInARing: merges that make each other's parts are only pairs; every
// merge leaves one token less.
func TestT6MergesInARing(t *testing.T) {
	tok := loaded(t, tinyPieces(func(_, m dict) {
		m["vocab"].(dict)["aa"] = 9000
		m["vocab"].(dict)["aaa"] = 9001
		m["merges"] = [][2]string{{"aa", "a"}, {"a", "aa"}, {"a", "a"}}
	}))
	text := strings.Repeat("a", 100_000)
	if ids := tok.Encode(nil, text, false); len(ids) == 0 || len(ids) > len(text) {
		t.Errorf("%d ids", len(ids))
	}
}

func FuzzLoad(f *testing.F) {
	for _, file := range variants() {
		b, err := json.Marshal(file)
		if err != nil {
			f.Fatal(err)
		}
		if len(b) < 20_000 {
			f.Add(b)
		}
	}
	f.Add([]byte(`{"version":"1.0","model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]}}`))
	f.Fuzz(func(t *testing.T, file []byte) {
		tok, err := Load(file)
		if err != nil {
			return
		}
		for _, s := range plainTexts {
			ids := tok.Encode(nil, s, true)
			if len(ids) > maxAround+(len(s)+1)*maxGrowth*(maxContent+1) {
				t.Fatalf("%q has %d tokens", s, len(ids))
			}
			tok.Cuts(nil, s)
		}
	})
}

// FuzzEncode holds T2 and T3 for any text.
func FuzzEncode(f *testing.F) {
	for _, s := range variantTexts()[:200] {
		f.Add(s)
	}
	bytes, err := json.Marshal(tiny(func(f, _ dict) { f["normalizer"] = dict{"type": "NFC"} }))
	if err != nil {
		f.Fatal(err)
	}
	tok, err := Load(bytes)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		whole := tok.Encode(nil, text, false)
		for _, p := range tok.Cuts(nil, text) {
			if two := tok.Encode(tok.Encode(nil, text[:p], false), text[p:], false); fmt.Sprint(two) != fmt.Sprint(whole) {
				t.Fatalf("T2: %q cut at %d", text, p)
			}
		}
	})
}
