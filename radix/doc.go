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
//
// # Layout
//
// A key names the whole prefix up to its block, so equal keys at the ends of
// two runs of blocks prove all of the runs equal. The tree is path-compressed
// on that ground: keys lie in lines of 16 consecutive blocks of one chain, and
// a reader compares one key a line. A line names an interned set of holders,
// or 16 of them when its blocks differ. Readers enter a chain through a small
// table of line heads; the table of all keys, the facts and the tables by
// handle belong to the writer. The cost of everything is counted in dependent
// cache misses: a match of 256 blocks has about five.
//
//	readers   heads -> hot line {w, last} -> set (planes gpu, gpu|cpu, any)
//	                   keys, mixed: only where a query ends or blocks differ
//	writer    keys: key -> line, off
//	          per holder: handle -> fact line, off; line -> fact line
//	          fact line {16 handles, meta}: what one holder holds of one line
//
// # Invariants
//
// I1: every key is in exactly one place (line, off), and a key at off > 0 has
// its chain predecessor at off-1. So chains are entered at off 0 only, and
// heads is all that readers need.
//
// I2: the first n keys of a line do not change while the line lives, and n
// only grows; stores become visible in the order keys, mixed, last, w, heads.
//
// I3: a line's word names the exact holder set of each of its n blocks. The
// planes of a set are cumulative; a line of which all sets are empty is freed
// by the call that emptied it.
//
// I4: holder h has a level in block b's set iff a fact of h covers b; the
// level is the best tier of those facts. Every fact is named by exactly one
// reference in its holder's table by handle.
//
// I5: a set counts the lines and mixed slots that name it.
//
// I6: a line, mixed record or set is used again only after every reader has
// left that was inside when it was unlinked. Readers never wait for the writer
// and the writer never waits for readers.
//
// I7: when all facts are gone nothing is left: no line, key, fact line, set.
//
// I8: in a part of a table no bucket with an empty slot lies between an entry
// and its home, going round at the end of the part.
//
// I9: no lane of a token hash is zero (a zero would hide the lane beside it).
//
// The layout was chosen by measurement against a flat map with every key
// probed and against galloping over one: it is as fast as galloping and, other
// than that, exact when a holder has holes.
package radix
