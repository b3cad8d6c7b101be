package router

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/gossip/mesh"
	"github.com/banyan-llm/banyan/router/fleet"
	"github.com/banyan-llm/banyan/router/pick"
	"github.com/banyan-llm/banyan/router/policy"
)

// quietPeer is a peer that was never run.
func quietPeer(t *testing.T, change func(*Config)) *Peer {
	t.Helper()
	return loggingPeer(t, nil, change)
}

// logText is a log that may be read while it is written.
type logText struct {
	mu   sync.Mutex
	text strings.Builder // guarded by mu
}

func (l *logText) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// loggingPeer is a quiet peer that logs to a writer of the test's.
func loggingPeer(t *testing.T, log io.Writer, change func(*Config)) *Peer {
	t.Helper()
	cfg := DefaultConfig()
	cfg.HTTP.Listen, cfg.Admin.Listen, cfg.Mesh.Bind = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	cfg.Mesh.Insecure = true
	if change != nil {
		change(&cfg)
	}
	opt := Options{Version: "test"}
	if log != nil {
		opt.Logger = hclog.New(&hclog.LoggerOptions{Output: log, Level: hclog.Info})
	}
	p, err := New(cfg, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.mesh.stop()
		p.close()
	})
	return p
}

// toldOf is what a policy is told of a replica.
func toldOf(p *Peer, r *fleet.Replica, now time.Time) policy.Candidate {
	s := &scratch{prompt: pick.Prompt{Grid: 16}}
	s.add(r, p.path.directory.markOf(r))
	p.path.picker.Match(&s.prompt, &s.Scratch)
	p.path.gather(s, now)
	return s.Cands[0]
}

func TestACandidateTellsHowMuchItsCacheHolds(t *testing.T) {
	p := quietPeer(t, nil)
	now := time.Now()
	p.fleet.Update(fleet.SourceDNS, []fleet.Spec{{URL: "http://10.0.0.1:80"}}, now)
	r := p.fleet.Get("10.0.0.1:80")
	var b crdt.Builder
	b.Store(crdt.Op{Main: true, PerPage: 2, Root: 7}, []uint64{1, 2, 3}, []uint64{1, 2, 3, 4, 5, 6})
	slot, err := b.Slot(1, 1)
	if err != nil {
		t.Fatal(err)
	}
	p.index.Apply(&crdt.Delta{Stream: r.Stream, Epoch: 1, Anchor: 1, Slots: []crdt.Slot{slot}}, now.UnixMilli())
	if c := toldOf(p, r, now); c.Held != 6*16 {
		t.Errorf("%d tokens of three pages of 32", c.Held)
	}
}

func TestSlowStartLowersTheWeightOfACandidate(t *testing.T) {
	p := quietPeer(t, nil)
	now := time.Now()
	p.fleet.Update(fleet.SourceDNS, []fleet.Spec{{URL: "http://10.0.0.1:80"}}, now)
	p.fleet.Update(fleet.SourceDNS, []fleet.Spec{{URL: "http://10.0.0.1:80"}, {URL: "http://10.0.0.2:80"}}, now)
	for name, want := range map[string]float64{"10.0.0.1:80": 1, "10.0.0.2:80": .55} {
		c := toldOf(p, p.fleet.Get(name), now.Add(5*time.Second))
		if c.Weight < want-.01 || c.Weight > want+.01 {
			t.Errorf("%s has weight %v, want %v", name, c.Weight, want)
		}
	}
	p.loads.SetIntent(p.fleet.Get("10.0.0.2:80").Stream, true, 1)
	if c := toldOf(p, p.fleet.Get("10.0.0.2:80"), now); c.Weight != 0 {
		t.Errorf("a drained replica has weight %v while it starts", c.Weight)
	}
}

