// Package radix is the prefix tree: how tokens become block keys, and which
// holder caches which prefix.
//
// It owns hashing (tokens -> token hash -> chained block key), the tree of
// lines that stores every fact once, exact matching of a prompt against all
// holders at once, and enumeration. It does not know streams, slots, epochs,
// gossip or time: a holder is a small number, a fact's meta is a word whose
// low 24 bits say how many copies lie on which tier and whose high 40 bits
// are the caller's.
//
// One writer at a time (the caller serialises), any number of readers that
// take no lock.
package radix
