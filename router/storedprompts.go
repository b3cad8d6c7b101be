package router

import (
	"sync"

	"github.com/banyan-llm/banyan/router/pick"
	"github.com/banyan-llm/banyan/router/policy"
	"github.com/banyan-llm/banyan/router/token"
)

// Bounds of what is remembered of stored responses: 16 MiB of keys.
const (
	maxStoredPrompts = 4096
	maxStoredKeys    = 1 << 20
)

// storedPrompts remembers how conversations begin whose rest only their holder
// has: by the id of the response that goes on there. Those that other peers
// passed on are not in it, and are priced by what the client sends anew.
type storedPrompts struct {
	mu   sync.Mutex // guards below
	byID map[string]*storedPrompt
	ids  []string // in order of age
	keys int      // of all
}

// storedPrompt is immutable.
type storedPrompt struct {
	keys   token.Keys // of the first prompt
	tokens int        // of prompt and answer, as the engine counted them
}

func (s *storedPrompts) put(id string, p *storedPrompt) {
	n := len(p.keys.Keys)
	if n > maxStoredKeys {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byID == nil {
		s.byID = map[string]*storedPrompt{}
	}
	for len(s.ids) > 0 && (len(s.ids) >= maxStoredPrompts || s.keys+n > maxStoredKeys) {
		s.keys -= len(s.byID[s.ids[0]].keys.Keys)
		delete(s.byID, s.ids[0])
		s.ids = s.ids[1:]
	}
	s.byID[id], s.ids, s.keys = p, append(s.ids, id), s.keys+n
}

// get returns nil if it is not known.
func (s *storedPrompts) get(id string) *storedPrompt {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byID[id]
}

// goOn credits a conversation that goes on: a replica that has all of its first
// prompt has what was computed after it as well: all but the answer's last token.
func (p *storedPrompt) goOn(c *policy.Candidate, q *pick.Prompt, page int) {
	first, all := len(q.Chain.Keys)*q.Grid, (min(p.tokens, q.Tokens)-1)/page*page
	if first == 0 || all <= first {
		return
	}
	for _, held := range []*int{&c.GPU, &c.CPU, &c.Disk, &c.Predicted} {
		if *held == first {
			*held = all
		}
	}
}
