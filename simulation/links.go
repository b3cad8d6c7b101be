package simulation

import "slices"

// links are the replicas' host memories and the links between them, for both
// evaluations: whatever a replica computes is kept in its memory too, least
// recently used out, and outlives its GPU's copy. A replica loads from its own,
// and with Config.Fetch from the others', one fetch after the other over the link
// of whoever hands out (vLLM's offloading connector and its P2P tier).
type links struct {
	cfg      *Config
	memories []*memory
	free     []float64   // when each one's link is, virtual seconds
	loading  [][]loading // per replica
}

// loading is a part of a prompt on its way into a replica. Requests that begin
// with it wait for it (vLLM: "hit chunks are being loaded").
type loading struct {
	last  uint64 // its last key
	pages int
	until float64
}

// newLinks is nil for replicas without host memory.
func newLinks(cfg *Config) *links {
	if cfg.HostTokens == 0 {
		return nil
	}
	l := &links{cfg: cfg, free: make([]float64, cfg.Replicas), loading: make([][]loading, cfg.Replicas)}
	for range cfg.Replicas {
		l.memories = append(l.memories, newMemory(cfg.HostTokens/cfg.Page))
	}
	return l
}

// lose empties the memory of a replica that is lost.
func (l *links) lose(k int) {
	if l != nil {
		l.loading[k] = nil
		l.memories[k] = newMemory(l.memories[k].limit)
	}
}

// bring moves what replica k lacks of a prompt on its GPU, which has so many
// tokens of it, into it from its own host memory and from its source's (-1: it has
// none): when it is all there, how many tokens of the prompt that are, and how
// many of them came from the source. What was thought to be there and is not is
// computed. keys are those of the prompt's whole pages.
func (l *links) bring(now float64, k, source int, keys []uint64, prompt, have int) (at float64, tokens, fetched int) {
	tiers := &l.cfg.Routing.Tiers
	at = now
	hold := func(pages int) int { return min(pages*l.cfg.Page, prompt-1) }
	l.loading[k] = slices.DeleteFunc(l.loading[k], func(l loading) bool { return l.until <= now })
	for _, part := range l.loading[k] {
		if part.pages <= len(keys) && keys[part.pages-1] == part.last && hold(part.pages) > have {
			at, tokens, have = max(at, part.until), hold(part.pages), hold(part.pages)
		}
	}
	if own := hold(l.memories[k].depth(keys)); own > have {
		at += tiers.CPU * float64(own-have)
		tokens, have = own, own
	}
	if source < 0 {
		return at, tokens, 0
	}
	pages := l.memories[source].depth(keys)
	from := hold(pages)
	at = max(at, now+tiers.Ask)
	if from <= have {
		return at, tokens, 0
	}
	l.free[source] = max(now, l.free[source]) + tiers.Peer*float64(from-have)
	at = max(at, l.free[source]+tiers.Ask)
	l.loading[k] = append(l.loading[k], loading{last: keys[pages-1], pages: pages, until: at})
	return at, from, from - have
}

// memory is a set of keys of bounded size, least recently used out.
type memory struct {
	limit int
	at    map[uint64]*kept
	ring  kept // next: the oldest
}

type kept struct {
	key        uint64
	prev, next *kept
}

func newMemory(limit int) *memory {
	m := &memory{limit: limit, at: map[uint64]*kept{}}
	m.ring.prev, m.ring.next = &m.ring, &m.ring
	return m
}

// put adds keys, or makes them the youngest, and returns those that went.
func (m *memory) put(keys []uint64) (gone []uint64) {
	for _, key := range keys {
		k := m.at[key]
		if k == nil {
			if len(m.at) >= m.limit {
				k = m.ring.next
				gone = append(gone, k.key)
				delete(m.at, k.key)
				k.unlink()
			} else {
				k = new(kept)
			}
			k.key = key
			m.at[key] = k
		} else {
			k.unlink()
		}
		k.prev, k.next = m.ring.prev, &m.ring
		k.prev.next, m.ring.prev = k, k
	}
	return gone
}

func (k *kept) unlink() { k.prev.next, k.next.prev = k.next, k.prev }

// depth counts the leading keys that are there, and makes them the youngest.
func (m *memory) depth(keys []uint64) int {
	n := 0
	for n < len(keys) && m.at[keys[n]] != nil {
		n++
	}
	m.put(keys[:n])
	return n
}
