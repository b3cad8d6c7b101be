package proxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// raw is a replica that answers with bytes as they are and closes.
func raw(answer string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		readAll(r)
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_, _ = io.WriteString(conn, answer)
			_ = conn.Close()
		}
	}
}

const oneEvent = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n"

// TestReplicasThatFail is the table: what a client reads when a replica does
// its worst, and whether another one takes over. The other one is good.
func TestReplicasThatFail(t *testing.T) {
	lying := `{"choices":[{}],"usage":{"prompt_tokens":-5,"completion_tokens":1e300,"prompt_tokens_details":{"cached_tokens":99999999999999999999}}}`
	huge := strings.Repeat("x", 3<<20)
	for _, c := range []struct {
		name   string
		bad    http.HandlerFunc
		by     string // whose answer the client has
		status int
		cut    bool   // and sees that it is not whole
		reads  string // somewhere in it
		cause  Cause  // of the bad one's try
	}{
		{"dies before the header", die, "r1", 200, false, "ok", CauseReset},
		{"dies before the first byte", dieAfterHeader, "r1", 200, false, "ok", CauseReset},
		{"stalls before the header", stall, "r1", 200, false, "ok", CauseTimeout},
		{"stalls before the first byte", stallAfterHeader, "r1", 200, false, "ok", CauseTimeout},
		{"502 with a page", status(502, "text/html", "<html>evil"), "r1", 200, false, "ok", CauseStatus},
		{"503 in its own words", status(503, "application/json", "{}"), "r1", 200, false, "ok", CauseStatus},
		{"speaks no HTTP", raw("evil\r\n\r\n"), "r1", 200, false, "ok", CauseReset},
		{"a header without end", raw("HTTP/1.1 200 OK\r\nX-A: " + strings.Repeat("a", 1<<20)), "r1", 200, false, "ok", CauseReset},
		{"two lengths", raw("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nevil"), "r1", 200, false, "ok", CauseReset},
		{"500 with a page", status(500, "text/html", "<html>evil"), "r1", 200, false, "ok", CauseStatus},
		{"500 in its own words", status(500, "application/json", `{"e":1}`), "r1", 200, false, "ok", CauseStatus},
		{"429 in its own words", status(429, "application/json", `{"e":1}`), "r1", 200, false, "ok", CauseStatus},
		{"a redirect", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://169.254.169.254/", http.StatusTemporaryRedirect)
		}, "r0", 502, false, "replica_failed", CauseNone},
		{"dies inside a stream", func(w http.ResponseWriter, r *http.Request) { readAll(r); writeChunks(w, oneEvent); die(w, r) }, "r0", 200, true, "replica_failed", CauseReset},
		{"dies inside an event", func(w http.ResponseWriter, r *http.Request) {
			readAll(r)
			writeChunks(w, oneEvent+"data: {\"ch")
			die(w, r)
		}, "r0", 200, true, "data: {\"ch", CauseReset},
		{"stalls inside a stream", func(w http.ResponseWriter, r *http.Request) {
			readAll(r)
			writeChunks(w, oneEvent)
			<-r.Context().Done()
		}, "r0", 200, true, "replica_failed", CauseTimeout},
		{"shorter than it said", raw("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 999999\r\n\r\n{" + huge[:99999]), "r0", 200, true, "xxx", CauseReset},
		{"shorter than it said, after a little", raw("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 999999\r\n\r\n{" + huge[:999]), "r0", 200, true, "xxx", CauseReset},
		{"a line without end", func(w http.ResponseWriter, r *http.Request) { readAll(r); writeChunks(w, "data: "+huge) }, "r0", 200, false, "xxx", CauseNone},
		{"chunks that are no JSON", func(w http.ResponseWriter, r *http.Request) {
			readAll(r)
			writeChunks(w, "data: evil\n\n", "data: [DONE]\n\n")
		}, "r1", 200, false, "ok", CauseAnswer},
		{"lies about usage", status(200, "application/json", lying), "r0", 200, false, lying, CauseNone},
		{"lies about usage in a stream", func(w http.ResponseWriter, r *http.Request) {
			readAll(r)
			writeChunks(w, oneEvent, "data: "+lying+"\n\n", "data: [DONE]\n\n")
		}, "r0", 200, false, "[DONE]", CauseNone},
		{"a page with 200", status(200, "text/html", "<html>busy"), "r1", 200, false, "ok", CauseAnswer},
		{"two answers at once", raw("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"), "r1", 200, false, "ok", CauseAnswer},
		{"word of an answer, then none", raw("HTTP/1.1 103 Early Hints\r\nLink: </evil>\r\n\r\n"), "r1", 200, false, "ok", CauseReset},
		{"word of answers without end", raw(strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: </evil>\r\n\r\n", 10_000)), "r1", 200, false, "ok", CauseReset},
		{"another protocol", raw("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: evil\r\n\r\nevil"), "r1", 200, false, "ok", CauseReset},
		{"chunks that lie", raw("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\nevil"), "r1", 200, false, "ok", CauseReset},
		{"chunks that lie later", raw("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n5\r\ndata:\r\n-1\r\n"), "r0", 200, true, "data:", CauseReset},
		{"trailers", raw("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\nTrailer: X-Banyan-Peer\r\n\r\n11\r\n{\"choices\":[{}]} \r\n0\r\nX-Banyan-Peer: evil\r\n\r\n"), "r0", 200, false, "choices", CauseNone},
		{"nothing, in chunks", raw("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), "r1", 200, false, "ok", CauseAnswer},
		{"an end that is no event", func(w http.ResponseWriter, r *http.Request) {
			readAll(r)
			writeChunks(w, oneEvent, "data: [DONE]")
		}, "r0", 200, false, "[DONE]", CauseNone},
		{"a stream without its end", func(w http.ResponseWriter, r *http.Request) {
			readAll(r)
			writeChunks(w, oneEvent)
		}, "r0", 200, true, "replica_failed", CauseReset},
		{"a stream without a token", func(w http.ResponseWriter, r *http.Request) {
			readAll(r)
			writeChunks(w, "data: [DONE]\n\n")
		}, "r0", 200, false, "[DONE]", CauseNone},
		{"no choices", status(200, "application/json", `{"choices":[]}`), "r1", 200, false, "ok", CauseAnswer},
		{"an empty answer", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(200) }, "r1", 200, false, "ok", CauseAnswer},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			g := newRig(t, func(cfg *Config) {
				cfg.Limits.Idle = patience
				if c.cause == CauseTimeout && c.by == "r1" {
					cfg.Limits.FirstByte = patience
				}
			}, c.bad, ok)
			a := g.chat(streamedChat)
			r := g.last()
			t.Logf("%-30s -> %d by %s, whole %v, retried %v", c.name, a.status, a.header.Get("X-Banyan-Replica"), a.err == nil, r.Retried)
			if a.status != c.status || a.header.Get("X-Banyan-Replica") != c.by || (a.err != nil) != c.cut || !strings.Contains(a.body, c.reads) {
				t.Errorf("%d %q %v %.300s", a.status, a.header.Get("X-Banyan-Replica"), a.err, a.body)
			}
			if c.by == "r1" && strings.Contains(a.body, "evil") {
				t.Errorf("the client reads %q", a.body)
			}
			if r.Cause != c.cause || r.Retried != (c.by == "r1") {
				t.Errorf("%+v", r)
			}
			if u := r.Usage; u.Prompt < 0 || u.Completion < 0 || u.Cached < 0 || u.Prompt > 1<<40 || u.Completion > 1<<40 || u.Cached > 1<<40 {
				t.Errorf("believed: %+v", u)
			}
		})
	}
}