func TestHowEventsAreReadFollowsTheFacts(t *testing.T) {
	for name, tc := range map[string]struct {
		spec   fleet.Spec
		grid   int
		poll   bool
		want   feed
		state  string
		detail string
	}{
		"nobody said what it is": {spec: fleet.Spec{Events: "tcp://h:1"}, state: "idle", detail: "not known yet"},
		"configured": {
			spec: fleet.Spec{Engine: "vllm", Events: "tcp://h:1", Replay: "tcp://h:2", Topic: "t"}, want: feed{fedDialed, "vllm", "tcp://h:1", "tcp://h:2", "t"},
			state: "idle",
		},
		"no events":  {spec: fleet.Spec{Engine: "vllm"}, state: "none", detail: "predictions only"},
		"polled":     {spec: fleet.Spec{Engine: "trtllm", Events: "poll"}, want: feed{how: fedPolled, engine: "trtllm"}, state: "idle"},
		"not polled": {spec: fleet.Spec{Engine: "trtllm"}, state: "none", detail: "any other reader"},
		"polled all": {spec: fleet.Spec{Engine: "trtllm"}, poll: true, want: feed{how: fedPolled, engine: "trtllm"}, state: "idle"},
		"a pool":     {spec: fleet.Spec{Engine: "vllm", Events: "tcp://h:1", Kind: "pool"}, want: feed{how: fedDialed, engine: "vllm", events: "tcp://h:1"}, state: "idle"},
		"fed by us":  {spec: fleet.Spec{Engine: "trtllm", Kind: "pool"}, poll: true, state: "none"},
	} {
		p := quietPeer(t, func(c *Config) {
			tc.spec.URL = "http://h:80"
			c.Ingest.Poll = tc.poll
			c.Replicas = []fleet.Spec{tc.spec}
		})
		r := p.fleet.List()[0]
		if got := p.ingest.fed(r); got != tc.want {
			t.Errorf("%s: %+v, want %+v", name, got, tc.want)
		}
		if s := p.ingest.status(r); s.State != tc.state || !strings.Contains(s.Detail, tc.detail) {
			t.Errorf("%s: %s: %s", name, s.State, s.Detail)
		}
	}
}

// Pages of 1 to 128 share one grid of 16; one that neither divides it nor is a
// multiple runs on predictions and is told so.
func TestPagesOnOneGrid(t *testing.T) {
	for page, fits := range map[string]bool{"1": true, "6": false, "8": true, "16": true, "24": false, "32": true, "64": true, "128": true} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/server_info" {
				w.WriteHeader(http.StatusNotFound)
				return
			}
			_, _ = w.Write([]byte(`{"page_size":` + page + `,"kv_events":{"endpoint_host":"*","endpoint_port_base":5557}}`))
		}))
		p := quietPeer(t, func(c *Config) { c.Replicas = []fleet.Spec{{URL: srv.URL}} })
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); p.fleet.Run(ctx) }()
		r := p.fleet.List()[0]
		deadline := time.Now().Add(10 * time.Second)
		for r.Facts().BlockSize == 0 && time.Now().Before(deadline) {
			time.Sleep(time.Millisecond)
		}
		cancel()
		<-done
		srv.Close()
		s := p.ingest.status(r)
		if got := p.ingest.fed(r).how == fedDialed; got != fits || !fits && (s.State != "unusable" || !strings.Contains(s.Detail, "--page-size 16")) {
			t.Errorf("page %s: followed %v, %s: %s", page, got, s.State, s.Detail)
		}
	}
}

