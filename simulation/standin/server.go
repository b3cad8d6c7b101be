package standin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// Server is a running stand-in. It is safe for concurrent use.
type Server struct {
	cfg         Config
	maxModelLen int
	capacity    int // tokens the KV cache holds
	faults      *faults
	ln          net.Listener
	http        *http.Server
	started     time.Time
	wg          sync.WaitGroup // every goroutine of ours. I7

	stored stored // of the responses API

	mu        sync.Mutex   // guards below; never held while waiting for a request
	inc       *incarnation // nil between two
	events    string       // bound endpoints of rank 0, kept over restarts
	replay    string
	restarts  int
	fetched   uint64    // tokens
	launched  time.Time // the start of the present process
	closed    bool
	done      chan struct{} // closed by Close
	restartMu sync.Mutex    // one restart at a time; locked before mu
}

// New binds the sockets and starts serving; Close ends it.
func New(cfg Config) (*Server, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, faults: newFaults(cfg.Seed), started: time.Now(), events: cfg.Events, replay: cfg.Replay, done: make(chan struct{})}
	if s.ln, err = net.Listen("tcp", cfg.Listen); err != nil {
		return nil, fmt.Errorf("stand-in: %w", err)
	}
	if err := s.launch(); err != nil {
		_ = s.ln.Close()
		return nil, fmt.Errorf("stand-in: %w", err)
	}
	s.maxModelLen = s.cfg.MaxModelLen
	s.capacity = s.current().model.Stats().Blocks * s.cfg.Page
	if room := s.capacity; s.maxModelLen == 0 || s.maxModelLen > room {
		s.maxModelLen = min(room, maxModelLen)
	}
	s.http = &http.Server{Handler: s.routes(), ReadHeaderTimeout: 10 * time.Second}
	s.wg.Go(func() { _ = s.http.Serve(s.ln) })
	return s, nil
}

// Run serves until ctx ends, then closes.
func (s *Server) Run(ctx context.Context) error {
	<-ctx.Done()
	return s.Close()
}

// Close ends every request and waits for all goroutines. It may be called
// more than once.
func (s *Server) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	close(s.done)
	inc := s.inc
	s.mu.Unlock()
	if inc != nil {
		inc.close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	if err := s.http.Shutdown(ctx); err != nil {
		_ = s.http.Close()
	}
	s.wg.Wait()
	return nil
}

// Addr is the HTTP address, host:port.
func (s *Server) Addr() string { return s.ln.Addr().String() }

// URL is the base URL.
func (s *Server) URL() string { return "http://" + s.Addr() }

// EventsAddr is the bound PUB endpoint, tcp://host:port; "" if none is bound.
func (s *Server) EventsAddr() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cfg.EventsDial {
		return ""
	}
	return s.events
}

// ReplayAddr is the bound replay endpoint; "" if there is none.
func (s *Server) ReplayAddr() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.replay
}

// Set changes the stand-in's faults.
func (s *Server) Set(f Fault) {
	s.faults.set(f)
	if f.StallMS == nil {
		return
	}
	for _, eng := range s.all() {
		eng.stall(time.Duration(*f.StallMS) * time.Millisecond)
	}
}

// errClosed is what Restart answers after Close.
var errClosed = errors.New("stand-in closed")

// Restart replaces the engine by a new process: requests in it are cut, the
// cache is empty, batches count from 0 again, subscribers have to reconnect.
// Nothing is served for the time in between.
func (s *Server) Restart(down time.Duration) error {
	s.restartMu.Lock()
	defer s.restartMu.Unlock()
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return errClosed
	}
	old := s.inc
	s.inc = nil
	s.restarts++
	s.stored.clear()
	s.mu.Unlock()
	if old != nil { // nil after a restart that failed
		old.close()
	}
	select {
	case <-s.done:
	case <-time.After(down):
	}
	return s.launch()
}

// launch starts an incarnation on the endpoints of the last one.
func (s *Server) launch() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosed
	}
	inc, err := s.newIncarnation(s.events, s.replay)
	if err != nil {
		return err
	}
	if events, replay := inc.engines[0].pub.addrs(); s.cfg.EventsDial {
		s.replay = replay // the endpoint to dial stays
	} else {
		s.events, s.replay = events, replay
	}
	s.inc = inc
	s.launched = time.UnixMilli(max(time.Now().UnixMilli(), s.launched.UnixMilli()+1))
	return nil
}

// current is the engine of the first rank that serves now, nil between two
// incarnations.
func (s *Server) current() *engine {
	if engines := s.all(); len(engines) > 0 {
		return engines[0]
	}
	return nil
}

// routes is the HTTP interface.
func (s *Server) routes() http.Handler {
	m := http.NewServeMux()
	m.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request) { s.complete(w, r, true) })
	m.HandleFunc("POST /v1/completions", func(w http.ResponseWriter, r *http.Request) { s.complete(w, r, false) })
	m.HandleFunc("POST /v1/responses", s.responses)
	m.HandleFunc("GET /v1/responses/{id}", s.storedResponse)
	m.HandleFunc("POST /v1/responses/{id}/cancel", s.storedResponse)
	m.HandleFunc("POST /v1/messages", s.messages)
	m.HandleFunc("POST /v1/messages/count_tokens", s.countTokens)
	m.HandleFunc("POST /v1/embeddings", s.embeddings)
	m.HandleFunc("GET /v1/models", s.models)
	m.HandleFunc("GET /health", s.health)
	m.HandleFunc("GET /ping", s.health)
	m.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, map[string]string{"version": version}) })
	if s.cfg.Engine != TRTLLM {
		m.HandleFunc("GET /metrics", s.metrics)
		m.HandleFunc("POST /tokenize", s.tokenize)
	}
	switch s.cfg.Engine {
	case VLLM:
		s.renderRoutes(m)
		if !s.cfg.HideSources {
			m.HandleFunc("GET /kv_event_sources", s.eventSources)
		}
	case SGLang:
		s.sglangRoutes(m)
	case TRTLLM:
		s.trtllmRoutes(m)
	}
	s.adminRoutes(m)
	m.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { s.fail(w, noRoute()) })
	return m
}

// version names a vLLM release whose interface this is.
const version = "0.26.0+standin"

func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	unhealthy, _, _ := s.faults.flags()
	if unhealthy || s.current() == nil {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

func (s *Server) models(w http.ResponseWriter, _ *http.Request) {
	type card struct {
		ID          string  `json:"id"`
		Object      string  `json:"object"`
		Created     int64   `json:"created"`
		OwnedBy     string  `json:"owned_by"`
		Root        string  `json:"root"`
		Parent      *string `json:"parent"`
		MaxModelLen *int    `json:"max_model_len"` // of adapters null
	}
	cards := []card{{ID: s.cfg.Model, Object: "model", Created: s.started.Unix(), OwnedBy: s.cfg.Engine, Root: s.cfg.Model, MaxModelLen: &s.maxModelLen}}
	for _, name := range s.cfg.Loras {
		base := s.cfg.Model
		cards = append(cards, card{ID: name, Object: "model", Created: s.started.Unix(), OwnedBy: s.cfg.Engine, Root: name, Parent: &base})
	}
	writeJSON(w, map[string]any{"object": "list", "data": cards})
}