// TestWholeAnswersThatBreak: an answer that is not streamed is no use in part,
// so while it fits a buffer another replica takes over even inside it.
func TestWholeAnswersThatBreak(t *testing.T) {
	head := func(n int) string {
		return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", n)
	}
	for name, bad := range map[string]http.HandlerFunc{
		"right after its begin": raw(head(500) + `{"evil":`),
		"a byte from its end":   raw(head(bufferBytes) + strings.Repeat("e", bufferBytes-1)),
	} {
		g := newRig(t, nil, bad, ok)
		if a := g.chat(plainChat); a.status != 200 || a.err != nil || a.header.Get("X-Banyan-Replica") != "r1" || !strings.Contains(a.body, "ok") {
			t.Errorf("%s: %d %v %.100s", name, a.status, a.err, a.body)
		}
		if r := g.last(); r.Cause != CauseReset || !r.Retried || r.Answered {
			t.Errorf("%s: %+v", name, r)
		}
		g = newRig(t, nil, bad)
		if a := g.chat(plainChat); a.status != 502 || a.err != nil || !strings.Contains(a.body, "replica_failed") {
			t.Errorf("%s, nobody else: %d %v %.100s", name, a.status, a.err, a.body)
		}
	}
	slow := func(w http.ResponseWriter, r *http.Request) {
		readAll(r)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", "15")
		for _, part := range []string{`{"choices`, `":[`, "1]}"} {
			_, _ = io.WriteString(w, part)
			_ = http.NewResponseController(w).Flush()
		}
	}
	if a := newRig(t, nil, slow).chat(plainChat); a.status != 200 || a.body != `{"choices":[1]}` || a.header.Get("Content-Length") != "15" {
		t.Errorf("in parts: %+v", a)
	}
}

