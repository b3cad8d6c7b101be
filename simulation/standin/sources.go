package standin

import (
	"net/http"
	"strconv"
)

// eventSource is where one rank publishes, as vLLM from 0.32 on tells.
type eventSource struct {
	Endpoint string `json:"endpoint"`
	Replay   string `json:"replay_endpoint,omitempty"`
	Topic    string `json:"topic"`
}

// eventSources tells where the events of every rank are, so that a router need
// not be told.
func (s *Server) eventSources(w http.ResponseWriter, _ *http.Request) {
	out := map[string]eventSource{}
	for _, eng := range s.all() {
		if events, replay := eng.pub.addrs(); events != "" && !s.cfg.EventsDial {
			out[strconv.Itoa(eng.cfg.Rank)] = eventSource{events, replay, s.cfg.Topic}
		}
	}
	writeJSON(w, out)
}
