package token

import (
	"container/list"
	"crypto/sha256"
	"sync"

	"github.com/banyan-llm/banyan/radix"
)

// identity names one question to an engine.
type identity [sha256.Size]byte

// answer is what an engine said of one prompt.
type answer struct {
	hashes []radix.TokenHash
	next   []uint32 // tokens behind the blocks
	tokens int
	from   *source
}

// entryBytes is what an entry costs beside its hashes: map, list and headers.
const entryBytes = 448 // with its source

func (a answer) bytes() int { return entryBytes + 8*len(a.hashes) + 4*len(a.next) }

// cache keeps answers, least recently used out first.
type cache struct {
	limit int // bytes, immutable

	mu      sync.Mutex
	entries map[identity]*list.Element // of *entry
	recent  list.List                  // front: used last
	bytes   int                        // Invariant: sum over entries, at most limit
}

type entry struct {
	id     identity
	answer answer
}

func newCache(limit int) *cache {
	return &cache{limit: limit, entries: make(map[identity]*list.Element)}
}

func (c *cache) get(id identity) (answer, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries[id]
	if !ok {
		return answer{}, false
	}
	c.recent.MoveToFront(e)
	return e.Value.(*entry).answer, true
}

func (c *cache) put(id identity, a answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.entries[id]; ok || a.bytes() > c.limit {
		return
	}
	c.entries[id] = c.recent.PushFront(&entry{id, a})
	c.bytes += a.bytes()
	for c.bytes > c.limit {
		oldest := c.recent.Remove(c.recent.Back()).(*entry)
		delete(c.entries, oldest.id)
		c.bytes -= oldest.answer.bytes()
	}
}

// drop forgets an answer.
func (c *cache) drop(id identity) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.entries[id]; ok {
		c.bytes -= c.recent.Remove(e).(*entry).answer.bytes()
		delete(c.entries, id)
	}
}

func (c *cache) size() (entries, bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.entries), c.bytes
}