// TestClientsThatMisbehave is the table: whatever a client does, its place,
// its memory and the replica's work come back, and others are served.
func TestClientsThatMisbehave(t *testing.T) {
	head := func(length int) string {
		return fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", length)
	}
	endless := func(w http.ResponseWriter, r *http.Request) {
		readAll(r)
		w.Header().Set("Content-Type", "text/event-stream")
		for r.Context().Err() == nil {
			if _, err := io.WriteString(w, strings.Repeat(oneEvent, 100)); err != nil {
				return
			}
		}
	}
	for _, c := range []struct {
		name    string
		replica http.HandlerFunc
		act     func(t *testing.T, conn net.Conn)
	}{
		{"sends its body slowly", ok, func(t *testing.T, conn net.Conn) {
			_, _ = io.WriteString(conn, head(1000)+`{"model"`)
			expect(t, conn, 400) // after Limits.BodyTimeout
		}},
		{"sends its header slowly", ok, func(t *testing.T, conn net.Conn) {
			_, _ = io.WriteString(conn, "POST /v1/chat")
			if n, _ := conn.Read(make([]byte, 1)); n != 0 { // closed without a word, or with one
				return
			}
		}},
		{"never reads", endless, func(t *testing.T, conn net.Conn) {
			_, _ = io.WriteString(conn, head(len(streamedChat))+streamedChat)
			waitFor(t, conn) // until Limits.Write has passed
		}},
		{"leaves inside its body", ok, func(_ *testing.T, conn net.Conn) {
			_, _ = io.WriteString(conn, head(1000)+`{"model"`)
			_ = conn.Close()
		}},
		{"leaves before the answer", stall, func(_ *testing.T, conn net.Conn) {
			_, _ = io.WriteString(conn, head(len(streamedChat))+streamedChat)
			time.Sleep(20 * time.Millisecond) // somewhere on the way; any moment will do
			_ = conn.Close()
		}},
		{"leaves inside a stream", endless, func(_ *testing.T, conn net.Conn) {
			_, _ = io.WriteString(conn, head(len(streamedChat))+streamedChat)
			_, _ = io.ReadFull(conn, make([]byte, 4000))
			_ = conn.Close()
		}},
		{"pipelines", ok, func(t *testing.T, conn net.Conn) {
			one := head(len(plainChat)) + plainChat
			_, _ = io.WriteString(conn, one+one+one)
			in := bufio.NewReader(conn)
			for range 3 {
				res, err := http.ReadResponse(in, nil)
				if err != nil || res.StatusCode != 200 {
					t.Errorf("%v %v", res, err)
					return
				}
				_, _ = io.Copy(io.Discard, res.Body)
			}
		}},
		{"sends chunks slowly", ok, func(t *testing.T, conn net.Conn) {
			_, _ = io.WriteString(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n"+chunked+"\r\n\r\n5\r\n{\"mod\r\n")
			expect(t, conn, 400)
		}},
		{"pipelines and leaves", endless, func(_ *testing.T, conn net.Conn) {
			one := head(len(streamedChat)) + streamedChat
			_, _ = io.WriteString(conn, one+one+one)
			_, _ = io.ReadFull(conn, make([]byte, 4000))
			_ = conn.Close()
		}},
		{"closes its half", ok, func(t *testing.T, conn net.Conn) {
			_, _ = io.WriteString(conn, head(len(plainChat))+plainChat)
			_ = conn.(*net.TCPConn).CloseWrite()
			_, _ = io.Copy(io.Discard, conn) // an answer or none: net/http takes it for leaving
		}},
		{"asks to go on and does not", ok, func(t *testing.T, conn net.Conn) {
			_, _ = io.WriteString(conn, strings.Replace(head(1000), "\r\n\r\n", "\r\nExpect: 100-continue\r\n\r\n", 1))
			in := bufio.NewReader(conn)
			for _, want := range []int{100, 400} { // after Limits.BodyTimeout
				if res, err := http.ReadResponse(in, nil); err != nil || res.StatusCode != want {
					t.Errorf("%v %v, want %d", res, err, want)
				}
			}
		}},
		{"sends more than it said", ok, func(t *testing.T, conn net.Conn) {
			_, _ = io.WriteString(conn, head(len(plainChat))+plainChat+"evil evil evil\r\n\r\n")
			expect(t, conn, 200)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			g := newRig(t, func(cfg *Config) { cfg.Limits.BodyTimeout, cfg.Limits.Write = patience, patience }, c.replica)
			front := httptest.NewUnstartedServer(g.handler)
			front.Config.ReadHeaderTimeout = patience
			front.Start()
			defer front.Close()
			conn, err := net.Dial("tcp", front.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
			c.act(t, conn)
			_ = conn.Close()
			for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
				s := g.handler.Stats()
				over := false
				g.locked(func() { over = g.picked == len(g.done) })
				if over && s.InFlight == 0 && s.BodyBytes == 0 {
					t.Logf("%-25s -> all given back", c.name)
					return
				}
				if time.Now().After(end) {
					t.Fatalf("not given back: %+v", s)
				}
			}
		})
	}
}

// expect reads one answer.
func expect(t *testing.T, conn net.Conn, status int) {
	t.Helper()
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || res.StatusCode != status {
		t.Errorf("%v %v, want %d", res, err, status)
	}
}

// waitFor waits without reading until the other end has given up.
func waitFor(t *testing.T, conn net.Conn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for ctx.Err() == nil {
		time.Sleep(50 * time.Millisecond)
		if _, err := conn.Write([]byte("x")); err != nil { // more bytes are read on as another request's, until it closes
			return
		}
	}
	t.Error("never closed")
}
