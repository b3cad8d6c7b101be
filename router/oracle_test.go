package router

import (
	"testing"
	"time"

	"github.com/banyan-llm/banyan/router/fleet"
)

func TestOracleAsksAReplicaThatDoesNotRest(t *testing.T) {
	f := fleet.New(fleet.Config{})
	f.Set([]fleet.Spec{
		{Name: "a", URL: "http://a", Engine: "vllm"}, {Name: "b", URL: "http://b", Engine: "vllm"}, {Name: "c", URL: "http://c", Engine: "sglang"},
	}, time.Unix(1, 0))
	replicas := f.List()
	asked := map[string]int{}
	for range 200 {
		asked[oracle(replicas, func(url string) bool { return url == "http://a" }).Name()]++
	}
	if asked["b"] != 200 {
		t.Errorf("asked %v while a rests, want b alone", asked)
	}
	clear(asked)
	for range 200 {
		asked[oracle(replicas, func(string) bool { return true }).Name()]++
	}
	if asked["c"] > 0 || asked["a"] == 0 || asked["b"] == 0 {
		t.Errorf("asked %v while all rest", asked)
	}
	if got := oracle(replicas[2:], func(string) bool { return false }); replicas[2].Name() == "c" && got != nil {
		t.Errorf("asked %s, which cannot render", got.Name())
	}
}
