package proxy

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// benchUpstream answers at once: whole, or as a stream of chunks, with token ids
// if it should.
func benchUpstream(chunks int, pause time.Duration, ids bool) *httptest.Server {
	whole := []byte(`{"id":"x","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant",` +
		`"content":"` + strings.Repeat("word ", 50) + `"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":3}}`)
	chunk := []byte(`data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"m",` +
		`"choices":[{"index":0,"delta":{"content":" token"},"finish_reason":null}]}` + "\n\n")
	if ids {
		chunk = bytes.Replace(chunk, []byte(`null}]}`), []byte(`null,"token_ids":[12345],"prompt_token_ids":[1,2,3]}]}`), 1)
	}
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if chunks == 0 {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(whole)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		rc := http.NewResponseController(w)
		for range chunks {
			_, _ = w.Write(chunk)
			_ = rc.Flush()
			if pause > 0 {
				time.Sleep(pause)
			}
		}
		_, _ = io.WriteString(w, "data: [DONE]\n\n")
	}))
}

func benchBody(size int, stream bool) string {
	options := ""
	if stream {
		options = `,"stream":true,"stream_options":{"include_usage":true}`
	}
	return `{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("some words ", size/11) + `"}]` + options + `}`
}

// drain reads an answer to its end, and tells when its first byte came.
func drain(res *http.Response) (first time.Time, err error) {
	defer res.Body.Close()
	var buffer [4 << 10]byte
	for {
		n, err := res.Body.Read(buffer[:])
		if n > 0 && first.IsZero() {
			first = time.Now()
		}
		if err == io.EOF {
			return first, nil
		}
		if err != nil {
			return first, err
		}
	}
}

// cpuSeconds is the processor time of this process so far.
func cpuSeconds() float64 {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	seconds := func(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
	return seconds(usage.Utime) + seconds(usage.Stime)
}

// BenchmarkProxy measures what the proxy adds: every iteration asks the
// upstream directly and then through the proxy, one client. added-us is the
// difference of the medians, added-first-us the same to the first byte of the
// body; cpu-x is processor time of a proxied request over
// a direct one (client and upstream included in both).
func BenchmarkProxy(b *testing.B) {
	for _, c := range []struct {
		name         string
		size, chunks int
		pause        time.Duration // after each chunk, as decode steps take time
		kept         bool          // what it takes to continue the stream
	}{
		{"whole/1KB", 1 << 10, 0, 0, false},
		{"whole/16KB", 16 << 10, 0, 0, false},
		{"stream100/1KB", 1 << 10, 100, 0, false},
		{"kept100/1KB", 1 << 10, 100, 0, true},
		{"paced5/1KB", 1 << 10, 5, time.Millisecond, false},
		{"keptpaced5/1KB", 1 << 10, 5, time.Millisecond, true},
	} {
		b.Run(c.name, func(b *testing.B) {
			upstream := benchUpstream(c.chunks, c.pause, c.kept)
			defer upstream.Close()
			target := &Target{Replica: "r0", URL: upstream.URL, Policy: "ttft", Tokens: true}
			h, err := New(Config{Limits: Limits{Continue: c.kept}, Peer: "p", Pick: func(context.Context, *Call) (*Target, error) { return target, nil }})
			if err != nil {
				b.Fatal(err)
			}
			front := httptest.NewServer(h)
			defer front.Close()
			client := NewTransport()
			defer client.CloseIdleConnections()
			body := benchBody(c.size, c.chunks > 0)
			var direct, proxied, directFirst, proxiedFirst []time.Duration
			ask := func(url string, whole, first *[]time.Duration) {
				w, f := benchAsk(b, client, url, body)
				*whole, *first = append(*whole, w), append(*first, f)
			}
			var directCPU, proxiedCPU float64
			for b.Loop() {
				// Runs of ten: the processor clock ticks too coarsely for one.
				for range 10 {
					ask(upstream.URL, &direct, &directFirst)
				}
				before := cpuSeconds()
				for range 10 {
					ask(front.URL, &proxied, &proxiedFirst)
				}
				after := cpuSeconds()
				for range 10 {
					ask(upstream.URL, &direct, &directFirst)
				}
				directCPU += (cpuSeconds() - after) / 10
				proxiedCPU += (after - before) / 10
			}
			median := func(d []time.Duration) float64 {
				slices.Sort(d)
				return float64(d[len(d)/2].Nanoseconds()) / 1e3
			}
			b.ReportMetric(median(direct), "direct-us")
			b.ReportMetric(median(proxied), "proxied-us")
			b.ReportMetric(median(proxied)-median(direct), "added-us")
			b.ReportMetric(median(proxiedFirst)-median(directFirst), "added-first-us")
			b.ReportMetric(directCPU/float64(b.N)*1e6, "direct-cpu-us")
			b.ReportMetric((proxiedCPU-directCPU)/float64(b.N)*1e6, "added-cpu-us")
			b.ReportMetric(proxiedCPU/directCPU, "cpu-x")
		})
	}
}

// nullTransport answers without a network.
type nullTransport struct{ body string }

func (n nullTransport) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}},
		ContentLength: -1, Body: io.NopCloser(strings.NewReader(n.body)),
	}, nil
}

// BenchmarkHandler is the proxy's own work without a network: allocations and
// time of one request with ten chunks.
func BenchmarkHandler(b *testing.B) {
	chunk := `data: {"id":"c","choices":[{"index":0,"delta":{"content":" token"},"finish_reason":null}]}` + "\n\n"
	target := &Target{Replica: "r0", URL: "http://127.0.0.1:1", Policy: "ttft"}
	h, err := New(Config{
		Peer: "p", Pick: func(context.Context, *Call) (*Target, error) { return target, nil },
		Transport: nullTransport{strings.Repeat(chunk, 10)},
	})
	if err != nil {
		b.Fatal(err)
	}
	body := benchBody(1<<10, true)
	b.ReportAllocs()
	for b.Loop() {
		req := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(body))
		req.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, req)
		if w.Code != 200 {
			b.Fatal(w.Code)
		}
	}
}
