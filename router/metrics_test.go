package router

import (
	"bufio"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/banyan-llm/banyan/router/fleet"
	"github.com/banyan-llm/banyan/router/metrics"
	"github.com/banyan-llm/banyan/router/proxy"
	"github.com/banyan-llm/banyan/router/requests"
)

// promised are the names that scripts, rules and dashboards may rely on.
const promised = `
banyan_requests_total{policy,reason,code} banyan_request_ttft_seconds banyan_decision_seconds
banyan_proxy_overhead_seconds banyan_matched_tokens_total banyan_prompt_tokens_total
banyan_cached_tokens_total banyan_prediction_error_tokens banyan_replica_inflight{replica}
banyan_replica_up{replica} banyan_tree_facts banyan_tree_bytes banyan_stream_gap_total
banyan_stream_lost_batches_total banyan_mesh_peers banyan_mesh_propagation_seconds
banyan_mesh_view_age_seconds banyan_mesh_bytes_total{direction,frame} banyan_divergent_streams
banyan_quarantined_streams banyan_suspect_facts banyan_snapshots_total{reason} banyan_build_info
banyan_config_hash banyan_config_last_reload_success banyan_ready banyan_draining
banyan_queue_depth banyan_retries_total{cause} banyan_request_duration_seconds
banyan_output_tokens_total banyan_client_disconnects_total banyan_clock_offset_seconds`

// closedLists are the label values that stand from the start, so that a rate
// sees the first increase.
var closedLists = map[string][]string{
	"banyan_requests_total":      {`reason="prefix"`, `reason="load"`, `reason="spill"`, `reason="session"`, `reason="stale"`, `reason="only"`, `reason="baseline"`, `code="200"`, `code="429"`, `code="502"`, `code="503"`, `code="504"`},
	"banyan_retries_total":       {`cause="connect"`, `cause="reset"`, `cause="status"`, `cause="timeout"`},
	"banyan_snapshots_total":     {`reason="join"`, `reason="gap"`, `reason="divergence"`, `reason="behind"`},
	"banyan_mesh_bytes_total":    {`direction="in"`, `direction="out"`, `frame="slots"`, `frame="snapshot"`, `frame="load"`},
	"banyan_tokenized_total":     {`mode="engine"`, `mode="text"`, `reason="timeout"`},
	"banyan_mesh_given_up_total": {`cause="streams"`, `cause="stage"`, `cause="owed"`, `cause="prediction"`}, "banyan_mesh_frames_rejected_total": {`cause="payload"`},
}

// exposition is what a peer that just started shows at /metrics.
func exposition(t *testing.T) string {
	t.Helper()
	p := quietPeer(t, func(c *Config) { c.Replicas = []fleet.Spec{{Name: "r0", URL: "http://127.0.0.1:1", Model: "m"}} })
	w := httptest.NewRecorder()
	p.front.adminHandler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://127.0.0.1/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("/metrics answers %d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

// series maps every series name, those of histograms included, to its lines.
func series(text string) map[string]string {
	out := map[string]string{}
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		line := lines.Text()
		if end := strings.IndexAny(line, "{ "); end > 0 && line[0] != '#' {
			out[line[:end]] += line + "\n"
		}
	}
	return out
}

func TestEveryPromisedMetricIsThere(t *testing.T) {
	have := series(exposition(t))
	for _, want := range strings.Fields(promised) {
		name, labels, _ := strings.Cut(strings.TrimSuffix(want, "}"), "{")
		lines := have[name] + have[name+"_count"]
		if lines == "" {
			t.Errorf("%s is missing", name)
			continue
		}
		for label := range strings.SplitSeq(labels, ",") {
			if label != "" && !strings.Contains(lines, label+`="`) {
				t.Errorf("%s has no label %s:\n%s", name, label, lines)
			}
		}
	}
	for name, values := range closedLists {
		for _, v := range values {
			if !strings.Contains(have[name], v) {
				t.Errorf("%s has no series with %s", name, v)
			}
		}
	}
}

