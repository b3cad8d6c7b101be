package standin

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/banyan-llm/banyan/simulation/replica"
)

// metrics writes the engine's series in the Prometheus text form.
func (s *Server) metrics(w http.ResponseWriter, r *http.Request) {
	engines := s.all()
	if len(engines) == 0 {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	var b strings.Builder
	if _, off, _ := s.faults.flags(); !off {
		if s.cfg.Engine == VLLM { // SGLang and TensorRT-LLM sum over processes and tell of none
			s.mu.Lock()
			start := s.launched
			s.mu.Unlock()
			fmt.Fprintf(&b, "# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds %.3f\n", float64(start.UnixMilli())/1000)
		}
		for _, eng := range engines {
			s.rankMetrics(&b, eng)
		}
	}
	_, _ = w.Write([]byte(b.String()))
}

// rankMetrics writes the series of one rank.
func (s *Server) rankMetrics(b *strings.Builder, eng *engine) {
	m := metricWriter{b: b, labels: fmt.Sprintf(`model_name=%q,engine="%d"`, s.cfg.Model, eng.cfg.Rank)}
	st := eng.stats()
	switch s.cfg.Engine {
	case SGLang:
		m.labels = fmt.Sprintf(`model_name=%q,engine_type="unified",tp_rank="0",pp_rank="0"`, s.cfg.Model)
		if s.cfg.Ranks > 1 {
			m.labels += fmt.Sprintf(`,dp_rank="%d"`, eng.cfg.Rank)
		}
		s.sglangMetrics(m, st)
	case TRTLLM:
		m.labels = fmt.Sprintf(`model_name=%q,engine_type="undefined"`, s.cfg.Model)
		s.trtllmMetrics(m, st)
	default:
		s.vllmMetrics(m, st, eng.cfg.Rank)
	}
}

type metricWriter struct {
	b      *strings.Builder
	labels string
}

func (m metricWriter) write(kind, name string, value float64) {
	fmt.Fprintf(m.b, "# TYPE %s %s\n%s{%s} %g\n", name, kind, name, m.labels, value)
}

func (m metricWriter) gauge(name string, value float64)   { m.write("gauge", name, value) }
func (m metricWriter) counter(name string, value float64) { m.write("counter", name, value) }

func (s *Server) vllmMetrics(m metricWriter, st replica.Stats, rank int) {
	m.gauge("vllm:num_requests_running", float64(st.Running))
	m.gauge("vllm:num_requests_waiting", float64(st.Waiting))
	m.gauge("vllm:kv_cache_usage_perc", st.KVUse())
	m.counter("vllm:prefix_cache_queries_total", float64(st.Queries))
	m.counter("vllm:prefix_cache_hits_total", float64(st.Hits))
	m.counter("vllm:num_preemptions_total", float64(st.Preempted))
	m.counter("vllm:prompt_tokens_total", float64(st.Queries))
	m.counter("vllm:generation_tokens_total", float64(st.Generated))
	m.counter("vllm:request_success_total", float64(st.Finished))
	fmt.Fprintf(m.b, "# TYPE vllm:cache_config_info gauge\nvllm:cache_config_info{block_size=\"%d\",num_gpu_blocks=\"%d\",enable_prefix_caching=\"True\",engine=\"%d\"} 1\n",
		s.cfg.Page, st.Blocks, rank)
}

func (s *Server) sglangMetrics(m metricWriter, st replica.Stats) {
	m.gauge("sglang:num_running_reqs", float64(st.Running))
	m.gauge("sglang:num_queue_reqs", float64(st.Waiting))
	m.gauge("sglang:token_usage", st.KVUse())
	m.gauge("sglang:page_size", float64(s.cfg.Page))
	m.gauge("sglang:max_total_num_tokens", float64(st.Blocks*s.cfg.Page))
	m.counter("sglang:prompt_tokens_total", float64(st.Queries))
	m.counter("sglang:cached_tokens_total", float64(st.Hits))
	m.counter("sglang:generation_tokens_total", float64(st.Generated))
}

func (s *Server) trtllmMetrics(m metricWriter, st replica.Stats) {
	m.gauge("trtllm_num_requests_running", float64(st.Running))
	m.gauge("trtllm_num_requests_waiting", float64(st.Waiting))
	m.gauge("trtllm_kv_cache_utilization", st.KVUse())
	m.gauge("trtllm_kv_cache_tokens_per_block", float64(s.cfg.Page))
	m.gauge("trtllm_kv_cache_max_blocks", float64(st.Blocks))
	m.counter("trtllm_prompt_cached_tokens_total", float64(st.Hits))
}

// loadHeader answers vLLM's in-band load request (ORCA), whole answers only.
func (s *Server) loadHeader(w http.ResponseWriter, r *http.Request, eng *engine) {
	if s.cfg.Engine != VLLM {
		return
	}
	form := r.Header.Get("endpoint-load-metrics-format")
	if form == "" {
		return
	}
	st := eng.stats()
	value := fmt.Sprintf(`JSON {"named_metrics": {"kv_cache_usage_perc": %g, "num_requests_waiting": %d}}`, st.KVUse(), st.Waiting)
	if strings.EqualFold(form, "TEXT") {
		value = fmt.Sprintf("TEXT named_metrics.kv_cache_usage_perc=%g, named_metrics.num_requests_waiting=%d", st.KVUse(), st.Waiting)
	}
	w.Header().Set("endpoint-load-metrics", value)
}
