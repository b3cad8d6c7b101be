package fleet

import (
	"bytes"
	"errors"
	"strconv"
	"strings"

	"github.com/banyan-llm/banyan/crdt"
)

// errNoSeries says that a page held none of the load series: the engine's load
// is unknown, not idle.
var errNoSeries = errors.New("metrics page holds no load series")

// parseMetrics reads the few series a router needs from a Prometheus text
// page: running, waiting, KV use and capacity, for vLLM, SGLang and
// TensorRT-LLM names. With several data-parallel engines on one page only the
// series of the given rank count.
func parseMetrics(page []byte, rank int) (crdt.Scrape, Facts, error) {
	var s crdt.Scrape
	var facts Facts
	found := false
	for len(page) > 0 {
		line := page
		if i := bytes.IndexByte(page, '\n'); i >= 0 {
			line, page = page[:i], page[i+1:]
		} else {
			page = nil
		}
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		name, labels, value, ok := splitSeries(string(line))
		if !ok || !ofRank(labels, rank) {
			continue
		}
		switch strings.ReplaceAll(strings.TrimPrefix(name, "ray_"), "_", ":") {
		case "vllm:num:requests:running", "sglang:num:running:reqs", "trtllm:num:requests:running":
			s.Running, found = int32(value), true
		case "vllm:num:requests:waiting", "sglang:num:queue:reqs", "trtllm:num:requests:waiting":
			s.Waiting, found = int32(value), true
		case "vllm:kv:cache:usage:perc", "vllm:gpu:cache:usage:perc", "sglang:token:usage", "trtllm:kv:cache:utilization":
			s.KVUse, found = float32(value), true
		case "vllm:cache:config:info":
			size, _ := strconv.Atoi(label(labels, "block_size"))
			blocks, _ := strconv.ParseInt(label(labels, "num_gpu_blocks"), 10, 64)
			facts = Facts{BlockSize: size, Capacity: int64(size) * blocks}
		case "sglang:page:size", "trtllm:kv:cache:tokens:per:block":
			facts.BlockSize = int(value)
		case "sglang:max:total:num:tokens":
			facts.Capacity = int64(value)
		}
	}
	if !found {
		return s, facts, errNoSeries
	}
	s.Capacity = facts.Capacity
	return s, facts, nil
}

// splitSeries cuts `name{labels} value [time]`.
func splitSeries(line string) (name, labels string, value float64, ok bool) {
	rest := ""
	if i := strings.IndexByte(line, '{'); i >= 0 {
		j := strings.LastIndexByte(line, '}')
		if j < i {
			return "", "", 0, false
		}
		name, labels, rest = line[:i], line[i+1:j], line[j+1:]
	} else if i := strings.IndexByte(line, ' '); i > 0 {
		name, rest = line[:i], line[i:]
	}
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return "", "", 0, false
	}
	value, err := strconv.ParseFloat(fields[0], 64)
	return name, labels, value, err == nil && value >= 0 && value < 1e15
}

// label returns the value of one label, without unescaping.
func label(labels, name string) string {
	for len(labels) > 0 {
		i := strings.Index(labels, `="`)
		if i < 0 {
			return ""
		}
		key := strings.Trim(labels[:i], ", ")
		rest := labels[i+2:]
		j := strings.IndexByte(rest, '"')
		if j < 0 {
			return ""
		}
		if key == name {
			return rest[:j]
		}
		labels = rest[j+1:]
	}
	return ""
}

// ofRank reports whether a series belongs to a data-parallel rank: it has no
// rank label, or this one.
func ofRank(labels string, rank int) bool {
	for _, name := range []string{"engine", "dp_rank"} {
		if v := label(labels, name); v != "" {
			n, err := strconv.Atoi(v)
			if err == nil && n != rank {
				return false
			}
		}
	}
	return true
}
