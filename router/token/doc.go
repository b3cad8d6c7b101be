// Package token turns a prompt into block keys.
//
// It owns the choice of scheme (token ids as given, token ids from an engine,
// chunks of text, nothing), asking an engine within a deadline, the cache of
// what engines answered and the memory of which replicas can be asked. It
// does not know the tree, policies or request bodies: a Query brings the
// tokens or says how to get them.
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
//	I5  Cache and memory are bounded, and an engine's answer is read up to a
//	    bound.
package token
