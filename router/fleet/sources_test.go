package fleet

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// publishing is a /kv_event_sources with one publisher a line of rank, event
// endpoint and replay endpoint.
func publishing(lines ...string) string {
	var out []string
	for _, line := range lines {
		f := strings.Fields(line)
		replay := "null"
		if len(f) > 2 {
			replay = fmt.Sprintf("%q", f[2])
		}
		out = append(out, fmt.Sprintf(`%q:{"enable_kv_cache_events":true,"publisher":"zmq","endpoint":%q,"replay_endpoint":%s,"buffer_steps":10000,"hwm":100000,"topic":""}`, f[0], f[1], replay))
	}
	return "{" + strings.Join(out, ",") + "}"
}

func TestVLLMTellsItsEvents(t *testing.T) {
	two := publishing("0 tcp://*:5557 tcp://*:5600", "1 tcp://*:5558 tcp://*:5601")
	for name, tc := range map[string]struct {
		spec                 Spec
		page, events, replay string
		ranks                int
	}{
		"any interface":          {page: publishing("0 tcp://*:5557 tcp://[::]:5600"), events: ":5557", replay: ":5600", ranks: 0},
		"no replay":              {page: publishing("0 tcp://0.0.0.0:5557"), events: ":5557"},
		"a rank of two":          {spec: Spec{Rank: 1}, page: two, events: ":5558", replay: ":5601", ranks: 2},
		"rank 0 of two":          {page: two, events: ":5557", replay: ":5600", ranks: 2},
		"a server of rank 3":     {page: publishing("3 tcp://*:5560"), events: ":5560"},
		"a rank that is not":     {spec: Spec{Rank: 2}, page: two, ranks: 0},
		"disabled":               {page: `{}`},
		"older than 0.32":        {page: "status 404"},
		"behind a proxy":         {page: "<html>"},
		"null":                   {page: `null`},
		"another machine":        {page: publishing("0 tcp://192.0.2.9:5557")},
		"a name":                 {page: publishing("0 tcp://vault.internal:80")},
		"not over a network":     {page: publishing("0 ipc:///tmp/x")},
		"events are configured":  {spec: Spec{Events: "tcp://10.0.0.1:1"}, page: publishing("0 tcp://*:5557 tcp://*:5600"), events: "10.0.0.1:1", replay: ":5600"},
		"both are configured":    {spec: Spec{Events: "tcp://10.0.0.1:1", Replay: "tcp://10.0.0.1:2"}, page: two, events: "10.0.0.1:1", replay: "10.0.0.1:2", ranks: 2},
		"a wildcard is pasted":   {spec: Spec{Events: "tcp://*:7000", Replay: "tcp://0.0.0.0:7001"}, page: "status 404", events: ":7000", replay: ":7001"},
		"an IPv6 one is pasted":  {spec: Spec{Events: "tcp://[::]:7000"}, page: "status 404", events: ":7000"},
		"more ranks than we can": {page: "{" + strings.TrimSuffix(strings.Repeat(`"x":{},`, 3), ",") + "}"},
	} {
		tc.spec.Engine = "vllm"
		f, _ := ask(t, tc.spec, map[string]string{"/kv_event_sources": tc.page})
		own := func(endpoint string) string { return strings.TrimPrefix(endpoint, "tcp://127.0.0.1") }
		if got := strings.TrimPrefix(own(f.Events), "tcp://"); got != tc.events {
			t.Errorf("%s: events %q", name, f.Events)
		}
		if got := strings.TrimPrefix(own(f.Replay), "tcp://"); got != tc.replay {
			t.Errorf("%s: replay %q", name, f.Replay)
		}
		if tc.spec.Rank == 0 && f.Ranks != tc.ranks {
			t.Errorf("%s: %d ranks", name, f.Ranks)
		}
	}
}

// TestAnAddressOfTheOwnHostIsTaken: vLLM binds tcp://*:0 at the node's address
// and tells that. Where the replica is reached over loopback, an address of
// this machine is the same host.
func TestAnAddressOfTheOwnHostIsTaken(t *testing.T) {
	f, _ := ask(t, Spec{Engine: "vllm"}, map[string]string{"/kv_event_sources": publishing("0 tcp://192.0.2.9:5557")})
	if f.Events != "" || f.Elsewhere != "tcp://192.0.2.9:5557" {
		t.Errorf("another machine's: %+v", f)
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		ip, _, err := net.ParseCIDR(a.String())
		if err != nil || !ip.IsGlobalUnicast() {
			continue
		}
		told := "tcp://" + net.JoinHostPort(ip.String(), "5557")
		if f, _ := ask(t, Spec{Engine: "vllm"}, map[string]string{"/kv_event_sources": publishing("0 " + told)}); f.Events != told || f.Elsewhere != "" {
			t.Errorf("%s: %+v", told, f)
		}
		return
	}
	t.Skip("this machine has no address but loopback")
}

// TestAChangedPortIsFollowed has an engine publish elsewhere without having
// looked down.
func TestAChangedPortIsFollowed(t *testing.T) {
	var port, asked atomic.Int64
	port.Store(5557)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/kv_event_sources" && asked.Add(1)%3 == 2: // does not answer now and then
			w.WriteHeader(http.StatusServiceUnavailable)
		case r.URL.Path == "/kv_event_sources":
			fmt.Fprint(w, publishing(fmt.Sprintf("0 tcp://*:%d", port.Load())))
		}
	}))
	defer srv.Close()
	var changes atomic.Int32
	f := watched(t, Config{Again: 10 * time.Millisecond, Changed: func() { changes.Add(1) }}, Spec{URL: srv.URL, Engine: "vllm"})
	r := f.List()[0]
	eventually(t, "told", func() bool { return strings.HasSuffix(r.Facts().Events, ":5557") })
	for n := asked.Load(); asked.Load() < n+4; time.Sleep(time.Millisecond) {
		if !strings.HasSuffix(r.Facts().Events, ":5557") {
			t.Fatalf("an engine that does not answer for a moment is no longer followed: %+v", r.Facts())
		}
	}
	before := changes.Load()
	port.Store(6000)
	eventually(t, "the new port", func() bool { return strings.HasSuffix(r.Facts().Events, ":6000") })
	if changes.Load() == before {
		t.Error("nobody was told")
	}
}
