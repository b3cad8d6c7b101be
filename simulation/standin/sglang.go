package standin

import (
	"net/http"
	"time"
)

// sglangRoutes are the endpoints that only SGLang has.
func (s *Server) sglangRoutes(m *http.ServeMux) {
	m.HandleFunc("GET /v1/loads", s.loads)
	m.HandleFunc("GET /server_info", s.serverInfo)
	m.HandleFunc("GET /get_server_info", s.serverInfo)
	m.HandleFunc("GET /model_info", s.modelInfo)
	m.HandleFunc("GET /get_model_info", s.modelInfo)
	m.HandleFunc("POST /v1/tokenize", s.tokenize)
	m.HandleFunc("GET /health_generate", s.health)
}

// loads is the load of every rank.
func (s *Server) loads(w http.ResponseWriter, _ *http.Request) {
	engines := s.all()
	if len(engines) == 0 {
		panic(http.ErrAbortHandler)
	}
	loads := make([]map[string]any, 0, len(engines))
	for _, eng := range engines {
		st := eng.stats()
		loads = append(loads, map[string]any{
			"dp_rank": eng.cfg.Rank, "timestamp": float64(time.Now().UnixMicro()) / 1e6,
			"num_running_reqs": st.Running, "num_waiting_reqs": st.Waiting, "num_total_reqs": st.Running + st.Waiting,
			"num_waiting_uncached_tokens": st.WaitingTokens,
			"num_used_tokens":             st.Used * s.cfg.Page, "max_total_num_tokens": st.Blocks * s.cfg.Page,
			"token_usage": st.KVUse(), "gen_throughput": 0.0,
		})
	}
	writeJSON(w, map[string]any{
		"timestamp": time.Now().UTC().Format(time.RFC3339Nano), "version": version, "dp_rank_count": len(engines), "loads": loads,
	})
}

// serverInfo tells how to subscribe to KV events.
func (s *Server) serverInfo(w http.ResponseWriter, _ *http.Request) {
	info := map[string]any{
		"model_path": s.cfg.Model, "served_model_name": s.cfg.Model, "page_size": s.cfg.Page,
		"version": version, "dp_size": s.cfg.Ranks, "max_total_num_tokens": s.capacity,
	}
	if events := s.EventsAddr(); events != "" {
		info["kv_events"] = map[string]any{
			"publisher": "zmq", "endpoint": events, "topic": s.cfg.Topic, "block_size": s.cfg.Page, "dp_size": s.cfg.Ranks,
		}
	}
	writeJSON(w, info)
}

func (s *Server) modelInfo(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, map[string]any{"model_path": s.cfg.Model, "is_generation": true, "max_model_len": s.maxModelLen})
}
