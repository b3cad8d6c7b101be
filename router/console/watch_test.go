package console

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// said is one server-sent event.
type said struct{ name, data string }

func parseFeed(t *testing.T, body string) (out []said) {
	t.Helper()
	for part := range strings.SplitSeq(body, "\n\n") {
		var s said
		for line := range strings.SplitSeq(part, "\n") {
			if v, ok := strings.CutPrefix(line, "event: "); ok {
				s.name = v
			} else if v, ok := strings.CutPrefix(line, "data: "); ok {
				s.data = v
			} else if strings.HasPrefix(line, ":") || strings.HasPrefix(line, "retry: ") {
				s.name = line
			}
		}
		if s.name != "" {
			out = append(out, s)
		}
	}
	return out
}

func named(list []said, name string) (out []said) {
	for _, s := range list {
		if s.name == name {
			out = append(out, s)
		}
	}
	return out
}

// watchFor runs a feed for d of fake time while during plays.
func watchFor(t *testing.T, c *Console, target string, d time.Duration, during func()) []said {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	w := httptest.NewRecorder()
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, target, nil).WithContext(ctx))
	}()
	if during != nil {
		during()
	}
	<-done
	if n := c.watchers.Load(); n != 0 {
		t.Errorf("C6: %d watchers are left", n)
	}
	return parseFeed(t, w.Body.String())
}

func TestFeedSendsStatusDecisionsAndEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := sampleConsole()
		c.Observe(sample())
		got := watchFor(t, c, "/v1/watch", 10*time.Second+time.Millisecond, func() {
			time.Sleep(2500 * time.Millisecond)
			s := sample()
			s.Replicas[0].State, s.Replicas[0].Reason = "down", "refused"
			c.Observe(s)
		})
		if n := len(named(got, "status")); n != 11 {
			t.Errorf("%d documents in 10 s, want one at once and one each second", n)
		}
		var s Status
		if err := json.Unmarshal([]byte(named(got, "status")[0].data), &s); err != nil || s.Label != "pool-a" {
			t.Errorf("status: %v %+v", err, s)
		}
		if n := len(named(got, "decision")); n != 1 {
			t.Errorf("%d decisions, want the one there is", n)
		}
		events := named(got, "event")
		if len(events) != 2 || !strings.Contains(events[1].data, "replica r2 down: refused") {
			t.Errorf("events: %v", events)
		}
		if got[0].name != "retry: 2000" {
			t.Errorf("it begins with %v", got[0])
		}
	})
}

func TestFeedSamplesDecisions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(func() *Status { return sample() })
		got := watchFor(t, c, "/v1/watch?draw", 5*time.Second+time.Millisecond, func() {
			for range 5000 {
				c.Decided(&Choice{Replica: "r"})
				time.Sleep(time.Millisecond)
			}
		})
		if n := len(named(got, "decision")); n < 40 || n > 51 {
			t.Errorf("%d decisions in 5 s, at most ten a second", n)
		}
		seen := map[string]bool{}
		for _, s := range named(got, "decision") {
			var row Row
			if err := json.Unmarshal([]byte(s.data), &row); err != nil || seen[row.Key] || row.Cells["replica"] != "r" {
				t.Fatalf("%v: %s", err, s.data)
			}
			seen[row.Key] = true
		}
	})
}

func TestFeedCommentsWhenQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := watchFor(t, sampleConsole(), "/v1/watch", 31*time.Second, nil)
		if n := len(named(got, ": still here")); n != 2 {
			t.Errorf("%d comments in 31 s, want one each 15 s", n)
		}
	})
}

func TestCloseEndsFeeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := sampleConsole()
		begin := time.Now()
		watchFor(t, c, "/v1/watch", time.Hour, func() {
			time.Sleep(time.Second)
			c.Close()
			c.Close()
		})
		if took := time.Since(begin); took > 2*time.Second {
			t.Errorf("C6: the feed ended after %v", took)
		}
	})
}

type brokenWriter struct{ http.ResponseWriter }

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("gone") }

func TestFeedEndsWhenTheClientDoesNotRead(t *testing.T) {
	c := sampleConsole()
	c.Handler().ServeHTTP(brokenWriter{httptest.NewRecorder()}, httptest.NewRequest(http.MethodGet, "/v1/watch", nil))
	if n := c.watchers.Load(); n != 0 {
		t.Errorf("C6: %d watchers are left", n)
	}
}

func TestOneStatusServesAllWatchers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		c := New(func() *Status { asked++; return sample() })
		for range 20 {
			c.look()
		}
		time.Sleep(time.Second)
		c.look()
		if asked != 2 {
			t.Errorf("asked %d times in a second", asked)
		}
	})
}

func TestFeedOverARealSocket(t *testing.T) {
	c := sampleConsole()
	server := httptest.NewServer(c.Handler())
	defer server.Close()
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	req, _ := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/v1/watch?draw", nil)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var text string
	for buf := make([]byte, 4096); !strings.Contains(text, "event: decision"); {
		n, err := res.Body.Read(buf)
		if text += string(buf[:n]); err != nil {
			t.Fatalf("%v after %q", err, text)
		}
	}
	if res.Header.Get("Content-Type") != "text/event-stream" || !strings.Contains(text, `"verdict":"r3 is down: connection refused. `) {
		t.Errorf("%v %s", res.Header, text)
	}
}