func TestRanksThatNobodyListedAreAProblem(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"page_size":16,"dp_size":3}`))
	}))
	defer srv.Close()
	for listed, want := range map[int]int{1: 0, 2: 1, 3: 0} { // listed once, all become replicas
		p := quietPeer(t, func(c *Config) {
			for rank := range listed {
				c.Replicas = append(c.Replicas, fleet.Spec{URL: srv.URL, Rank: rank, Engine: "sglang"})
			}
		})
		hash := p.rules.configHash()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); p.fleet.Run(ctx) }()
		last := p.fleet.List()[0]
		deadline := time.Now().Add(10 * time.Second)
		for last.Facts().Ranks == 0 && time.Now().Before(deadline) {
			time.Sleep(time.Millisecond)
		}
		cancel()
		<-done
		if p.rules.configHash() != hash {
			t.Errorf("what an engine tells changes the hash of the configuration (%d listed)", listed)
		}
		if got := problemsOf(p, "data-parallel ranks"); len(got) != want {
			t.Errorf("%d of 3 ranks are listed: %+v", listed, got)
		}
	}
}

func TestTheConfigHashLeavesOutWhatComesAndGoes(t *testing.T) {
	p := quietPeer(t, nil)
	before := p.rules.configHash()
	p.fleet.Update(fleet.SourceDNS, []fleet.Spec{{URL: "http://10.0.0.1:80"}}, time.Now())
	if p.rules.configHash() != before {
		t.Error("a discovered replica changes the hash of the configuration")
	}
}

// What differs between two peers is named, of replicas the most telling part
// only; peers of two versions are not compared.
func TestWhatDiffersIsNamed(t *testing.T) {
	replicas := []fleet.Spec{{Name: "a", URL: "http://10.0.0.1:80"}, {Name: "b", URL: "http://10.0.0.2:80"}}
	print := func(change func(*Config)) string {
		return quietPeer(t, func(c *Config) {
			c.Replicas = slices.Clone(replicas)
			change(c)
		}).rules.Load().print
	}
	own := print(func(*Config) {})
	for what, change := range map[string]func(*Config){
		"":                           func(c *Config) { slices.Reverse(c.Replicas); c.Mesh.Name = "b" },
		"policy":                     func(c *Config) { c.Policy = "random" },
		"limits, other settings":     func(c *Config) { c.Limits.Retries, c.IsolateBy = 7, "X-Tenant" },
		listOfReplicas:               func(c *Config) { c.Replicas = c.Replicas[:1] },
		namesOfReplicas:              func(c *Config) { c.Replicas[0].Name, c.Replicas[1].Name = "b", "a" },
		"policy, " + otherOfReplicas: func(c *Config) { c.Policy, c.Replicas[0].Role = "random", "prefill" },
	} {
		m := mesh.Member{Version: "v1", Settings: print(change)}
		if got := strings.Join(differences(own, &m, "v1"), ", "); got != what {
			t.Errorf("%q, want %q", got, what)
		}
		if got := differences(own, &m, "v2"); got != nil {
			t.Errorf("a peer of another version differs in %q", got)
		}
	}
	for _, odd := range []string{"", "zz", own + "0"} {
		if got := differences(own, &mesh.Member{Version: "v1", Settings: odd}, "v1"); got != nil {
			t.Errorf("%q differs in %q", odd, got)
		}
	}
}

// Two peers with different files do not look equal, whatever differs; what is
// each peer's own does not count, nor the order of the replicas.
func TestTheConfigHashSeesEverySharedSetting(t *testing.T) {
	replicas := []fleet.Spec{{URL: "http://10.0.0.1:80", Events: "tcp://10.0.0.1:5557", Replay: "tcp://10.0.0.1:5558"}, {URL: "http://10.0.0.2:80", Labels: map[string]string{"a": "1", "b": "2"}}}
	hash := func(change func(*Config)) uint32 {
		return quietPeer(t, func(c *Config) {
			c.Replicas = slices.Clone(replicas)
			change(c)
		}).rules.configHash()
	}
	before := hash(func(*Config) {})
	for what, change := range map[string]func(*Config){
		"order":       func(c *Config) { slices.Reverse(c.Replicas) },
		"name":        func(c *Config) { c.Mesh.Name = "b" },
		"log":         func(c *Config) { c.Log.Level = "debug" },
		"credentials": func(c *Config) { c.Replicas[0].Credentials = "s" },
	} {
		if hash(change) != before {
			t.Errorf("%s is each peer's own and changes the hash", what)
		}
	}
	for what, change := range map[string]func(*Config){
		"events":        func(c *Config) { c.Replicas[0].Events = "tcp://10.0.0.1:5559" },
		"replay":        func(c *Config) { c.Replicas[0].Replay = "" },
		"topic":         func(c *Config) { c.Replicas[0].Topic = "kv" },
		"labels":        func(c *Config) { c.Replicas[1].Labels = map[string]string{"a": "1"} },
		"limits":        func(c *Config) { c.Limits.TTFT++ },
		"admission":     func(c *Config) { c.Admission.ReplicaLimit = 3 },
		"ingest.listen": func(c *Config) { c.Ingest.Listen = "tcp://127.0.0.1:0" },
		"drain":         func(c *Config) { c.Drain.Delay++ },
		"policy":        func(c *Config) { c.Policy = "random" },
	} {
		if hash(change) == before {
			t.Errorf("%s differs and the hash does not", what)
		}
	}
}
