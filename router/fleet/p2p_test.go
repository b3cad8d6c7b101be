package fleet

import (
	"strings"
	"testing"
	"time"
)

func TestP2PAddressesAreChecked(t *testing.T) {
	for name, c := range map[string]struct {
		spec  Spec
		fault string
	}{
		"good":         {Spec{P2P: "10.0.0.7:5710", Engine: "vllm"}, ""},
		"unknown kind": {Spec{P2P: "gpu0:5710"}, ""},
		"none":         {Spec{Engine: "sglang"}, ""},
		"no port":      {Spec{P2P: "gpu0"}, `"gpu0" is not host:port`},
		"no host":      {Spec{P2P: ":5710"}, `":5710" is not host:port`},
		"bad port":     {Spec{P2P: "gpu0:70000"}, "not a number from 1 to 65535"},
		"another kind": {Spec{P2P: "gpu0:5710", Engine: "sglang"}, "only vLLM"},
	} {
		c.spec.URL = "http://gpu0:8000"
		err := ValidateSpecs([]Spec{c.spec})
		if (err == nil) != (c.fault == "") || err != nil && (!strings.Contains(err.Error(), "replicas[0].p2p: ") || !strings.Contains(err.Error(), c.fault)) {
			t.Errorf("%s: %v, want %q", name, err, c.fault)
		}
	}
}

// Every data-parallel rank has a P2P port of its own, as vLLM counts them.
func TestRanksHaveP2PPortsOfTheirOwn(t *testing.T) {
	f := New(Config{})
	f.Set([]Spec{{Name: "a", URL: "http://a:1", Engine: "vllm", Ranks: 2, P2P: "a:5710"}}, time.Now())
	list := f.List()
	if len(list) != 2 || list[0].Spec.P2P != "a:5710" || list[1].Spec.P2P != "a:5711" || !list[1].Fetches() {
		t.Errorf("%+v", list)
	}
}
