package standin

import (
	"encoding/json"
	"io"
	"net/http"
	"time"

	"github.com/banyan-llm/banyan/simulation/replica"
)

// maxDown bounds how long a restart may take.
const maxDown = time.Minute

// adminRoutes lets other processes drive the stand-in:
//
//	POST /standin/fault           a Fault
//	POST /standin/restart?down=D  a new engine process after D
//	POST /standin/reset           drop the prefix cache (409 while requests run)
//	GET  /standin/state           counters
//	GET  /standin/cache           what is cached: hash -> copies
//	POST /standin/kv              how much of a prompt is cached, for other stand-ins
func (s *Server) adminRoutes(m *http.ServeMux) {
	m.HandleFunc("POST /standin/fault", s.setFault)
	m.HandleFunc("POST /standin/restart", s.restart)
	m.HandleFunc("POST /standin/reset", s.resetCache)
	m.HandleFunc("POST /reset_prefix_cache", s.resetCache)
	m.HandleFunc("GET /standin/state", s.showState)
	m.HandleFunc("GET /standin/cache", s.showCache)
	m.HandleFunc("POST /standin/kv", s.handKV)
}

func (s *Server) setFault(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 64<<10))
	var f Fault
	if err == nil {
		err = json.Unmarshal(raw, &f)
	}
	if err != nil {
		s.fail(w, badRequest(err.Error()))
		return
	}
	s.Set(f)
}

func (s *Server) restart(w http.ResponseWriter, r *http.Request) {
	down := time.Duration(0)
	if text := r.URL.Query().Get("down"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 || d > maxDown {
			s.fail(w, badParam("down", "want a duration from 0s to 1m"))
			return
		}
		down = d
	}
	if err := s.Restart(down); err != nil {
		s.fail(w, err)
	}
}

func (s *Server) resetCache(w http.ResponseWriter, _ *http.Request) {
	engines := s.all()
	ok := len(engines) > 0
	for _, eng := range engines {
		ok = eng.clear() && ok
	}
	if !ok {
		s.fail(w, &apiError{status: http.StatusConflict, kind: "ConflictError", message: "requests are running"})
	}
}

// State is what GET /standin/state answers.
type State struct {
	Name     string        `json:"name"`
	Engine   string        `json:"engine"`
	Model    string        `json:"model"`
	Events   string        `json:"events"`
	Replay   string        `json:"replay"`
	Restarts int           `json:"restarts"`
	Batches  uint64        `json:"batches"` // of this incarnation, first rank
	Fetched  uint64        `json:"fetched"` // prompt tokens that came from other stand-ins
	Stats    replica.Stats `json:"stats"`   // of the first rank
	// Ranks are the counters of every rank, the first one's included.
	Ranks []replica.Stats `json:"ranks"`
}

// State reads the counters.
func (s *Server) State() State {
	s.mu.Lock()
	st := State{Name: s.cfg.Name, Engine: s.cfg.Engine, Model: s.cfg.Model, Events: s.events, Replay: s.replay, Restarts: s.restarts, Fetched: s.fetched}
	s.mu.Unlock()
	for i, eng := range s.all() {
		st.Ranks = append(st.Ranks, eng.stats())
		if i == 0 {
			st.Stats, st.Batches = st.Ranks[0], eng.pub.sent()
		}
	}
	return st
}

func (s *Server) showState(w http.ResponseWriter, _ *http.Request) { writeJSON(w, s.State()) }

// Cache returns the engine's own block hashes with their number of copies:
// what a subscriber that missed nothing must believe. Of several ranks it is
// the first one's.
func (s *Server) Cache() map[uint64]int {
	eng := s.current()
	if eng == nil {
		return nil
	}
	return eng.cache()
}

func (s *Server) showCache(w http.ResponseWriter, _ *http.Request) { writeJSON(w, s.Cache()) }
