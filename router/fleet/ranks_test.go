package fleet

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/banyan-llm/banyan/crdt"
)

// listing writes a fleet's replicas in one line each.
func listing(f *Fleet) string {
	var out []string
	for _, r := range f.List() {
		out = append(out, fmt.Sprintf("%s %s %s", r.Name(), r.Spec.Events, r.Spec.Replay))
	}
	return strings.Join(out, "\n")
}

func TestRanksBehindAURLAreReplicas(t *testing.T) {
	f := New(Config{})
	f.Set([]Spec{{Name: "g", URL: "http://g:80", Ranks: 3, Events: "tcp://g:5557", Replay: "tcp://g:5657"}}, time.Now())
	if got, want := listing(f), "g tcp://g:5557 tcp://g:5657\ng/1 tcp://g:5558 tcp://g:5658\ng/2 tcp://g:5559 tcp://g:5659"; got != want {
		t.Errorf("%s", got)
	}
	streams := map[crdt.StreamID]bool{}
	for rank, r := range f.List() {
		streams[r.Stream] = true
		if r.Spec.Rank != rank || !r.OneOfMany() {
			t.Errorf("%s has rank %d", r.Name(), r.Spec.Rank)
		}
	}
	if len(streams) != 3 {
		t.Errorf("%d streams", len(streams))
	}
	f.Set([]Spec{{Name: "g", URL: "http://g:80", Ranks: 1}}, time.Now())
	if r := f.List()[0]; len(f.List()) != 1 || r.OneOfMany() {
		t.Errorf("one rank: %s", listing(f))
	}
}

func TestFaultsOfRanksAreNamed(t *testing.T) {
	for name, specs := range map[string][]Spec{
		"both":           {{URL: "http://a:1", Rank: 1, Ranks: 2}},
		"too many":       {{URL: "http://a:1", Ranks: 5000}},
		"negative":       {{URL: "http://a:1", Ranks: -1}},
		"polled":         {{URL: "http://a:1", Ranks: 2, Engine: "trtllm"}},
		"port too high":  {{URL: "http://a:1", Ranks: 4, Events: "tcp://a:65534"}},
		"ports collide":  {{URL: "http://a:1", Ranks: 4, Events: "tcp://a:5557", Replay: "tcp://a:5558"}},
		"collide upward": {{URL: "http://a:1", Ranks: 4, Events: "tcp://a:5560", Replay: "tcp://a:5558"}},
		"name taken":     {{URL: "http://a:1", Name: "n", Ranks: 2}, {URL: "http://b:1", Name: "n/1"}},
		"rank taken":     {{URL: "http://a:1", Name: "n", Ranks: 2}, {URL: "http://a:1", Name: "m", Rank: 1}},
	} {
		if err := ValidateSpecs(specs); err == nil || strings.Count(err.Error(), "replicas[") < 1 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := ValidateSpecs([]Spec{{URL: "http://a:1", Ranks: 8, Events: "tcp://a:5557", Replay: "tcp://a:5657"}}); err != nil {
		t.Error(err)
	}
}

// rankedEngine is a server whose engine tells its ranks and the load of each.
type rankedEngine struct {
	*httptest.Server
	ranks atomic.Int32
	up    atomic.Bool
	loads func(ranks int) map[string]string
}

func startRanked(t *testing.T, ranks int, loads func(ranks int) map[string]string) *rankedEngine {
	e := &rankedEngine{loads: loads}
	e.ranks.Store(int32(ranks))
	e.up.Store(true)
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, ok := e.loads(int(e.ranks.Load()))[r.URL.Path]
		switch {
		case !e.up.Load():
			w.WriteHeader(http.StatusServiceUnavailable)
		case r.URL.Path == "/health":
		case !ok:
			w.WriteHeader(http.StatusNotFound)
		default:
			fmt.Fprint(w, body)
		}
	}))
	t.Cleanup(e.Close)
	return e
}

