package standin

import (
	"net/http"
	"sync"
)

// maxPolled bounds TensorRT-LLM's event queue; the oldest go first, and the
// next poll shows a gap in the ids.
const maxPolled = 1 << 16

// polled is TensorRT-LLM's event queue: numbered, emptied by every poll.
type polled struct {
	mu    sync.Mutex // guards below
	queue []pollEvent
	next  uint64
}

// pollEvent is one element of the answer to POST /kv_cache_events.
type pollEvent struct {
	ID     uint64 `json:"event_id"`
	Data   any    `json:"data"`
	Window int    `json:"window_size"`
}

type polledStored struct {
	Type   string        `json:"type"`
	Parent *uint64       `json:"parent_hash"`
	Blocks []polledBlock `json:"blocks"`
}

type polledBlock struct {
	Type     string        `json:"type"`
	Hash     uint64        `json:"block_hash"`
	Tokens   []polledToken `json:"tokens"`
	Level    int           `json:"cache_level"`
	Priority int           `json:"priority"`
	Salt     string        `json:"cache_salt,omitempty"`
}

type polledToken struct {
	Type  string `json:"type"`
	ID    uint32 `json:"token_id"`
	Extra int    `json:"token_extra_id"`
}

type polledRemoved struct {
	Type   string   `json:"type"`
	Hashes []uint64 `json:"block_hashes"`
}

type polledCreated struct {
	Type   string `json:"type"`
	Blocks [2]int `json:"num_blocks_per_cache_level"`
}

func (p *polled) add(window int, data any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue = append(p.queue, pollEvent{ID: p.next, Data: data, Window: window})
	p.next++
	if len(p.queue) > maxPolled {
		p.queue = p.queue[1:]
	}
}

func (p *polled) drain() []pollEvent {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := p.queue
	p.queue = nil
	if out == nil {
		out = []pollEvent{}
	}
	return out
}

// addEvent queues one event in TensorRT-LLM's form.
func (p *polled) addEvent(window, page int, e *event) {
	switch e.kind {
	case blockRemoved:
		p.add(window, polledRemoved{Type: "removed", Hashes: e.hashes})
		return
	case allCleared:
		return // it has no such event: a reset removes block by block
	}
	out := polledStored{Type: "stored"}
	if !e.root {
		parent := e.parent
		out.Parent = &parent
	}
	for i, h := range e.hashes {
		b := polledBlock{Type: "stored_block", Hash: h, Priority: 35, Salt: e.salt}
		for _, id := range e.tokens[i*page : (i+1)*page] {
			b.Tokens = append(b.Tokens, polledToken{Type: "unique_token", ID: id})
		}
		out.Blocks = append(out.Blocks, b)
	}
	p.add(window, out)
}

// trtllmRoutes are the endpoints that only trtllm-serve has.
func (s *Server) trtllmRoutes(m *http.ServeMux) {
	m.HandleFunc("POST /kv_cache_events", func(w http.ResponseWriter, _ *http.Request) {
		eng := s.current()
		if eng == nil {
			panic(http.ErrAbortHandler)
		}
		eng.stats() // brings the model up to now
		writeJSON(w, eng.polled.drain())
	})
	m.HandleFunc("GET /prometheus/metrics", s.metrics)
	m.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, []int{}) }) // iteration statistics
	m.HandleFunc("GET /server_info", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, map[string]any{"disaggregated_params": nil, "kv_cache_hash_algo": "v1"})
	})
	m.HandleFunc("POST /_internal/tokenize", s.tokenize)
	m.HandleFunc("GET /health_generate", s.health)
}
