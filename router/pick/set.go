package pick

import (
	"github.com/banyan-llm/banyan/router/index"
	"github.com/banyan-llm/banyan/router/load"
)

// Mark is what never changes of a replica, worked out once.
type Mark struct {
	ID    uint64 // hash of its name, equal on all peers
	Ref   *index.Ref
	Entry *load.Entry
}

// Set is a candidate set: replicas that may be tried, in one order.
type Set struct {
	Marks   []*Mark
	Entries []*load.Entry // of the marks

	// Pages are the tokens of a page of each engine, 0 unknown; nil: nobody knows.
	Pages []int
	// Drops are the engines that take a page less from their cache than they find
	// there; nil: none.
	Drops []bool
	// Fetches are the replicas that fetch KV from each other; nil: none.
	Fetches []bool
}

// Add appends a replica.
func (s *Set) Add(m *Mark) { s.Marks, s.Entries = append(s.Marks, m), append(s.Entries, m.Entry) }

// Reset empties the set and keeps its memory.
func (s *Set) Reset() { s.Marks, s.Entries = s.Marks[:0], s.Entries[:0] }
