// Package index is where crdt and radix meet: the one door into the tree for
// local events, remote deltas and snapshots, and the one place that answers
// "who caches how much of this prompt".
//
// It owns the link from engine handles to block keys (a block whose parent is
// unknown waits, and is linked when the parent comes), the undo log of slots
// folded above a gap, the mirror of predictions, and the map from replicas to
// holders. It does not know HTTP, sockets, membership or policies, and reads
// no clock.
//
// I1: local and remote slots enter through the same function (Apply).
// I2: only the fold removes a confirmed fact; memory pressure forgets streams whole.
// I3: readers see one incarnation per replica: Show flips it in one store.
// I4: Sum changes in the same call as the facts it adds up.
// I5: after Rewind the facts are those of the base at the floor, exactly.
// I6: no call holds the writer for more than a bounded number of facts, some
// 4,096 looked at or 1,024 folded: long deltas and slots are folded, overlays
// undone and orphans linked in steps, and so are clearing, loading, cutting,
// counting, ranking and expiry. Between the steps of a fold other streams are
// written to; whoever comes for the same stream helps it to its end first.
// I7: once counted, the number of suspects is that of the facts stored last
// before the highest slot lost which no answer confirmed since.
// I8: keys learned from answers, hints and other peers never change a fact,
// only where it hangs, and only of a fact that has no key; no digest of facts
// sees them.
// I9: a grid block made of smaller pages is in the tree exactly while all of
// them are present and their chain is known from a root, but for work put off
// (I6); it is no fact, and is gone as soon as its last page is.
// I10: of an engine whose hashes look ahead the last matched page counts only
// before a token that stood behind it, as far as that is known (ahead.go).
package index
