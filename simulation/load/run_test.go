package load

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/banyan-llm/banyan/simulation/client"
	"github.com/banyan-llm/banyan/simulation/standin"
	"github.com/banyan-llm/banyan/simulation/workload"
)

// replicaAt runs a stand-in replica and returns its address.
func replicaAt(t *testing.T) string {
	t.Helper()
	s, err := standin.New(standin.Config{Profile: "fast"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("replica: %v", err)
		}
	})
	return "http://" + s.Addr()
}

func made(t *testing.T, name string, requests int) *workload.Workload {
	t.Helper()
	w, err := workload.Generate(name, workload.Options{Seed: 1, Requests: requests})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func play(t *testing.T, ctx context.Context, url string, cfg Config) Report {
	t.Helper()
	cfg.Client = client.New(url, false)
	defer cfg.Client.Close()
	if cfg.Writer == nil {
		cfg.Writer = &client.Writer{Model: "banyan-standin"}
	}
	rep, err := Run(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if all := rep.Sent + rep.Overrun + rep.Unsent; all != len(cfg.Workload.Requests) || rep.Sent != rep.Completed+rep.Failed {
		t.Errorf("B2: sent %d, overrun %d, unsent %d of %d; completed %d, failed %d", rep.Sent, rep.Overrun, rep.Unsent, len(cfg.Workload.Requests), rep.Completed, rep.Failed)
	}
	return rep
}

func TestOpenLoopAgainstAReplica(t *testing.T) {
	w := made(t, "demo", 60)
	rep := play(t, t.Context(), replicaAt(t), Config{Workload: w, Rate: 300})
	if rep.Completed != len(w.Requests) {
		t.Fatalf("%+v", rep)
	}
	tokens, output := 0, 0
	for i := range w.Requests {
		tokens, output = tokens+w.Requests[i].Tokens, output+w.Requests[i].Output
	}
	if rep.PromptTokens < tokens || rep.OutputTokens != output {
		t.Errorf("%d prompt tokens for %d, %d generated for %d", rep.PromptTokens, tokens, rep.OutputTokens, output)
	}
	if !(rep.TTFT.Mean > 0 && rep.TTFT.P99 >= rep.TTFT.P50 && rep.E2E.P50 >= rep.TTFT.P50 && rep.TPOT.P50 > 0) {
		t.Errorf("times %+v %+v %+v", rep.TTFT, rep.E2E, rep.TPOT)
	}
	if rep.CachedReports == 0 || rep.CachedRatio <= 0.1 || rep.CachedRatio >= 1 {
		t.Errorf("cached %.3f in %d reports", rep.CachedRatio, rep.CachedReports)
	}
	var text strings.Builder
	if err := rep.Write(&text); err != nil || !strings.Contains(text.String(), "first token") {
		t.Errorf("%v:\n%s", err, text.String())
	}
}

// gate answers requests and keeps count of those that are open.
type gate struct {
	open, most atomic.Int64
	hold       chan struct{} // nil: answer at once

	mu     sync.Mutex // guards below
	bodies []string
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n := g.open.Add(1)
	defer g.open.Add(-1)
	for m := g.most.Load(); n > m && !g.most.CompareAndSwap(m, n); m = g.most.Load() {
	}
	var body json.RawMessage
	_ = json.NewDecoder(r.Body).Decode(&body)
	g.mu.Lock()
	g.bodies = append(g.bodies, string(body))
	count := len(g.bodies)
	g.mu.Unlock()
	if g.hold != nil {
		select {
		case <-g.hold:
		case <-r.Context().Done():
			return
		}
	}
	fmt.Fprintf(w, "data: {\"choices\":[{\"delta\":{\"content\":\"answer-%d\"}}]}\n\ndata: [DONE]\n\n", count)
}

func TestB1ClosedLoopKeepsItsNumberInFlight(t *testing.T) {
	g := &gate{}
	srv := httptest.NewServer(g)
	defer srv.Close()
	w := made(t, "burst", 50)
	rep := play(t, t.Context(), srv.URL, Config{Workload: w, Concurrency: 5})
	if rep.Completed != len(w.Requests) || rep.MaxInFlight != 5 || g.most.Load() > 5 {
		t.Errorf("B1: completed %d, at most %d in flight by us, %d by the server", rep.Completed, rep.MaxInFlight, g.most.Load())
	}
}

func TestB1AnOpenLoopCountsWhatIsTooMuch(t *testing.T) {
	g := &gate{hold: make(chan struct{})}
	srv := httptest.NewServer(g)
	defer srv.Close()
	w := made(t, "burst", 40)
	seen := false
	release := time.AfterFunc(10*time.Second, func() { close(g.hold) }) // only if nothing else does
	defer release.Stop()
	go func() {
		for g.open.Load() < 7 {
			time.Sleep(time.Millisecond)
		}
		if release.Stop() {
			close(g.hold)
		}
	}()
	rep := play(t, t.Context(), srv.URL, Config{Workload: w, InFlight: 7, Progress: func(Progress) { seen = true }})
	if rep.Overrun == 0 || rep.MaxInFlight != 7 || !seen {
		t.Errorf("B1: %+v", rep)
	}
}

func TestB3LaterTurnsCarryTheAnswerBefore(t *testing.T) {
	g := &gate{}
	srv := httptest.NewServer(g)
	defer srv.Close()
	w := made(t, "multi_turn", 30)
	rep := play(t, t.Context(), srv.URL, Config{Workload: w, Concurrency: 4})
	if rep.Completed != len(w.Requests) {
		t.Fatalf("%+v", rep)
	}
	later := 0
	for i := range w.Requests {
		if w.Requests[i].After >= 0 {
			later++
		}
	}
	told := 0
	for _, b := range g.bodies {
		if strings.Contains(b, "answer-") {
			told++
		}
	}
	if told != later || later == 0 {
		t.Errorf("B3: %d of %d later turns carry a real answer", told, later)
	}
}

func TestB4StoppingEndsEveryRequest(t *testing.T) {
	g := &gate{hold: make(chan struct{})}
	srv := httptest.NewServer(g)
	defer srv.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for g.open.Load() < 3 {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	rep := play(t, ctx, srv.URL, Config{Workload: made(t, "burst", 30), Concurrency: 3})
	if rep.Failures[client.CauseStopped] != 3 || rep.Unsent != 27 {
		t.Errorf("B4: %+v", rep)
	}
}

func TestFailuresAreToldByCause(t *testing.T) {
	calls := atomic.Int64{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Banyan-Replica", "r0")
		switch calls.Add(1) % 3 {
		case 0:
			w.WriteHeader(http.StatusTooManyRequests)
		case 1:
			w.WriteHeader(http.StatusBadGateway)
		default:
			fmt.Fprint(w, "data: [DONE]\n\n")
		}
	}))
	defer srv.Close()
	rep := play(t, t.Context(), srv.URL, Config{Workload: made(t, "burst", 30), Concurrency: 2})
	if rep.Completed != 10 || rep.Failures[client.CauseClient] != 10 || rep.Failures[client.CauseServer] != 10 || rep.Replicas["r0"] != 10 {
		t.Errorf("%+v", rep)
	}
}

func TestNothingIsSentAfterTheDuration(t *testing.T) {
	g := &gate{}
	srv := httptest.NewServer(g)
	defer srv.Close()
	rep := play(t, t.Context(), srv.URL, Config{Workload: made(t, "reasoning", 200), Rate: 100, Duration: 100 * time.Millisecond})
	if rep.Unsent < 100 || rep.Failed > 0 {
		t.Errorf("unsent %d of 200 at 100 a second in a tenth of one, failed %d", rep.Unsent, rep.Failed)
	}
}

// In a short open-loop run of sessions with think times the asked rate holds
// from the start; without Steady it would take minutes to be reached.
func TestSteadySessionsComeAtTheAskedRate(t *testing.T) {
	const rate, secs = 40, 10
	soon := func(steady bool) (n int) {
		cfg := Config{Workload: made(t, "multi_turn", rate*secs*11/10+10), Rate: rate, Duration: secs * time.Second, Steady: steady}
		d := newDriver(cfg)
		for _, first := range d.due {
			at := first.at
			for i := first.index; ; {
				if at < secs {
					n++
				}
				if len(d.after[i]) == 0 {
					break
				}
				next := d.after[i][0]
				at += tokenSeconds*float64(d.cfg.Workload.Requests[i].Output) + d.cfg.Workload.Requests[next].Think
				i = next
			}
		}
		return n
	}
	steady, cold := soon(true), soon(false)
	t.Logf("within %d s at %d a second: %d requests, %d from first turns", secs, rate, steady, cold)
	if steady < rate*secs*8/10 || steady > rate*secs*12/10 || cold > steady/2 {
		t.Errorf("within %d s at %d a second: %d requests, %d from first turns", secs, rate, steady, cold)
	}
}

func TestFaultsOfTheConfigurationAreNamed(t *testing.T) {
	w := made(t, "burst", 2)
	for want, cfg := range map[string]Config{
		"workload": {}, "rate": {Workload: w, Rate: math.NaN()}, "concurrency": {Workload: w, Concurrency: -1},
		"max-in-flight": {Workload: w, InFlight: 1 << 20}, "exclude": {Workload: w, Rate: 1, Concurrency: 1}, "duration": {Workload: w, Duration: -1},
	} {
		if _, err := Run(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
