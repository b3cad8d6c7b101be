// Package bpe turns text into token ids with a tokenizer.json (Hugging Face),
// exactly as tokenizers (Rust) does.
//
// It owns reading the file and the way from a text to ids:
//
//	text > added tokens > normalizers > added tokens > pre-tokenizers > model
//
// It knows byte-pair encoding of bytes (GPT-2's way: Llama 3 and 4, Qwen, gpt-oss,
// DeepSeek, GLM, Kimi, Mistral's Tekken) and of characters (SentencePiece's way:
// Gemma, Llama 2, Mistral 7B). It does not know chat templates, engines, files or
// the network, and no other package of ours. What it does not know in a file is an
// error of Load that names it, never a guess: a router that cannot be exact asks an
// engine.
//
// Regular expressions are known by their text and written by hand (pattern.go). A
// piece of text that is a token by itself is looked up; any other is merged, always
// the pair of the lowest rank and of those the first.
//
// Known limits: characters newer than Go's Unicode tables (15.0) count as
// unassigned, and an engine may count them as letters, numbers or marks; with
// DeepSeek's expression also as symbols (the emojis of 2024). transformers can add
// tokens or change what is put around a text (tokenizer_config.json): whoever
// reads the file must look there too.
//
// Invariants, each held by a test of the same number:
//
//	T1  Encode gives the ids that tokenizers gives, for every file that Load takes.
//	T2  Cut at Cuts, the parts of a text have the tokens of the whole.
//	T3  Neither the way of merging nor cutting a piece where no merge reaches
//	    changes a token.
//	T4  A Tokenizer never changes; goroutines share it.
//	T5  Encode allocates nothing per token.
//	T6  Load returns, whatever the file, without panic; file, vocabulary, merges,
//	    added tokens, nesting and steps are bounded. Encode takes a time that grows
//	    as n log n with the text, and normalizers lengthen none more than a
//	    hundredfold.
package bpe