// vllmRanks is a vLLM server with its own balancer: one page for all engines.
func vllmRanks(ranks int) map[string]string {
	var page strings.Builder
	for i := range ranks {
		fmt.Fprintf(&page, "vllm:num_requests_running{engine=%q,model_name=\"m\"} %d\n", fmt.Sprint(i), 10+i)
		fmt.Fprintf(&page, "vllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"100\",engine=%q} 1\n", fmt.Sprint(i))
	}
	return map[string]string{"/v1/models": `{"data":[{"id":"m","owned_by":"vllm"}]}`, "/metrics": page.String()}
}

// sglangRanks tells the ranks in its arguments.
func sglangRanks(ranks int) map[string]string {
	var loads []string
	for i := range ranks {
		loads = append(loads, fmt.Sprintf(`{"dp_rank":%d,"num_running_reqs":%d,"max_total_num_tokens":1600}`, i, 10+i))
	}
	return map[string]string{
		"/server_info": fmt.Sprintf(`{"page_size":16,"dp_size":%d,"kv_events":{"publisher":"zmq","endpoint_host":"*","endpoint_port_base":5557,"dp_size":%[1]d}}`, ranks),
		"/v1/loads":    `{"loads":[` + strings.Join(loads, ",") + `]}`,
	}
}

func TestRanksThatTheEngineTellsBecomeReplicas(t *testing.T) {
	for name, loads := range map[string]func(int) map[string]string{"vllm": vllmRanks, "sglang": sglangRanks} {
		e := startRanked(t, 3, loads)
		var mu sync.Mutex
		running := map[crdt.StreamID]int32{}
		f := watched(t, Config{
			Probe: 10 * time.Millisecond, Models: 10 * time.Millisecond, Scrape: 10 * time.Millisecond,
			Scraped: func(id crdt.StreamID, s crdt.Scrape) {
				mu.Lock()
				defer mu.Unlock()
				running[id] = s.Running
			},
		}, Spec{Name: "g", URL: e.URL})
		first := f.List()[0]
		eventually(t, name+": three replicas", func() bool { return len(f.List()) == 3 })
		if f.List()[0] != first {
			t.Errorf("%s: I1: the first rank is another replica now", name)
		}
		eventually(t, name+": each has its own load", func() bool {
			mu.Lock()
			defer mu.Unlock()
			for rank, r := range f.List() {
				if running[r.Stream] != int32(10+rank) {
					return false
				}
			}
			return true
		})
		if name == "sglang" {
			eventually(t, "the streams have ports of their own", func() bool {
				return strings.HasSuffix(f.Get("g").Facts().Events, ":5557") && strings.HasSuffix(f.Get("g/2").Facts().Events, ":5559")
			})
		}
		// Another process with fewer ranks takes its place.
		e.up.Store(false)
		eventually(t, name+": down", func() bool { return !first.Up() })
		e.ranks.Store(2)
		e.up.Store(true)
		eventually(t, name+": two replicas", func() bool { return len(f.List()) == 2 && f.List()[0] == first })
	}
}

func TestRanksListedOneByOneStayAsListed(t *testing.T) {
	e := startRanked(t, 4, sglangRanks)
	f := watched(t, Config{}, Spec{Name: "a", URL: e.URL}, Spec{Name: "b", URL: e.URL, Rank: 2})
	eventually(t, "told", func() bool { return f.Get("a").Facts().Ranks == 4 && f.Get("b").Facts().Ranks == 4 })
	if len(f.List()) != 2 || !f.Get("a").OneOfMany() || !f.Get("b").OneOfMany() {
		t.Errorf("%s", listing(f))
	}
}

func TestAServerOfOneRankIsReadWhateverItsNumber(t *testing.T) {
	const page = "vllm:num_requests_running{engine=\"3\"} 7\nvllm:cache_config_info{block_size=\"32\",engine=\"3\"} 1\n"
	if p := parseMetrics([]byte(page), 0); !p.found || p.scrape.Running != 7 || p.blockSize != 32 || p.ranks != 0 {
		t.Errorf("%+v", p)
	}
	if p := parseMetrics([]byte(page), 1); p.found {
		t.Errorf("rank 1 reads rank 3's load: %+v", p)
	}
	// A node of several ranks that do not begin at 0 is not taken apart.
	const node = "vllm:num_requests_running{engine=\"4\"} 7\nvllm:num_requests_running{engine=\"5\"} 8\n"
	if p := parseMetrics([]byte(node), 0); p.found || p.ranks != 0 {
		t.Errorf("%+v", p)
	}
	if p := parseMetrics([]byte(node), 5); p.scrape.Running != 8 {
		t.Errorf("%+v", p)
	}
}

