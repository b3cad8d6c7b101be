package standin

import (
	"bufio"
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/banyan-llm/banyan/simulation/workload"
)

// BenchmarkDemo sends the demo workload to four stand-ins in real time and
// reports what a request costs in CPU (clients included) and how long its
// first token takes: with a random choice of replica for every request, and
// with one that keeps sessions and shared heads together.
func BenchmarkDemo(b *testing.B) {
	for _, mode := range []string{"random", "sticky"} {
		b.Run(mode, func(b *testing.B) {
			for b.Loop() {
				runDemo(b, mode == "sticky")
			}
		})
	}
}

func runDemo(b *testing.B, sticky bool) {
	w, err := workload.Generate("demo", workload.Options{Seed: 1, Requests: 1000})
	if err != nil {
		b.Fatal(err)
	}
	fleet := make([]*Server, w.Replicas)
	for i := range fleet {
		fleet[i] = start(b, Config{Name: string(rune('a' + i)), Profile: w.Profile, Events: "tcp://127.0.0.1:0"})
	}
	c := &demoClient{w: w, said: map[uint64]string{}, done: make([]chan struct{}, len(w.Requests))}
	for i := range c.done {
		c.done[i] = make(chan struct{})
	}
	before := cpu()
	begin := time.Now()
	var wg sync.WaitGroup
	for i := range w.Requests {
		r := &w.Requests[i]
		at := rand.IntN(len(fleet))
		if sticky {
			at = int(r.Prompt[0].ID % uint64(len(fleet)))
		}
		wg.Go(func() {
			defer close(c.done[i])
			if r.After >= 0 {
				<-c.done[r.After]
				time.Sleep(time.Duration(r.Think * float64(time.Second)))
			}
			time.Sleep(time.Until(begin.Add(time.Duration(r.At * float64(time.Second)))))
			c.ask(b, fleet[at], r)
		})
	}
	wg.Wait()
	took := time.Since(begin)
	slices.Sort(c.ttft)
	n := float64(len(c.ttft))
	hits, queries := uint64(0), uint64(0)
	for _, s := range fleet {
		st := s.State().Stats
		hits, queries = hits+st.Hits, queries+st.Queries
		_ = s.Close()
	}
	b.ReportMetric(float64((cpu()-before).Microseconds())/n, "cpu-µs/req")
	b.ReportMetric(n/took.Seconds(), "req/s")
	b.ReportMetric(float64(c.ttft[len(c.ttft)/2].Microseconds())/1e3, "ttft-p50-ms")
	b.ReportMetric(float64(c.ttft[len(c.ttft)*9/10].Microseconds())/1e3, "ttft-p90-ms")
	b.ReportMetric(float64(hits)/float64(queries), "hit")
}

// BenchmarkLateness asks for one cold prompt after the other and reports how
// much later than the model says the answer comes.
func BenchmarkLateness(b *testing.B) {
	s := start(b, Config{Profile: "demo", Events: "tcp://127.0.0.1:0"})
	seed := uint64(0)
	for b.Loop() {
		seed++
		post(b, s, "/v1/chat/completions", chatBody(words(seed, 500), 1), nil)
	}
	busy := s.State().Stats.Busy / float64(seed)
	b.ReportMetric(busy*1e3, "model-ms/op")
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N)*1e3-busy*1e3, "late-ms/op")
}

// demoClient keeps what was answered, for follow-ups.
type demoClient struct {
	w    *workload.Workload
	done []chan struct{}

	mu   sync.Mutex
	said map[uint64]string
	ttft []time.Duration
}

func (c *demoClient) ask(b *testing.B, s *Server, r *workload.Request) {
	in := obj{"model": "banyan-standin", "max_tokens": r.Output, "stream": true}
	path := "/v1/completions"
	if r.Chat() {
		path = "/v1/chat/completions"
		in["messages"] = r.Messages(func(id uint64) (string, bool) {
			c.mu.Lock()
			defer c.mu.Unlock()
			text, ok := c.said[id]
			return text, ok
		})
	} else {
		in["prompt"] = r.AppendTokens(nil)
	}
	body, _ := json.Marshal(in)
	begin := time.Now()
	res, err := http.Post(s.URL()+path, "application/json", bytes.NewReader(body))
	if err != nil {
		b.Error(err)
		return
	}
	defer res.Body.Close()
	var first time.Duration
	text := ""
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		if _, rest, ok := strings.Cut(lines.Text(), `"content":"`); ok {
			word, _, _ := strings.Cut(rest, `"`)
			text += word
		}
		if first == 0 {
			first = time.Since(begin)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.said[r.Reply] = text
	c.ttft = append(c.ttft, first)
}

// cpu is the processor time of this process.
func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
