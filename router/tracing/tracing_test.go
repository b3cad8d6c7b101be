package tracing

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"
)

// receiver is a collector: OTLP over HTTP, decoded by the official messages.
type receiver struct {
	*httptest.Server
	mu    sync.Mutex
	names []string
	peers map[string]bool
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{peers: map[string]bool{}}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path != "/v1/traces" || req.Header.Get("Content-Type") != "application/x-protobuf" {
			t.Errorf("%s %s", req.URL.Path, req.Header.Get("Content-Type"))
		}
		raw, _ := io.ReadAll(req.Body)
		var in collector.ExportTraceServiceRequest
		if err := proto.Unmarshal(raw, &in); err != nil {
			t.Error(err)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, rs := range in.ResourceSpans {
			for _, a := range rs.Resource.Attributes {
				if a.Key == "banyan.peer" {
					r.peers[a.Value.GetStringValue()] = true
				}
			}
			for _, ss := range rs.ScopeSpans {
				for _, s := range ss.Spans {
					r.names = append(r.names, s.Name)
				}
			}
		}
	}))
	t.Cleanup(r.Close)
	return r
}

func begin(t *testing.T, edit func(*Config)) *Tracing {
	t.Helper()
	cfg := DefaultConfig()
	edit(&cfg)
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	tr, err := New(cfg, Origin{Name: "peer-a", ID: "1", Version: "test"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func TestT2CloseSendsWhatWaits(t *testing.T) {
	r := newReceiver(t)
	tr := begin(t, func(c *Config) { c.Endpoint = r.URL })
	for range 700 { // more than one batch
		_, span := tr.Tracer().Start(context.Background(), "work")
		span.End()
	}
	if err := tr.Close(); err != nil {
		t.Fatal(err)
	}
	if s := tr.Stats(); len(r.names) != 700 || !r.peers["peer-a"] || s != (Stats{Exported: 700}) {
		t.Errorf("%d spans, %v, %+v", len(r.names), r.peers, s)
	}
}

// TestT1T3AHangingCollectorCostsSpansOnly: the queue fills, the rest is
// dropped, and nobody waits.
func TestT1T3AHangingCollectorCostsSpansOnly(t *testing.T) {
	release := make(chan struct{})
	hang := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	defer hang.Close()
	defer close(release)
	tr := begin(t, func(c *Config) { c.Endpoint, c.Queue, c.Timeout = hang.URL, 64, time.Second })
	for range 10_000 {
		_, span := tr.Tracer().Start(context.Background(), "work")
		span.End()
		if n := tr.bounded.waiting.Load(); n > 64 {
			t.Fatalf("T1: %d wait", n)
		}
	}
	_ = tr.Close()
	if s := tr.Stats(); s.Exported != 0 || s.Dropped < 9_000 || s.Dropped+s.Failed > 10_000 {
		t.Errorf("T3: %+v", s)
	}
}

func TestNothingIsKeptOfUnsampledTraces(t *testing.T) {
	r := newReceiver(t)
	tr := begin(t, func(c *Config) { c.Endpoint, c.Sample = r.URL+"/v1/traces", 0 })
	_, span := tr.Tracer().Start(context.Background(), "work")
	span.End()
	if err := tr.Close(); err != nil || len(r.names) != 0 || tr.Stats() != (Stats{}) {
		t.Errorf("%v %v %+v", err, r.names, tr.Stats())
	}
}

func TestFaultsAreNamed(t *testing.T) {
	cfg := Config{Endpoint: "collector:4318", Sample: 2}
	err := cfg.Validate()
	for _, key := range []string{"endpoint", "sample", "queue", "timeout"} {
		if err == nil || !strings.Contains(err.Error(), "tracing."+key+": ") {
			t.Errorf("%s is not named: %v", key, err)
		}
	}
}
