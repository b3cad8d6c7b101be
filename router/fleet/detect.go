package fleet

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// The engines, and the word for "ask it".
const (
	vllm       = "vllm"
	sglang     = "sglang"
	trtllm     = "trtllm"
	engineAuto = "auto"
)

const (
	metricsPath    = "/metrics"
	metricsPathTRT = "/prometheus/metrics"
	loadsPath      = "/v1/loads?include=core" // the rest of the page costs SGLang more and tells a router nothing
	maxInfoBytes   = 4 << 20
)

// statusError is an answer other than 200.
type statusError struct {
	path string
	code int
}

func (e *statusError) Error() string {
	return fmt.Sprintf("%s answered %d", e.path, e.code)
}

// Plain is what may be told of it.
func (e *statusError) Plain() string { return e.Error() }

// definite reports whether asking again would bring the same: the engine
// answered, if only that it has no such endpoint or something unreadable.
func definite(err error) bool {
	var status *statusError
	switch {
	case err == nil || errors.Is(err, errTooLarge) || errors.Is(err, errInfo) || errors.Is(err, errNoSeries):
		return true
	case errors.As(err, &status):
		return status.code >= 400 && status.code < 500 && status.code != http.StatusTooManyRequests && status.code != http.StatusRequestTimeout
	}
	return false
}

// inquiry is one round of asking an engine what it is. Each question is asked
// at most once.
type inquiry struct {
	fleet   *Fleet
	pages   *urlPages
	ctx     context.Context //nolint:containedctx // lives as long as the call to inquire
	replica *Replica
	facts   Facts
	open    bool // a question got no answer: ask again later
	asked   bool // /server_info
}

// inquire asks a replica's engine what the configuration does not say, and
// publishes what it learned. It reports whether every question was answered.
func (f *Fleet) inquire(ctx context.Context, r *Replica, read *urlPages) (settled bool) {
	q := &inquiry{fleet: f, pages: read, ctx: ctx, replica: r, facts: r.Spec.configured()}
	if q.facts.Engine == "" {
		q.identify()
	}
	switch q.facts.Engine {
	case sglang:
		q.askInfo()
	case vllm:
		q.askSources()
	}
	if q.facts.BlockSize == 0 && q.facts.Engine != "" {
		q.askMetrics(metricsOf(q.facts.Engine))
	}
	if ctx.Err() != nil {
		return false
	}
	if !q.open && r.Spec.Rank == 0 {
		f.tell(r.Spec.URL, q.facts.Ranks, time.Now())
	}
	before := r.Facts()
	if q.open && before.Engine != "" && before.EngineFrom != fromConfig {
		return false // half an answer does not undo a whole one
	}
	f.learned(r, q.facts)
	return !q.open
}

// identify finds the engine's kind: by the owner of its models, its
// /server_info, the names of its metrics, and last by its having a /version.
// TensorRT-LLM's Prometheus page comes first, for its plain /metrics is
// emptied by every reader.
func (q *inquiry) identify() {
	if engine := ownerEngine(q.replica.Models()); engine != "" {
		q.is(engine, fromModels)
		return
	}
	q.askInfo()
	for _, path := range []string{metricsPathTRT, metricsPath} {
		if q.facts.Engine == "" {
			q.askMetrics(path)
		}
	}
	if q.facts.Engine != "" {
		return
	}
	_, err := q.pages.read(q.ctx, fromVersion, maxInfoBytes)
	q.open = q.open || !definite(err)
	switch {
	case err == nil:
		q.is(vllm, fromVersion)
	case !q.open:
		q.is(vllm, fromNowhere)
	}
}

func (q *inquiry) is(engine, from string) {
	if q.facts.Engine == "" && engine != "" {
		q.facts.Engine, q.facts.EngineFrom = engine, from
	}
}

// askInfo reads /server_info. What the configuration says stays.
func (q *inquiry) askInfo() {
	if q.asked {
		return
	}
	q.asked = true
	spec := &q.replica.Spec
	body, err := q.pages.read(q.ctx, fromInfo, maxInfoBytes)
	if definite(err) && err != nil {
		body, err = q.pages.read(q.ctx, "/get_server_info", maxInfoBytes) // SGLang before 2026
	}
	if err != nil {
		q.open = q.open || !definite(err)
		return
	}
	info, err := parseServerInfo(body, spec.URL, spec.Rank)
	if err != nil {
		return
	}
	q.is(info.engine, fromInfo)
	if info.blockSize > 0 {
		q.facts.BlockSize, q.facts.BlockFrom = info.blockSize, fromInfo
	}
	q.facts.Capacity, q.facts.Ranks = info.capacity, info.ranks
	q.publishes(fromInfo, info.events, info.replay, info.topic)
	q.facts.Loads, q.facts.LoadTopic = info.loads, info.loadTopic
}

// askMetrics reads a metrics page for the engine's name, page and capacity.
func (q *inquiry) askMetrics(path string) {
	body, err := q.pages.read(q.ctx, path, maxMetricsBytes)
	if err != nil {
		q.open = q.open || !definite(err)
		return
	}
	p := parseMetrics(body, q.replica.Spec.Rank)
	q.is(p.engine, path)
	if p.blockSize > 0 && q.facts.BlockSize == 0 {
		q.facts.BlockSize, q.facts.BlockFrom = p.blockSize, path
	}
	if p.scrape.Capacity > 0 {
		q.facts.Capacity = p.scrape.Capacity
	}
	if q.facts.Ranks == 0 {
		q.facts.Ranks = p.ranks
	}
}

// metricsOf is where an engine has its Prometheus page. TensorRT-LLM's plain
// /metrics is something else, and is drained when read.
func metricsOf(engine string) string {
	if engine == trtllm {
		return metricsPathTRT
	}
	return metricsPath
}

// ownerEngine reads the engine off the owner of its models.
func ownerEngine(models []Model) string {
	for _, m := range models {
		switch strings.ToLower(m.Owner) {
		case "vllm":
			return vllm
		case "sglang":
			return sglang
		case "tensorrt_llm", "trtllm":
			return trtllm
		}
	}
	return ""
}
