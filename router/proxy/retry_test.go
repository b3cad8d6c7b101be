package proxy

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

func ok(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"choices":["ok"]}`)
}

func status(code int, contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}
}

func die(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// stall never answers, until the client leaves.
func stall(_ http.ResponseWriter, r *http.Request) {
	readAll(r)
	<-r.Context().Done()
}

// stallAfterHeader sends the header and no byte.
func stallAfterHeader(w http.ResponseWriter, r *http.Request) {
	readAll(r)
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(200)
	_ = http.NewResponseController(w).Flush()
	<-r.Context().Done()
}

func dieAfterHeader(w http.ResponseWriter, r *http.Request) {
	w.WriteHeader(200)
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

// patience is a short wait for a first byte, yet long enough for a replica
// that means to answer on a busy machine.
const patience = 2 * time.Second

// TestTheDeadlineEndsAllTries: however long one try may take, all together end
// at the deadline, and the replica that ran into it is told apart.
func TestTheDeadlineEndsAllTries(t *testing.T) {
	for name, body := range map[string]string{"streamed": streamedChat, "whole": plainChat} {
		g := newRig(t, func(cfg *Config) { cfg.Limits.Deadline = patience }, stall, ok)
		a := g.chat(body)
		if r := g.last(); a.status != 504 || errorCode(t, a) != "timeout" || r.Cause != CauseTimeout || !errors.Is(r.Err, ErrDeadline) || r.Retried {
			t.Errorf("%s: %d %s %+v", name, a.status, a.body, r)
		}
		g = newRig(t, func(cfg *Config) { cfg.Limits.Deadline = time.Hour }, die, ok)
		if a := g.chat(body); a.status != 200 || a.header.Get("X-Banyan-Replica") != "r1" {
			t.Errorf("%s, in time: %d %s", name, a.status, a.body)
		}
	}
}

func TestFailedTriesMoveOn(t *testing.T) {
	for _, c := range []struct {
		name  string
		first http.HandlerFunc
		cause Cause
	}{
		{"reset", die, CauseReset},
		{"reset after the header", dieAfterHeader, CauseReset},
		{"502", status(502, "text/html", "<html>"), CauseStatus},
		{"503", status(503, "application/json", "{}"), CauseStatus},
		{"stall", stall, CauseTimeout},
		{"stall after the header", stallAfterHeader, CauseTimeout},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			g := newRig(t, func(cfg *Config) {
				if c.cause == CauseTimeout {
					cfg.Limits.FirstByte = patience
				}
			}, c.first, ok)
			a := g.chat(streamedChat)
			if a.status != 200 || a.body != `{"choices":["ok"]}` || a.header.Get("X-Banyan-Replica") != "r1" {
				t.Fatalf("%+v", a)
			}
			first, second := g.last(), g.last()
			if first.Cause != c.cause || !first.Retried || second.Cause != CauseNone || second.Retried {
				t.Fatalf("%+v %+v", first, second)
			}
			if !slices.Equal(g.retried, []Cause{c.cause}) || g.calls[1].Attempt != 1 || !slices.Equal(g.calls[1].Tried, []string{"r0"}) {
				t.Fatalf("%v %+v", g.retried, g.calls[1])
			}
		})
	}
}

// A refusal goes to the client, unless the replica is in doubt: then another one
// is asked, and its word counts.
func TestADoubtedRefusalGetsASecondOpinion(t *testing.T) {
	bad := status(404, "application/json", `{"e":404}`)
	for _, c := range []struct {
		name   string
		doubt  bool
		second http.HandlerFunc
		status int
		body   string
		tries  int
	}{
		{"nobody doubts", false, ok, 404, `{"e":404}`, 1},
		{"another one answers", true, ok, 200, `{"choices":["ok"]}`, 2},
		{"another one refuses", true, status(400, "text/plain", "bad"), 400, "bad", 2},
		{"another one breaks", true, die, 404, `{"e":404}`, 2},
	} {
		g := newRig(t, func(cfg *Config) {
			cfg.Doubts = func(target *Target) bool { return c.doubt && target.Replica == "r0" }
		}, bad, c.second)
		if a := g.chat(plainChat); a.status != c.status || a.body != c.body || g.picked != c.tries {
			t.Errorf("%s: %d %s after %d tries", c.name, a.status, a.body, g.picked)
		}
	}
}

// What a replica without room asks for is told, bounded.
func TestRetryAfterIsTold(t *testing.T) {
	for header, want := range map[string]time.Duration{"": time.Second, "3": 3 * time.Second, "0.5": time.Second / 2, "86400": mostRetryAfter, "-1": time.Second, "soon": time.Second} {
		g := newRig(t, nil, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", header)
			w.WriteHeader(429)
		}, ok)
		a := g.chat(plainChat)
		if r := g.last(); a.status != 200 || r.RetryAfter != want || !r.Retried {
			t.Errorf("%q: %d %+v", header, a.status, r)
		}
	}
}

func TestRefusedConnectionMovesOn(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := newRig(t, nil, ok, ok)
	g.targets[0].URL = "http://" + closed.Addr().String()
	_ = closed.Close()
	if a := g.do(http.MethodPost, "/v1/unknown", "x", http.Header{"Content-Type": {"text/plain"}}); a.status != 200 {
		t.Fatalf("%+v", a)
	}
	if r := g.last(); r.Cause != CauseConnect || r.Err == nil {
		t.Fatalf("%+v", r)
	}
}

func TestUnknownPostsRunOnce(t *testing.T) {
	g := newRig(t, nil, die, ok)
	a := g.do(http.MethodPost, "/v1/unknown", "x", http.Header{"Content-Type": {"text/plain"}})
	if a.status != 502 || errorCode(t, a) != "replica_failed" || g.picked != 1 {
		t.Fatalf("%+v", a)
	}
}

func TestWhenNoTryIsLeft(t *testing.T) {
	for _, c := range []struct {
		name    string
		handler http.HandlerFunc
		status  int
		body    string
		code    string
	}{
		{"reset", die, 502, "", "replica_failed"},
		{"timeout", stall, 504, "", "timeout"},
		{"json passes", status(503, "application/json", `{"error":"engine's own"}`), 503, `{"error":"engine's own"}`, ""},
		{"html does not", status(502, "text/html", "<html>"), 502, "", "replica_failed"},
		{"500 html does not pass", status(500, "text/html", "<html>"), 500, "", "replica_failed"},
		{"500 json passes", status(500, "application/json", `{"e":1}`), 500, `{"e":1}`, ""},
		{"engine 4xx pass", status(400, "application/json", `{"object":"error"}`), 400, `{"object":"error"}`, ""},
		{"engine 429 passes", status(429, "text/plain", `slow`), 429, `slow`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			g := newRig(t, func(cfg *Config) {
				if c.code == "timeout" {
					cfg.Limits.FirstByte = patience
				}
			}, c.handler)
			a := g.chat(streamedChat)
			if a.status != c.status || c.body != "" && a.body != c.body || c.code != "" && errorCode(t, a) != c.code {
				t.Fatalf("%+v", a)
			}
		})
	}
	if a := newRig(t, nil).chat(plainChat); a.status != 503 || a.header.Get("Retry-After") == "" || errorCode(t, a) != "no_replica" {
		t.Fatalf("%+v", a)
	}
}

func TestRetriesAreLimited(t *testing.T) {
	g := newRig(t, func(c *Config) { c.Limits.Retries = 2 }, die, die, die, ok)
	if a := g.chat(plainChat); a.status != 502 || g.picked != 3 {
		t.Fatalf("%d after %d tries", a.status, g.picked)
	}
	none := newRig(t, func(c *Config) { c.Limits.Retries = -1 }, die, ok)
	if a := none.chat(plainChat); a.status != 502 || none.picked != 1 {
		t.Fatalf("%d after %d tries", a.status, none.picked)
	}
}

func TestRetriesStopWhenTheBudgetIsSpent(t *testing.T) {
	g := newRig(t, func(c *Config) { c.Limits.RetryRatio, c.Limits.RetryMin = 1e-9, 0.2 }, die, ok)
	for i, want := range []int{200, 200, 502, 502} {
		if a := g.chat(plainChat); a.status != want {
			t.Fatalf("request %d: %d", i, a.status)
		}
	}
}

func TestRetryBudget(t *testing.T) {
	b := newBudget(0.1, 1)
	now := time.Unix(100, 0)
	spend := func() (n int) {
		for b.take(now) {
			n++
		}
		return n
	}
	if n := spend(); n != budgetSeconds {
		t.Fatalf("%d at the start", n)
	}
	for range 35 {
		b.request(now)
	}
	if n := spend(); n != 3 {
		t.Fatalf("%d for 35 requests", n)
	}
	now = now.Add(5 * time.Second)
	if n := spend(); n != 5 {
		t.Fatalf("%d after 5 s", n)
	}
	now = now.Add(time.Hour)
	if n := spend(); n != 20 {
		t.Fatalf("%d after an hour", n)
	}
}

func TestI2NoRetryAfterTheFirstByte(t *testing.T) {
	g := newRig(t, nil, func(w http.ResponseWriter, r *http.Request) {
		readAll(r)
		writeChunks(w, "data: {\"choices\":[{\"text\":\"a\"}]}\n\n")
		panic(http.ErrAbortHandler)
	}, ok)
	a := g.chat(usageChat)
	if a.err == nil || g.picked != 1 {
		t.Fatalf("%+v after %d tries", a, g.picked)
	}
	if !strings.HasPrefix(a.body, "data: {\"choices\":[{\"text\":\"a\"}]}\n\ndata: {\"error\":{") {
		t.Fatalf("%q", a.body)
	}
	if r := g.last(); r.Cause != CauseReset || r.Err == nil || r.ClientGone || r.Retried || r.TTFT == 0 {
		t.Fatalf("%+v", r)
	}
}

func TestStreamCutInsideAnEventGetsNoEventOfOurs(t *testing.T) {
	for _, body := range []string{usageChat, streamedChat} {
		g := newRig(t, nil, func(w http.ResponseWriter, r *http.Request) {
			readAll(r)
			writeChunks(w, "data: {\"choices\":[{\"text\":\"a\"}]}\n\ndata: {\"cho")
			panic(http.ErrAbortHandler)
		})
		if a := g.chat(body); a.err == nil || a.body != "data: {\"choices\":[{\"text\":\"a\"}]}\n\ndata: {\"cho" {
			t.Fatalf("%+v", a)
		}
	}
}

func TestI4ClientThatLeavesCancelsTheReplica(t *testing.T) {
	for name, header := range map[string]bool{"before the first byte": false, "inside the stream": true} {
		t.Run(name, func(t *testing.T) {
			reached, cancelled := make(chan struct{}), make(chan struct{})
			g := newRig(t, nil, func(w http.ResponseWriter, r *http.Request) {
				readAll(r)
				if header {
					writeChunks(w, oneEvent)
				}
				close(reached)
				<-r.Context().Done()
				close(cancelled)
			}, ok)
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			req, _ := http.NewRequestWithContext(ctx, http.MethodPost, g.front.URL+"/v1/chat/completions", strings.NewReader(usageChat))
			go func() {
				<-reached
				cancel()
			}()
			if res, err := http.DefaultTransport.RoundTrip(req); err == nil {
				_, _ = io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
			}
			select {
			case <-cancelled:
			case <-time.After(10 * time.Second):
				t.Fatal("the replica still works")
			}
			if r := g.last(); !r.ClientGone || r.Retried || g.picked != 1 {
				t.Fatalf("%+v", r)
			}
		})
	}
}

func TestI6EndlessLinePassesInBoundedMemory(t *testing.T) {
	const pieces = 3000
	g := newRig(t, nil, func(w http.ResponseWriter, r *http.Request) {
		readAll(r)
		w.Header().Set("Content-Type", "text/event-stream")
		piece := []byte("data:" + strings.Repeat("x", 995))
		for range pieces {
			if _, err := w.Write(piece); err != nil {
				return
			}
		}
	})
	for _, body := range []string{usageChat, streamedChat} {
		if a := g.chat(body); len(a.body) != pieces*1000 || a.err != nil {
			t.Fatalf("%d bytes, %v", len(a.body), a.err)
		}
	}
}

func TestSlowUploadIsCutOff(t *testing.T) {
	g := newRig(t, func(c *Config) { c.Limits.BodyTimeout = 50 * time.Millisecond })
	conn, err := net.Dial("tcp", strings.TrimPrefix(g.front.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
	_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	raw, _ := io.ReadAll(conn)
	if !strings.HasPrefix(string(raw), "HTTP/1.1 400 ") {
		t.Fatalf("%q", raw)
	}
}

func TestConnectionsEndAtTheirAge(t *testing.T) {
	h, err := New(Config{Pick: func(context.Context, *Call) (*Target, error) { return nil, ErrNoReplica }})
	if err != nil {
		t.Fatal(err)
	}
	for age, closes := range map[time.Duration]bool{0: false, time.Hour: false, time.Nanosecond: true} {
		server := httptest.NewUnstartedServer(h)
		server.Config.ConnContext = ConnContext(age)
		server.Start()
		res, err := http.Get(server.URL + "/v1/models")
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.Close != closes {
			t.Errorf("age %v: close %v", age, res.Close)
		}
		server.Close()
	}
}

// TestConnectionThatClosedIdleIsNoFailure: a replica may close an idle
// connection just as a request goes out on it.
func TestConnectionThatClosedIdleIsNoFailure(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	connections := make(chan struct{}, 10)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			connections <- struct{}{}
			go func() {
				defer conn.Close()
				r := bufio.NewReader(conn)
				req, err := http.ReadRequest(r)
				if err != nil {
					return
				}
				readAll(req)
				_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 15\r\n\r\n{\"choices\":[1]}")
				_, _ = r.ReadByte() // the next request begins: leave without an answer
			}()
		}
	}()
	g := newRig(t, nil, ok)
	g.targets[0].URL = "http://" + listener.Addr().String()
	for range 3 {
		if a := g.chat(plainChat); a.status != 200 || a.body != `{"choices":[1]}` {
			t.Fatalf("%+v", a)
		}
	}
	if len(connections) != 3 || g.picked != 3 || len(g.retried) != 0 {
		t.Fatalf("%d connections, %d tries", len(connections), g.picked)
	}
}

// TestI4SlowClientHoldsBackTheReplica: what the client does not read is not
// read from the replica either.
func TestI4SlowClientHoldsBackTheReplica(t *testing.T) {
	written := make(chan int, 1)
	g := newRig(t, func(c *Config) { c.Limits.Write = 200 * time.Millisecond }, func(w http.ResponseWriter, r *http.Request) {
		readAll(r)
		w.Header().Set("Content-Type", "text/event-stream")
		event := []byte("data: " + strings.Repeat("x", 64<<10) + "\n\n")
		n := 0
		for range 10_000 {
			if _, err := w.Write(event); err != nil {
				break
			}
			n += len(event)
		}
		written <- n
	})
	conn, err := net.Dial("tcp", strings.TrimPrefix(g.front.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: "+
		strconv.Itoa(len(usageChat))+"\r\n\r\n"+usageChat)
	if r := g.last(); !r.ClientGone || r.Err == nil {
		t.Fatalf("%+v", r)
	}
	if n := <-written; n > 64<<20 {
		t.Fatalf("the replica wrote %d bytes", n)
	}
}

// TestAClientsPauseIsNotTheReplicas: while the client does not read, the
// answer stands still, and that is no fault of the replica.
func TestAClientsPauseIsNotTheReplicas(t *testing.T) {
	t.Parallel()
	const events = 400
	event := `data: {"choices":[{"finish_reason":"stop","text":"` + strings.Repeat("x", 64<<10) + `"}]}` + "\n\n"
	g := newRig(t, func(c *Config) { c.Limits.Idle = patience }, func(w http.ResponseWriter, r *http.Request) {
		readAll(r)
		w.Header().Set("Content-Type", "text/event-stream")
		for range events {
			if _, err := io.WriteString(w, event); err != nil {
				return
			}
		}
	})
	res, err := http.Post(g.front.URL+"/v1/chat/completions", "application/json", strings.NewReader(usageChat))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	time.Sleep(patience + patience/2) // the client's pause is the test
	if n, err := io.Copy(io.Discard, res.Body); err != nil || n < events*int64(len(event)) {
		t.Errorf("%d bytes, %v", n, err)
	}
	if r := g.last(); r.Cause != CauseNone || r.Err != nil {
		t.Errorf("%+v", r)
	}
}

func TestI6BodiesTogetherAreBounded(t *testing.T) {
	reached, leave := make(chan struct{}, 1), make(chan struct{})
	g := newRig(t, func(c *Config) { c.Limits.BodiesBytes = 200 << 10 }, func(w http.ResponseWriter, r *http.Request) {
		readAll(r)
		reached <- struct{}{}
		<-leave
		ok(w, r)
	})
	large := `{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("x", 60<<10) + `"}]}`
	first := make(chan answer, 1)
	go func() { first <- g.chat(large) }()
	<-reached
	if a := g.chat(large); a.status != 429 || errorCode(t, a) != "overloaded" {
		t.Fatalf("%+v", a)
	}
	close(leave)
	if a := <-first; a.status != 200 {
		t.Fatalf("%+v", a)
	}
	if a := g.chat(large); a.status != 200 {
		t.Fatalf("%+v", a)
	}
}