func TestADeadServerTakesAllItsRanksDown(t *testing.T) {
	f := New(Config{})
	f.Set([]Spec{{Name: "g", URL: "http://g:80", Ranks: 3}, {Name: "h", URL: "http://h:80"}}, time.Now())
	if f.Fail(f.Get("g/1"), time.Now(), false, "time-out") || !f.Get("g").Up() {
		t.Error("a soft failure of one rank is not the others'")
	}
	if !f.Fail(f.Get("g/1"), time.Now(), true, "connection refused") {
		t.Error("it did not go down")
	}
	if f.Get("g").Up() || f.Get("g/1").Up() || f.Get("g/2").Up() || !f.Get("h").Up() {
		t.Error("the ranks of a dead server, and only they, are down")
	}
}

// What engines tell takes no place of what is listed, and is bounded for each URL
// and in all; what is configured is believed.
func TestToldRanksPushNobodyOut(t *testing.T) {
	f := New(Config{})
	var specs []Spec
	for i := range 20 {
		specs = append(specs, Spec{Name: fmt.Sprintf("a%02d", i), URL: fmt.Sprintf("http://a%02d:80", i)})
	}
	specs = append(specs, Spec{Name: "n", URL: "http://n:80", Ranks: 500}, Spec{Name: "a00/1", URL: "http://other:80"}, Spec{Name: "z", URL: "http://z:80"})
	f.Set(specs, time.Now())
	for i := range 20 {
		f.tell(specs[i].URL, maxRanks, time.Now())
	}
	told, byURL := 0, map[string]int{}
	for _, r := range f.List() {
		byURL[r.Spec.URL]++
		if r.Told {
			told++
		}
	}
	for _, s := range specs {
		if f.Get(s.Name) == nil {
			t.Errorf("%s is not listed any more", s.Name)
		}
	}
	if told != maxToldReplicas || byURL["http://a02:80"] != maxToldRanks || byURL["http://n:80"] != 500 || byURL["http://a19:80"] != 1 {
		t.Errorf("%d told ranks, %v", told, byURL)
	}
	if !f.Get("a02").RanksCut() || !f.Get("a19").RanksCut() || f.Get("n").RanksCut() || f.Get("z").RanksCut() {
		t.Error("it is not told whose ranks were cut")
	}
	for i := range 20 {
		f.tell(specs[i].URL, 2, time.Now())
	}
	if r := f.Get("a19/1"); r == nil || f.Get("a19").RanksCut() {
		t.Errorf("%s", listing(f))
	}
}

// The ranks of one server are asked as one.
func TestRanksOfOneServerAreAskedOnce(t *testing.T) {
	for name, loads := range map[string]func(int) map[string]string{"vllm": vllmRanks, "sglang": sglangRanks} {
		asked := map[string]int{} // by one goroutine, this one
		pages := loads(40)
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked[r.URL.Path]++
			if body, ok := pages[r.URL.Path]; ok {
				fmt.Fprint(w, body)
			} else if r.URL.Path != "/health" {
				w.WriteHeader(http.StatusNotFound)
			}
		}))
		running := 0
		f := New(Config{Scraped: func(crdt.StreamID, crdt.Scrape) { running++ }})
		f.Set([]Spec{{Name: "g", URL: srv.URL}}, time.Now())
		w := &watcher{fleet: f}
		const steps = 6
		now := time.Now()
		for range steps {
			w.list(f.List())
			w.step(t.Context(), now)
			now = now.Add(time.Minute)
		}
		if n := len(f.List()); n != 40 || running < 40*(steps-2) {
			t.Errorf("%s: %d replicas, %d loads", name, n, running)
		}
		for path, n := range asked {
			if n > 2*steps {
				t.Errorf("%s: %s was asked for %d times in %d rounds", name, path, n, steps)
			}
		}
		srv.Close()
	}
}
