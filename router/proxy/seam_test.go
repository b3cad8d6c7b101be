package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/banyan-llm/banyan/router/openai"
)

func TestPickErrorsHaveAnswers(t *testing.T) {
	for _, c := range []struct {
		err    error
		status int
		code   string
	}{
		{ErrNoReplica, 503, "no_replica"},
		{fmt.Errorf("wrapped: %w", ErrUnknownModel), 404, "model_not_found"},
		{ErrDraining, 503, "draining"},
		{context.DeadlineExceeded, 504, "timeout"},
		{errors.New("secret detail"), 500, "internal_error"},
		{&openai.Error{Status: 403, Message: "no", Type: "t", Code: "c"}, 403, "c"},
	} {
		g := newRig(t, func(cfg *Config) {
			cfg.Pick = func(context.Context, *Call) (*Target, error) { return nil, c.err }
		})
		a := g.chat(plainChat)
		if a.status != c.status || errorCode(t, a) != c.code || strings.Contains(a.body, "secret") {
			t.Errorf("%v: %d %s", c.err, a.status, a.body)
		}
		if !slices.Equal(g.refused, []int{c.status}) {
			t.Errorf("%v: refused %v", c.err, g.refused)
		}
	}
}

// TestAttemptTakesOverTheDispatch: a dispatch in two legs sees call, target
// and the request as it would have gone out.
func TestAttemptTakesOverTheDispatch(t *testing.T) {
	var got string
	g := newRig(t, func(c *Config) {
		c.Attempt = func(call *Call, target *Target, req *http.Request) (*http.Response, error) {
			if call.Attempt == 0 {
				return nil, errors.New("first leg failed")
			}
			req.Header.Set("X-Leg", target.Replica)
			return http.DefaultTransport.RoundTrip(req)
		}
	}, ok, func(w http.ResponseWriter, r *http.Request) {
		got = r.Header.Get("X-Leg")
		ok(w, r)
	})
	if a := g.chat(plainChat); a.status != 200 || got != "r1" {
		t.Fatalf("%+v %q", a, got)
	}
}

func TestNoUsageIsAskedOfReplicasThatCannot(t *testing.T) {
	var got string
	g := newRig(t, nil, func(w http.ResponseWriter, r *http.Request) {
		got = readAll(r)
		writeChunks(w, stream...)
	})
	g.targets[0].NoUsage = true
	if a := g.chat(streamedChat); a.body != strings.Join(stream, "") || got != streamedChat {
		t.Fatalf("%q for %s", a.body, got)
	}
}

func TestErrorInsideAStreamIsReported(t *testing.T) {
	g := newRig(t, nil, func(w http.ResponseWriter, r *http.Request) {
		readAll(r)
		writeChunks(w, "data: {\"error\":{\"message\":\"boom\"}}\n\n", "data: [DONE]\n\n")
	})
	if a := g.chat(streamedChat); !strings.Contains(a.body, "boom") || a.err != nil {
		t.Fatalf("%+v", a)
	}
	if r := g.last(); !r.Failed || !r.Answered || r.Err != nil {
		t.Fatalf("%+v", r)
	}
}