func TestNoMetricIsNamedOutsideTheRules(t *testing.T) {
	unit := regexp.MustCompile(`^banyan_[a-z]+(_[a-z]+)*$`)
	for line := range strings.Lines(exposition(t)) {
		kind, ok := strings.CutPrefix(strings.TrimSpace(line), "# TYPE banyan_")
		if !ok {
			continue
		}
		name, kind, _ := strings.Cut("banyan_"+kind, " ")
		if !unit.MatchString(name) {
			t.Errorf("%s is not a name of lower-case words", name)
		}
		if total := strings.HasSuffix(name, "_total"); total != (kind == "counter") {
			t.Errorf("%s is a %s: counters and only they end in _total", name, kind)
		}
	}
}

// recorded are the names that recording rules make.
var recorded = regexp.MustCompile(`(?m)record:\s*"?([a-z_:0-9]+)`)

// TestDeployNamesOnlyMetricsThatExist reads every rule, dashboard, chart and
// document: a panel or alert over a metric that nobody emits stays empty for ever and says
// so to nobody.
func TestDeployNamesOnlyMetricsThatExist(t *testing.T) {
	have := series(exposition(t))
	have["banyan_replica_events"] = "where a stream is followed"            // TestEventsThatCannotBeHeardAreTold reads it
	have["banyan_prompt_keys_total"] = "where prompts are keyed"            // TestExactRoutingThatIsOffIsTold reads it
	have["banyan_cert_expiry_timestamp_seconds"] = "with mesh.tls"          // TestCertificatesFromFiles reads it
	have["banyan_listener_cert_expiry_timestamp_seconds"] = "with http.tls" // TestCertificatesRotateUnderTraffic reads it
	have["banyan_role_replicas_up"] = "with routing.disaggregate"           // TestRolesWithoutAReplicaAreMeasured reads it
	for name, lines := range series(usageExposition(t)) {
		have[name] = lines
	}
	named := regexp.MustCompile(`[a-z_:0-9]*\bbanyan_[a-z0-9_]+\b`)
	colon := regexp.MustCompile(`[a-z_]+:banyan_[a-z0-9_]+:?[a-z0-9]*`)
	made, seen := map[string]bool{}, 0
	texts := map[string]string{}
	err := filepath.WalkDir("../deploy", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		switch filepath.Ext(path) {
		case ".yml", ".yaml", ".json", ".md", ".tpl", ".txt":
		default:
			return nil
		}
		data, err := os.ReadFile(path)
		texts[path] = string(data)
		for _, m := range recorded.FindAllStringSubmatch(string(data), -1) {
			made[m[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	decisions, err := filepath.Glob("../*/*/DECISIONS.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range append(decisions, "../README.md", "../ARCHITECTURE.md") {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		texts[path] = string(data)
	}
	for path, text := range texts {
		for _, name := range colon.FindAllString(text, -1) {
			if seen++; !made[name] {
				t.Errorf("%s: no rule records %s", path, name)
			}
		}
		for _, name := range named.FindAllString(colon.ReplaceAllString(text, " "), -1) {
			if seen++; have[name] == "" && have[name+"_bucket"] == "" {
				t.Errorf("%s: no peer emits %s", path, name)
			}
		}
	}
	if seen == 0 {
		t.Error("no document names a metric: the patterns are wrong")
	}
}

// usageExposition is what names a culprit once something happened.
func usageExposition(t *testing.T) string {
	t.Helper()
	reg := prometheus.NewRegistry()
	u, now := metrics.New(reg, "test").Usage, time.Now()
	u.ObserveTry("r0", &proxy.Result{Status: 200, TTFT: time.Second}, now)
	u.Replica("r0").AddTokens(1, 2, 3)
	u.ObserveRequest(&requests.Record{Client: "k", Tenant: "t", TTFT: time.Second, Status: 200, Prompt: 1, Cached: 1, Output: 1}, "m", now)
	return exposedBy(t, reg)
}

func exposedBy(t *testing.T, reg *prometheus.Registry) string {
	t.Helper()
	w := httptest.NewRecorder()
	promhttp.HandlerFor(reg, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return w.Body.String()
}
