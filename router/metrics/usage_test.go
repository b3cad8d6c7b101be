package metrics

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/banyan-llm/banyan/router/proxy"
	"github.com/banyan-llm/banyan/router/requests"
)

func exposedBy(t *testing.T, reg *prometheus.Registry) string {
	t.Helper()
	w := httptest.NewRecorder()
	promhttp.HandlerFor(reg, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return w.Body.String()
}

// The number of series is bounded, whatever clients call themselves (I1); replicas
// that are gone leave none.
func TestUsageIsBounded(t *testing.T) {
	reg := prometheus.NewRegistry()
	u, now := newUsage(reg), time.Now()
	for i := range 3 * maxUsers {
		u.ObserveRequest(&requests.Record{Client: "k", Tenant: fmt.Sprint("t", i), Status: 200, Prompt: 2, Cached: requests.Unknown, Output: 1}, fmt.Sprint("m", i), now)
	}
	u.ObserveRequest(&requests.Record{Client: "\xff", Tenant: "\xfe", Status: 200}, "m0", now)
	u.Replica("gone").count(outcomeReset, 0, now)
	u.Replica("here").count(outcomeCut, time.Second, now)
	text := exposedBy(t, reg)
	if n := strings.Count(text, "banyan_usage_requests_total{"); n != maxUsers+1 {
		t.Errorf("%d pairs of key and tenant", n)
	}
	if n := strings.Count(text, "banyan_model_ttft_seconds_count{"); n != MaxModels+1 {
		t.Errorf("%d models", n)
	}
	for _, want := range []string{
		`banyan_usage_tokens_total{key="k",kind="prompt",tenant="t0"} 2`, `banyan_usage_requests_total{key="other",tenant="other"} 513`,
		`banyan_model_requests_total{model="m0",outcome="ok"} 2`, `banyan_model_requests_total{model="other",outcome="ok"} 512`,
		`banyan_replica_requests_total{outcome="reset",replica="gone"} 1`, `banyan_replica_ttft_seconds_count{replica="here"} 1`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no %s", want)
		}
	}
	u.Keep(func(name string) bool { return name == "here" })
	if text = exposedBy(t, reg); strings.Contains(text, `"gone"`) || !strings.Contains(text, `"here"`) {
		t.Error("a replica that is gone leaves series, or one that is here does not")
	}
	if n, failed, ttft := u.Lately("here", now); n != 1 || failed != 1 || ttft != time.Second {
		t.Errorf("%d tries, %d failed, %v", n, failed, ttft)
	}
	if n, _, _ := u.Lately("here", now.Add(2*time.Minute)); n != 0 {
		t.Errorf("%d tries of two minutes ago", n)
	}
}

func TestOutcomesOfTries(t *testing.T) {
	broken := errors.New("broken")
	for want, list := range map[outcome][]proxy.Result{
		outcomeOK:      {{Status: 200}},
		outcomeInvalid: {{Status: 400}},
		outcomeShed:    {{Status: 429}},
		outcomeError:   {{Status: 500}, {Status: 503, Cause: proxy.CauseStatus}},
		outcomeConnect: {{Cause: proxy.CauseConnect, Err: broken}},
		outcomeReset:   {{Cause: proxy.CauseReset, Err: broken}},
		outcomeTimeout: {{Cause: proxy.CauseTimeout, Err: broken}, {Status: 200, Cause: proxy.CauseTimeout, Err: broken, Answered: true}},
		outcomeCut:     {{Status: 200, Cause: proxy.CauseReset, Err: broken, Answered: true}, {Status: 200, Failed: true, Answered: true}},
		outcomeLeft:    {{Status: 200, ClientGone: true, Err: broken}},
	} {
		for _, res := range list {
			if got := tryOutcome(&res); got != want {
				t.Errorf("%+v: %s, want %s", res, got, want)
			}
		}
	}
}
