package fleet

import (
	"encoding/json"
	"net"
	"strconv"
	"strings"
)

// maxBlockSize is the largest page anyone is believed to have, tokens.
const maxBlockSize = 1 << 20

// serverInfo is the part of /server_info that a router may know. The page also
// holds API keys: nothing else of it is decoded, and no error quotes it (I5).
type serverInfo struct {
	engine    string
	blockSize int
	ranks     int
	capacity  int64
	events    string
	replay    string
	topic     string
	loads     string // where LoadStat is published
	loadTopic string
}

// errInfo says that a /server_info was no such thing, without its content.
var errInfo = plainError("/server_info is not what an engine sends")

// wireInfo names the fields. SGLang dumps its arguments: page_size is its own,
// kv_events a description of its publisher, kv_events_config the option's text
// where that description is missing.
type wireInfo struct {
	PageSize   *int             `json:"page_size"`
	DCP        int              `json:"dcp_size"`
	Ranks      int              `json:"dp_size"`
	Capacity   int64            `json:"max_total_num_tokens"`
	KVEvents   *wireEvents      `json:"kv_events"`
	KVConfig   string           `json:"kv_events_config"`
	HashAlgo   *json.RawMessage `json:"kv_cache_hash_algo"`
	VLLMConfig *json.RawMessage `json:"vllm_config"`
}

// wireEvents is SGLang's kv_events, or its --kv-events-config.
type wireEvents struct {
	Publisher string `json:"publisher"`
	Endpoint  string `json:"endpoint"`
	Host      string `json:"endpoint_host"`
	Port      int    `json:"endpoint_port_base"`
	Replay    string `json:"replay_endpoint"`

	// Since 0.5.23; the ports of rank 0, as endpoint_port_base.
	ReplayPort int    `json:"replay_endpoint_port_base"`
	LoadPort   int    `json:"load_endpoint_port_base"`
	LoadTopic  string `json:"load_topic"`

	Topic     string `json:"topic"`
	BlockSize int    `json:"block_size"`
	Ranks     int    `json:"dp_size"` // that publish
}

// parseServerInfo reads a /server_info of the replica at base, whose rank adds
// to the ports told.
func parseServerInfo(body []byte, base string, rank int) (serverInfo, error) {
	var w wireInfo
	if json.Unmarshal(body, &w) != nil {
		return serverInfo{}, errInfo
	}
	var info serverInfo
	switch {
	case w.HashAlgo != nil || hasKey(body, "disaggregated_params"):
		info.engine = trtllm
	case w.VLLMConfig != nil:
		info.engine = vllm
	case w.PageSize != nil:
		info.engine = sglang
	}
	if w.PageSize != nil {
		info.blockSize = *w.PageSize
	}
	info.capacity = max(0, w.Capacity)
	if w.Ranks > 0 && w.Ranks <= maxRanks {
		info.ranks = w.Ranks
	}
	events := w.KVEvents
	if events == nil && w.KVConfig != "" {
		events = &wireEvents{}
		if json.Unmarshal([]byte(w.KVConfig), events) != nil {
			events = nil
		}
	}
	if events != nil {
		if info.ranks == 0 && events.Ranks > 0 && events.Ranks <= maxRanks {
			info.ranks = events.Ranks
		}
		if events.BlockSize > 0 {
			info.blockSize = events.BlockSize
		}
		info.follow(events, base, rank)
	}
	// Under decode context parallelism the tree's pages are wider than told.
	if w.DCP > 1 && w.DCP < maxBlockSize && info.blockSize < maxBlockSize {
		info.blockSize *= w.DCP
	}
	if info.blockSize < 0 || info.blockSize > maxBlockSize {
		info.blockSize = 0
	}
	return info, nil
}

// hasKey reports whether a JSON object has a key, null or not.
func hasKey(body []byte, key string) bool {
	var keys map[string]json.RawMessage
	if json.Unmarshal(body, &keys) != nil {
		return false
	}
	_, ok := keys[key]
	return ok
}

// follow works out where to listen.
func (info *serverInfo) follow(w *wireEvents, base string, rank int) {
	if w.Publisher != "" && w.Publisher != "zmq" || w.Ranks > 0 && rank >= w.Ranks {
		return
	}
	endpoint, replay := w.Endpoint, w.Replay
	host := strings.Trim(w.Host, "[]")
	at := func(port int) string { return "tcp://" + net.JoinHostPort(host, strconv.Itoa(port)) }
	if host != "" && w.Port > 0 {
		endpoint = at(w.Port)
		if w.ReplayPort > 0 {
			replay = at(w.ReplayPort)
		}
		if w.LoadPort > 0 {
			info.loads, info.loadTopic = reachable(at(w.LoadPort), base, rank), w.LoadTopic
		}
	}
	info.events = reachable(endpoint, base, rank)
	if info.events != "" {
		info.topic = w.Topic
		info.replay = reachable(replay, base, rank)
	}
}
