package metrics

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/banyan-llm/banyan/gossip"
	"github.com/banyan-llm/banyan/router/access"
	"github.com/banyan-llm/banyan/router/disagg"
	"github.com/banyan-llm/banyan/router/proxy"
	"github.com/banyan-llm/banyan/router/token"
	"github.com/banyan-llm/banyan/router/tracing"
)

// families counts the series of each name.
func families(t *testing.T, reg *prometheus.Registry) map[string]int {
	t.Helper()
	list, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]int{}
	for _, f := range list {
		out[f.GetName()] = len(f.GetMetric())
	}
	return out
}

// TestI2ClosedListsStandFromTheStart: every series, before anything happened.
func TestI2ClosedListsStandFromTheStart(t *testing.T) {
	reg := prometheus.NewRegistry()
	m := New(reg, "test")
	m.StartAtZero("ttft")
	have := families(t, reg)
	for name, want := range map[string]int{
		"banyan_requests_total": len(reasons) * 5, "banyan_queue_total": len(proxy.Outcomes), "banyan_prefill_legs_total": len(disagg.Outcomes),
		"banyan_split_decisions_total": len(Splits), "banyan_retries_total": 5, "banyan_kv_fetches_total": 3, "banyan_hedges_total": len(proxy.HedgeOutcomes),
		"banyan_access_refused_total": len(access.Refusals), "banyan_lost_streams_total": len(proxy.Resumptions), "banyan_tokenized_total": 14,
	} {
		if have[name] != want {
			t.Errorf("I2: %s has %d series, want %d", name, have[name], want)
		}
	}
}

// TestI3AllThatIsDescribedIsTold: of a state that has all of it, and next to
// nothing of one that has nothing.
func TestI3AllThatIsDescribedIsTold(t *testing.T) {
	heard := true
	s := &State{
		Certificates: map[string]float64{"http": 1}, Sources: map[string]bool{"dns": true}, Saturation: map[Pool]float64{{"m", "both"}: .5}, Roles: map[string]int{"prefill": 1},
		Replicas: []Replica{{Name: "r0", Heard: &heard}}, Queue: proxy.Stats{Classes: []int{1}}, Spans: &tracing.Stats{Exported: 1},
		Keys: token.Stats{Models: map[token.ModelCount]uint64{{Model: "m"}: 1, {Model: "\xff"}: 1}},
		Core: gossip.Stats{Snapshots: map[string]uint64{"join": 2}},
	}
	reg := prometheus.NewRegistry()
	reg.MustRegister(Collector(func() *State { return s }))
	have := families(t, reg)
	for _, d := range described {
		if have["banyan_"+d.name] == 0 {
			t.Errorf("I3: %s is described and not told", d.name)
		}
	}
	if len(have) != len(described) || have["banyan_prompt_keys_total"] != 1 || have["banyan_trace_spans_total"] != 3 {
		t.Errorf("I3: %d names of %d: %v", len(have), len(described), have)
	}
	s = &State{}
	for name, n := range families(t, reg) {
		if name == "banyan_replica_up" || name == "banyan_saturation" {
			t.Errorf("I1: what is gone leaves %d series of %s", n, name)
		}
	}
}