// TestEveryAnswerIsToldOnce: answers of tries by Done, all others by Refused.
func TestEveryAnswerIsToldOnce(t *testing.T) {
	json503 := status(503, "application/json", "{}")
	for name, c := range map[string]struct {
		upstreams []http.HandlerFunc
		answered  []bool
		refused   []int
	}{
		"good":                 {[]http.HandlerFunc{ok}, []bool{true}, nil},
		"retried":              {[]http.HandlerFunc{die, ok}, []bool{false, true}, nil},
		"dead":                 {[]http.HandlerFunc{die}, []bool{false}, []int{502}},
		"status, nobody left":  {[]http.HandlerFunc{json503}, []bool{false}, []int{503}},
		"status, no tries":     {[]http.HandlerFunc{json503, json503, json503, ok}, []bool{false, false, true}, nil},
		"page of a balancer":   {[]http.HandlerFunc{status(500, "text/html", "<html>")}, []bool{false}, []int{500}},
		"engine's own refusal": {[]http.HandlerFunc{status(422, "application/json", "{}")}, []bool{true}, nil},
	} {
		g := newRig(t, nil, c.upstreams...)
		g.chat(plainChat)
		var answered []bool
		g.locked(func() {
			for _, r := range g.done {
				answered = append(answered, r.Answered)
			}
			if !slices.Equal(answered, c.answered) || !slices.Equal(g.refused, c.refused) {
				t.Errorf("%s: answered %v, refused %v", name, answered, g.refused)
			}
		})
	}
}

// TestManyClientsManyFaults: whatever replicas and clients do, every client
// gets a whole answer, an error in our shape or a visibly cut stream, and every
// target is done (I1, checked by the rig).
func TestManyClientsManyFaults(t *testing.T) {
	events := strings.Repeat("data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}],\"usage\":null}\n\n", 20)
	clean := strings.ReplaceAll(events, ",\"usage\":null", "") + "data: [DONE]\n\n"
	moody := func(w http.ResponseWriter, r *http.Request) {
		readAll(r)
		switch n := rand.IntN(10); {
		case n < 5:
			cutAt := rand.IntN(len(events))
			writeChunks(w, events[:cutAt], events[cutAt:],
				"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1}}\n\n", "data: [DONE]\n\n")
		case n == 5:
			w.WriteHeader(503)
		case n == 6:
			die(w, r)
		case n == 7:
			dieAfterHeader(w, r)
		case n == 8:
			writeChunks(w, events[:rand.IntN(len(events))+1])
			die(w, r)
		default:
			status(500, "application/json", "{}")(w, r)
		}
	}
	g := newRig(t, func(c *Config) {
		c.Limits.Concurrency, c.Limits.RetryMin = 8, 1e6
	}, moody, moody, moody)
	var wg sync.WaitGroup
	outcomes := make(chan string, 1000)
	for range 16 {
		wg.Go(func() {
			for i := range 20 {
				if i%7 == 6 {
					leaveEarly(g)
					continue
				}
				a := g.chat(streamedChat)
				switch {
				case a.status != 200:
					outcomes <- "refused"
				case a.err != nil:
					outcomes <- "cut"
					if !isCutOf(a.body, clean, events) {
						t.Errorf("cut stream %q", a.body)
					}
				case a.body != clean:
					t.Errorf("whole stream %q", a.body)
				default:
					outcomes <- "whole"
				}
			}
		})
	}
	wg.Wait()
	close(outcomes)
	seen := map[string]int{}
	for o := range outcomes {
		seen[o]++
	}
	if seen["whole"] == 0 || seen["cut"] == 0 {
		t.Fatalf("%v", seen)
	}
	if s := g.handler.Stats(); s.InFlight > 8 {
		t.Fatalf("%+v", s)
	}
}

// isCutOf reports whether a body is whole events of the clean stream, then at
// most a part of one as the replica wrote it, or our word that it was cut.
func isCutOf(body, clean, written string) bool {
	body, _, _ = strings.Cut(body, "data: {\"error\"")
	whole := strings.LastIndex(body, "\n\n") + 2
	if whole == 1 {
		whole = 0
	}
	return strings.HasPrefix(clean, body[:whole]) && strings.HasPrefix(written, body[whole:])
}

// leaveEarly starts a request and leaves somewhere inside it.
func leaveEarly(g *rig) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.front.URL+"/v1/chat/completions", strings.NewReader(streamedChat))
	if err != nil {
		g.t.Error(err)
		return
	}
	if rand.IntN(2) == 0 {
		cancel()
	}
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, res.Body, int64(rand.IntN(500)))
	_ = res.Body.Close()
}
