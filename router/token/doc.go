// Package token turns a prompt into block keys.
//
// It owns the choice of scheme (token ids as given, token ids from an engine,
// chunks of text, nothing), asking an engine within a deadline, the cache of
// what engines answered and the memory of which replicas can be asked how. It
// does not know the tree, policies or request bodies: a Query brings the
// tokens or says how to get them.
//
// Asking is a ladder, learned per replica and kind of prompt (see ladder):
//
//	ids given > render server > replica: render > /tokenize > text
//
// /tokenize takes completions and chats alone, so Messages and Responses are
// rewritten into the chats that the engine makes of them. That is proven before
// it is believed where the engine counts the tokens of a request without
// answering it (Messages), else by the first answer (see question.go).
//
// A rung that is not there (403, 404, 405, 501), refuses its first prompts,
// answers what is no list of ids, or counts other tokens than the engine then
// uses (Verify; a conversion at the first difference) is left alone for a minute, or until the replica comes up
// again. A replica that fails or is late is left alone for seconds. An answer
// that comes too late is kept for the next equal question.
//
// Not done, for want of a proof: to tell a longer prompt's tokens from those of
// its beginning. Two tokenizations join exactly only after an added token that
// swallows nothing around it, which a router without the vocabulary cannot see;
// and chat templates are not append-only: of 98 templates 18 do not even keep
// the text of the turn before (they drop reasoning, or move the tools). So each
// new turn is asked whole. Equal questions are asked once, up to 256 at a time.
//
// Invariants, each held by a test of the same number:
//
//	I1  Keys returns within the deadline (and the time to hash), whatever an
//	    engine does; no error stops a request: it falls back to text.
//	I2  Keys of different schemes never meet: token schemes root at
//	    ("tokens", adapter, salt), text at ("text", model, adapter, salt).
//	I3  A prompt that extends another begins with the other's whole keys, in
//	    one scheme and namespace.
//	I4  Equal questions under way at the same time reach an engine once.
//	I5  Cache, memory and questions under way are bounded, and an engine's
//	    answer is read up to a bound, in bytes and in time.
package token
