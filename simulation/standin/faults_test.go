package standin

import (
	"context"
	"errors"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestInjectedFaults(t *testing.T) {
	s := start(t, Config{})
	in := chatBody("hello", 4)
	if code := post(t, s, "/standin/fault", Fault{FailNext: ptr(1), Status: ptr(502), LatencyMS: ptr(1)}, nil); code != 200 {
		t.Fatalf("setting a fault answers %d", code)
	}
	if code := post(t, s, "/v1/chat/completions", in, nil); code != 502 {
		t.Errorf("status %d, want 502", code)
	}
	s.Set(Fault{ResetNext: ptr(1)})
	if _, err := send(context.Background(), t, s, "/v1/chat/completions", in); err == nil {
		t.Error("a reset connection answered")
	}
	for _, stream := range []bool{true, false} {
		s.Set(Fault{CutNext: ptr(1)})
		in["stream"] = stream
		res, err := send(context.Background(), t, s, "/v1/chat/completions", in)
		if !stream {
			if err == nil {
				t.Error("a cut answer came whole")
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err == nil || !strings.Contains(string(b), `"content"`) || strings.Contains(string(b), "[DONE]") {
			t.Errorf("a cut stream gave %q and %v", b, err)
		}
	}
	in["stream"] = false
	if code := post(t, s, "/v1/chat/completions", in, nil); code != 200 {
		t.Errorf("status %d after the faults are used up", code)
	}
	eventually(t, "nothing runs", func() bool { return s.State().Stats.Used == 0 })
}

func TestCommentLines(t *testing.T) {
	s := start(t, Config{})
	s.Set(Fault{Comments: ptr(true)})
	in := chatBody("hello", 4)
	in["stream"] = true
	var text string
	post(t, s, "/v1/chat/completions", in, &text)
	if !strings.HasPrefix(text, ": keep-alive\n\ndata: {") || !strings.HasSuffix(text, "data: [DONE]\n\n") {
		t.Errorf("stream %q", text)
	}
}

func TestAdminRefusesNonsense(t *testing.T) {
	s := start(t, Config{})
	for path, body := range map[string]string{
		"/standin/fault":              `{"fail_next": "x"}`,
		"/standin/restart?down=never": `{}`,
		"/standin/restart?down=99h":   `{}`,
	} {
		res, err := http.Post(s.URL()+path, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if code := decode(t, res, nil); code != 400 {
			t.Errorf("%s %s answers %d", path, body, code)
		}
	}
}

func TestStallStopsTheModel(t *testing.T) {
	s := start(t, Config{Profile: "demo"})
	s.Set(Fault{StallMS: ptr(60_000)})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		res, err := send(ctx, t, s, "/v1/chat/completions", chatBody("hello", 1))
		if err == nil {
			res.Body.Close()
		}
		done <- err
	}()
	eventually(t, "the request runs", func() bool { return s.State().Stats.Running == 1 })
	if n := s.State().Stats.Generated; n != 0 {
		t.Errorf("%d tokens during a stall", n)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("the stalled request ended with %v", err)
	}
}

func TestResetDropsTheCache(t *testing.T) {
	s := start(t, Config{Events: "tcp://127.0.0.1:0"})
	l := listen(t, s, "")
	in := chatBody(words(1, 40), 1)
	post(t, s, "/v1/chat/completions", in, nil)
	if code := post(t, s, "/reset_prefix_cache", nil, nil); code != 200 {
		t.Fatalf("reset answers %d", code)
	}
	l.until(1)
	var got reply
	post(t, s, "/v1/chat/completions", in, &got)
	if got.cached() != 0 || len(l.copies) != 0 {
		t.Errorf("%d tokens cached after a reset, told %v", got.cached(), l.copies)
	}
	slow := start(t, Config{Profile: "demo"})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		if res, err := send(ctx, t, slow, "/v1/chat/completions", chatBody("x", 20000)); err == nil {
			res.Body.Close()
		}
	}()
	eventually(t, "a request runs", func() bool { return slow.State().Stats.Running == 1 })
	if code := post(t, slow, "/standin/reset", nil, nil); code != 409 {
		t.Errorf("reset under a running request answers %d", code)
	}
}

// I7: Close cuts what runs, returns, and may come again.
func TestCloseEndsEverything(t *testing.T) {
	s := start(t, Config{Profile: "demo", Events: "tcp://127.0.0.1:0", Replay: "tcp://127.0.0.1:0"})
	in := chatBody("long", 20000)
	in["stream"] = true
	res, err := send(context.Background(), t, s, "/v1/chat/completions", in)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	cancel()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Fatal("Close hangs")
	}
	if _, err := io.ReadAll(res.Body); err == nil {
		t.Error("the stream ended as if it were whole")
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := s.Restart(0); err == nil {
		t.Error("restarted after Close")
	}
	if _, err := http.Get(s.URL() + "/health"); err == nil {
		t.Error("still serving")
	}
	http.DefaultClient.CloseIdleConnections()
	eventually(t, "no goroutine of ours is left", func() bool {
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		return !strings.Contains(string(stacks), "standin.(*engine).run") && !strings.Contains(string(stacks), "zmtp.(*socket)") &&
			!strings.Contains(string(stacks), "standin.(*Server).complete")
	})
}
