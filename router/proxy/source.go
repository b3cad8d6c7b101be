package proxy

import (
	"encoding/json"
	"net"
	"strconv"

	"github.com/banyan-llm/banyan/router/openai"
)

// FetchesKV reports whether bodies of an API have a place for the replica that a
// part of their prompt's KV blocks is to be fetched from (vLLM 0.32).
func FetchesKV(e openai.Endpoint) bool {
	return e == openai.Chat || e == openai.Completions || e == openai.Messages || e == openai.Generate
}

// kvSource is vLLM's kv_transfer_params of a request whose KV blocks lie at the
// P2P tier of another engine. vLLM asks there for what it lacks and computes
// what it does not get. Each try has a name of its own there, or the end of one
// would end the other's fetch.
func kvSource(call *Call, source string) []byte {
	host, port, _ := net.SplitHostPort(source)
	number, _ := strconv.Atoi(port)
	name := call.ID + "-" + strconv.Itoa(call.Attempt)
	if call.Hedge {
		name += "h"
	}
	var b struct {
		Source struct {
			Request string `json:"kv_request_id"`
			Host    string `json:"remote_host"`
			Port    int    `json:"remote_port"`
		} `json:"remote_kv_source"`
	}
	b.Source.Request, b.Source.Host, b.Source.Port = name, host, number
	raw, err := json.Marshal(&b)
	if err != nil {
		panic("invariant: strings and numbers can be written")
	}
	return raw
}
