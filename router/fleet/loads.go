package fleet

import (
	"encoding/json"
	"math"

	"github.com/banyan-llm/banyan/crdt"
)

// maxLoadRanks bounds the data-parallel ranks on one /v1/loads page.
const maxLoadRanks = 1024

var (
	errNotReady = plainError("/v1/loads tells no load yet")
	errLoads    = plainError("/v1/loads is not what an engine sends")
	errNoRank   = plainError("/v1/loads does not name this rank")
)

// rankLoad is one entry of SGLang's /v1/loads.
type rankLoad struct {
	Rank     *int    `json:"dp_rank"`
	Running  float64 `json:"num_running_reqs"`
	Waiting  float64 `json:"num_waiting_reqs"`
	Used     float64 `json:"num_used_tokens"`
	Capacity float64 `json:"max_total_num_tokens"`
	Use      float64 `json:"token_usage"`
}

// parseLoads reads one rank's load off SGLang's /v1/loads. A page without
// entries, or with one of capacity 0, is of an engine that is starting: its
// load is unknown, not idle.
func parseLoads(body []byte, rank int) (crdt.Scrape, error) {
	var page struct {
		Loads []rankLoad `json:"loads"`
	}
	if err := json.Unmarshal(body, &page); err != nil {
		return crdt.Scrape{}, errLoads
	}
	if len(page.Loads) == 0 || len(page.Loads) > maxLoadRanks {
		return crdt.Scrape{}, errNotReady
	}
	for i := range page.Loads {
		l := &page.Loads[i]
		if l.Rank != nil && *l.Rank != rank || l.Rank == nil && len(page.Loads) > 1 {
			continue
		}
		if l.Capacity <= 0 {
			return crdt.Scrape{}, errNotReady
		}
		return crdt.Scrape{
			Running: count32(l.Running), Waiting: count32(l.Waiting),
			KVUse: float32(min(1, max(0, l.Use))), Capacity: int64(min(l.Capacity, math.MaxInt32<<16)),
		}, nil
	}
	return crdt.Scrape{}, errNoRank
}

// count32 keeps a count inside what a scrape can carry.
func count32(v float64) int32 {
	switch {
	case !(v > 0):
		return 0
	case v > math.MaxInt32:
		return math.MaxInt32
	}
	return int32(v)
}
