package fleet

import (
	"bytes"
	"math"
	"strconv"
	"strings"

	"github.com/banyan-llm/banyan/crdt"
)

// errNoSeries says that a page held none of the load series: the engine's load
// is unknown, not idle.
var errNoSeries = plainError("metrics page holds no load series")

// page is what a Prometheus text page told.
type page struct {
	scrape    crdt.Scrape
	found     bool    // some load series was there
	engine    string  // whose names they are
	started   float64 // of the process that serves the page, s since 1970; 0 not told
	blockSize int
	maxBlocks float64 // TensorRT-LLM's capacity, pages
	ranks     int     // data-parallel ranks on the page, 0 to ranks-1; 0: not several
}

// parseMetrics reads the few series a router needs from a Prometheus text
// page: running, waiting, KV use and capacity, for vLLM, SGLang and
// TensorRT-LLM names. With several data-parallel engines on one page only the
// series of the given rank count.
//
// A page of one engine alone counts for rank 0 whatever its number: vLLM with
// an external balancer is one server a rank.
func parseMetrics(body []byte, rank int) page {
	p, lone := parseRank(body, rank)
	if rank == 0 && !p.found && lone > 0 {
		p, _ = parseRank(body, lone)
	}
	if p.scrape.Capacity == 0 && p.maxBlocks > 0 {
		p.scrape.Capacity = int64(min(p.maxBlocks*float64(p.blockSize), math.MaxInt32<<16))
	}
	return p
}

// parseRank reads the series of one rank, and says which rank the page is of
// if it is of one alone; -1 if it names none or several.
func parseRank(body []byte, rank int) (p page, lone int) {
	seen := map[int]bool{}
	for len(body) > 0 {
		line := body
		if i := bytes.IndexByte(body, '\n'); i >= 0 {
			line, body = body[:i], body[i+1:]
		} else {
			body = nil
		}
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		name, labels, value, ok := splitSeries(string(line))
		if !ok {
			continue
		}
		of := rankOf(labels)
		if of < 0 || of == rank {
			p.take(name, labels, value)
		}
		if of >= 0 && of < maxRanks && (strings.HasSuffix(name, "requests_running") || strings.HasSuffix(name, "running_reqs")) {
			seen[of] = true
		}
	}
	lone, p.ranks = -1, len(seen)
	for of := range seen {
		if lone = of; of >= len(seen) {
			p.ranks = 0 // not all of them are here
		}
	}
	if len(seen) != 1 {
		lone = -1
	}
	if p.ranks == 1 {
		p.ranks = 0
	}
	return p, lone
}

// take books one series. Under Ray colons are underscores and a prefix is
// added; both spellings are brought to one.
func (p *page) take(name, labels string, value float64) {
	if name == "process_start_time_seconds" {
		p.started = value
	}
	words := strings.ReplaceAll(strings.TrimPrefix(name, "ray_"), "_", ":")
	engine, series, _ := strings.Cut(words, ":")
	if engine != vllm && engine != sglang && engine != trtllm {
		return
	}
	if p.engine == "" {
		p.engine = engine
	}
	switch series {
	case "num:requests:running", "num:running:reqs":
		p.scrape.Running, p.found = count32(value), true
	case "num:requests:waiting", "num:queue:reqs":
		p.scrape.Waiting, p.found = count32(value), true
	case "kv:cache:usage:perc", "gpu:cache:usage:perc", "token:usage", "kv:cache:utilization":
		p.scrape.KVUse, p.found = float32(min(1, value)), true
	case "cache:config:info":
		p.config(labels)
	case "page:size", "kv:cache:tokens:per:block":
		p.size(value)
	case "max:total:num:tokens":
		p.scrape.Capacity = int64(min(value, math.MaxInt32<<16))
	case "kv:cache:max:blocks":
		p.maxBlocks = value
	}
}

// config reads vLLM's cache_config_info (SGLang's newer one has its own names).
func (p *page) config(labels string) {
	number := func(names ...string) float64 {
		for _, name := range names {
			if v, err := strconv.ParseFloat(label(labels, name), 64); err == nil && v > 0 && v < 1e12 {
				return v
			}
		}
		return 0
	}
	size, blocks := number("block_size", "page_size"), number("num_gpu_blocks", "num_pages")
	p.size(size)
	if c := size * blocks; c > 0 {
		p.scrape.Capacity = int64(min(c, math.MaxInt32<<16))
	}
}

func (p *page) size(tokens float64) {
	if tokens >= 1 && tokens <= maxBlockSize {
		p.blockSize = int(tokens)
	}
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
		value, after, ok := strings.Cut(rest, `"`)
		if !ok {
			return ""
		}
		if key == name {
			return value
		}
		labels = after
	}
	return ""
}

// rankOf is the data-parallel rank a series belongs to, -1 if it names none.
func rankOf(labels string) int {
	for _, name := range []string{"engine", "dp_rank"} {
		if n, err := strconv.Atoi(label(labels, name)); err == nil && n >= 0 {
			return n
		}
	}
	return -1
}
