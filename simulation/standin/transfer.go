package standin

import (
	"fmt"
	"net"
	"strconv"
)

// transfer is vLLM's kv_transfer_params, NIXL protocol. A prefill leg
// (do_remote_decode) is answered with where its blocks lie; a decode leg
// (do_remote_prefill) brings that back and computes only what is missing.
type transfer struct {
	RemoteDecode  bool     `json:"do_remote_decode"`
	RemotePrefill bool     `json:"do_remote_prefill"`
	EngineID      *string  `json:"remote_engine_id"`
	BlockIDs      []uint64 `json:"remote_block_ids"`
	Host          *string  `json:"remote_host"`
	Port          *int     `json:"remote_port"`
	TPSize        int      `json:"tp_size,omitempty"`

	Source *kvSource `json:"remote_kv_source,omitempty"`
}

// given is the number of prompt tokens a decode leg brings.
func (b *body) given(page int) (int, error) {
	t := b.Transfer
	if t == nil || !t.RemotePrefill {
		return 0, nil
	}
	if t.EngineID == nil || t.Host == nil || t.Port == nil {
		return 0, badParam("kv_transfer_params", "do_remote_prefill needs remote_engine_id, remote_host and remote_port")
	}
	return len(t.BlockIDs) * page, nil
}

// handOver is what a prefill leg is answered with: nil if the prompt has no
// full block, as there is nothing to fetch then.
func (s *Server) handOver(b *body, a *answer) *transfer {
	if b.Transfer == nil || !b.Transfer.RemoteDecode || len(a.gens) != 1 {
		return nil
	}
	g := a.gens[0]
	blocks := len(g.tokens) / s.cfg.Page
	if blocks == 0 {
		return nil
	}
	host, port, _ := net.SplitHostPort(s.Addr())
	number, _ := strconv.Atoi(port)
	s.mu.Lock()
	engine := fmt.Sprintf("%s-%d", s.cfg.Name, s.restarts)
	s.mu.Unlock()
	t := &transfer{RemotePrefill: true, EngineID: &engine, Host: &host, Port: &number, TPSize: 1}
	for i := range blocks {
		t.BlockIDs = append(t.BlockIDs, g.id*maxModelLen+uint64(i))
	}
	return t
}
