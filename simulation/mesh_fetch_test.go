package simulation

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/banyan-llm/banyan/router/pick"
	"github.com/banyan-llm/banyan/router/policy"
)

// meshForks is forks for whole peers: pages are larger, so that there are fewer
// keys to tell, and the link brings a token in 5 us.
func meshForks(t *testing.T) Config {
	cfg := forks(t, 31)
	cfg.Page, cfg.Learn = 128, true
	routing := policy.DefaultConfig()
	routing.Tiers.Peer = 5e-6
	cfg.Routing = &routing
	return cfg
}

// TestWholePeersFetchForks: what TestForksFetchFromWhereTheyBegan claims holds on
// whole peers, which learn from what came. The means of both evaluations are equal
// to 15 %: requests come to other peers and at whole milliseconds, and frames take
// 1 to 2 ms for 1 ms. Eight bursts are no more alike between two seeds.
func TestWholePeersFetchForks(t *testing.T) {
	cfg := meshForks(t)
	without := playMesh(t, cfg, "")
	cfg.Fetch = true
	with, modelled := playMesh(t, cfg, ""), evaluate(t, cfg)
	t.Logf("p90 of a fork of 43 from 40 k tokens: %.0f ms computed, %.0f ms fetched (%v; %d tokens); mean %.0f and %.0f ms, Evaluate %.0f ms",
		without.TTFT.P90, with.TTFT.P90, with.Fetches, with.Fetched, without.TTFT.Mean, with.TTFT.Mean, modelled.TTFT.Mean)
	if with.TTFT.P90 > .55*without.TTFT.P90 {
		t.Errorf("p90 %.0f ms, without fetching %.0f ms", with.TTFT.P90, without.TTFT.P90)
	}
	if math.Abs(with.TTFT.Mean/modelled.TTFT.Mean-1) > .15 {
		t.Errorf("mean first token %.0f ms, Evaluate says %.0f ms", with.TTFT.Mean, modelled.TTFT.Mean)
	}
	if len(without.Fetches) != 0 || with.Fetches[pick.FetchCame] < with.Requests/4 || with.Fetched == 0 {
		t.Errorf("outcomes %v, %v without fetching; %d tokens", with.Fetches, without.Fetches, with.Fetched)
	}
	if !without.OK() || !with.OK() || with.Failed > 0 {
		t.Errorf("%d failed, %v", with.Failed, with.Mesh.Violations)
	}
}

// TestWholePeersOutliveTheirSources: all replicas end one after the other while
// forks fetch from them. Only what was in the middle of an answer is lost, and
// every fetch is counted.
func TestWholePeersOutliveTheirSources(t *testing.T) {
	cfg := meshForks(t)
	cfg.Fetch = true
	var schedule strings.Builder
	for k := range cfg.Replicas {
		at := cfg.Workload.Requests[len(cfg.Workload.Requests)*(k+1)/10].At + meshWarmMs/1000 + .3
		fmt.Fprintf(&schedule, "at=%.3fs for=1s restart r%d\n", at, k)
	}
	rep := playMesh(t, cfg, schedule.String())
	t.Logf("%d of %d answered, %d lost in flight, %d tries again; fetches: %v", rep.Completed, rep.Requests, rep.InFlightLost, rep.Retried, rep.Fetches)
	if !rep.OK() || rep.Retried == 0 || rep.Fetches[pick.FetchCame] == 0 || rep.Fetches[pick.FetchUnknown] == 0 {
		t.Errorf("%d failed, %d lost in flight, %d tries again, fetches %v", rep.Failed, rep.InFlightLost, rep.Retried, rep.Fetches)
	}
	if again := playMesh(t, cfg, schedule.String()); !reflect.DeepEqual(rep, again) {
		t.Errorf("E1: two runs differ:\n%+v\n%+v", rep, again)
	}
}
