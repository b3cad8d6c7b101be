package standin

import "github.com/banyan-llm/banyan/simulation/replica"

// eventLocked gives a model's event its tokens and namespace. The request is
// live or was until this very step.
func (e *engine) eventLocked(ev *replica.KVEvent) event {
	switch ev.Kind {
	case replica.Removed:
		return event{kind: blockRemoved, hashes: []uint64{e.unaliasLocked(ev.Key)}}
	case replica.Cleared:
		clear(e.alias)
		return event{kind: allCleared}
	}
	g := e.live[ev.ID]
	out := event{kind: blockStored, hashes: g.hashes[ev.First : ev.First+len(ev.Keys)], root: ev.First == 0, lora: g.lora, salt: g.salt}
	if !out.root {
		out.parent = g.hashes[ev.First-1]
	}
	for i, key := range ev.Keys {
		if key != out.hashes[i] {
			e.alias[key] = out.hashes[i]
		}
	}
	from, to := ev.First*e.cfg.Page, (ev.First+len(ev.Keys))*e.cfg.Page
	out.tokens = make([]uint32, 0, to-from)
	if to <= len(g.tokens) {
		out.tokens = g.tokens[from:to:to]
		return out
	}
	for i := from; i < to; i++ {
		out.tokens = append(out.tokens, g.token(i))
	}
	return out
}

// unaliasLocked is the block hash of a key that is being removed.
func (e *engine) unaliasLocked(key uint64) uint64 {
	if hash, ok := e.alias[key]; ok {
		delete(e.alias, key)
		return hash
	}
	return key
}

// name gives a generation's pages their keys and block hashes: a chain over
// the tokens of each block. vLLM takes the adapter's name into every block
// and the salt into the first one. SGLang keeps adapters and salts apart in
// its cache but leaves both out of the hash.
func (e *engine) name(g *generation) {
	total := len(g.tokens) + g.output
	g.hashes = make([]uint64, 0, total/e.cfg.Page)
	h, extra := e.cfg.HashSeed, uint64(0)
	if e.cfg.Engine != SGLang {
		extra = fold(2, g.lora)
		if g.salt != "" {
			h = fold(h, g.salt)
		}
	}
	for at := 0; at+e.cfg.Page <= total; at += e.cfg.Page {
		h = mix(h, extra)
		for i := range e.cfg.Page {
			h = mix(h, uint64(g.token(at+i)))
		}
		g.hashes = append(g.hashes, h)
	}
	g.keys = g.hashes
	if e.cfg.Engine == SGLang && g.lora+g.salt != "" {
		space := fold(fold(4, g.lora), g.salt)
		g.keys = make([]uint64, len(g.hashes))
		for i, hash := range g.hashes {
			g.keys[i] = mix(hash, space)
		}
	}
}
