package router

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/banyan-llm/banyan/router/disagg"
)

func TestSGLangLegsMeetInARoom(t *testing.T) {
	released := make(chan struct{})
	decode := func(w http.ResponseWriter, r *http.Request) {
		says(200, decodeAnswer)(w, r)
	}
	prefill := func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		select { // it ends after the decode leg did, and must not be cancelled then
		case <-released:
			_, _ = io.WriteString(w, leadAnswer)
		case <-r.Context().Done():
		}
	}
	d := newDuo(t, "sglang", prefill, decode, nil)
	if status, replica, answer := d.ask(plainAsk); status != 200 || replica != "decode" || answer != decodeAnswer {
		t.Fatalf("%d %s %s", status, replica, answer)
	}
	close(released)
	d.idle()
	if d.legs(disagg.Answered) != 1 {
		t.Error("the prefill leg did not live to its end")
	}
	calls := d.seen()
	if len(calls) != 2 || calls[0].raw != calls[1].raw {
		t.Fatalf("%+v", calls)
	}
	body := calls[0].raw
	if !strings.HasPrefix(body, strings.TrimSuffix(plainAsk, "}")) || !strings.Contains(body, `"bootstrap_host":"127.0.0.1","bootstrap_port":8998,"bootstrap_room":`) {
		t.Error(body)
	}
	for _, c := range calls {
		if got := c.header.Get("Authorization"); got != "Bearer key-of-"+c.role {
			t.Errorf("%s was sent %q", c.role, got)
		}
	}
}

// TestAFailedSGLangPrefillEndsTheDecodeLeg: which would else wait for it.
func TestAFailedSGLangPrefillEndsTheDecodeLeg(t *testing.T) {
	for name, c := range map[string]struct {
		prefill http.HandlerFunc
		status  int
		outcome disagg.Outcome
	}{
		"500":  {says(500, `{}`), 502, disagg.Failed},
		"dies": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 502, disagg.Failed},
		"breaks": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}, 502, disagg.Failed},
		"refuses": {says(400, `{"error":{}}`), 400, disagg.Refused},
		"hangs":   {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, 502, disagg.Timeout},
	} {
		ended := make(chan struct{}, 8)
		d := newDuo(t, "sglang", c.prefill, func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			ended <- struct{}{}
		}, func(cfg *Config) {
			if cfg.Limits.Retries = 0; c.outcome == disagg.Timeout {
				cfg.Routing.Disagg.Timeout = 200 * time.Millisecond
			}
		})
		if status, _, answer := d.ask(plainAsk); status != c.status {
			t.Errorf("%s: %d %s", name, status, answer)
		}
		d.idle()
		if d.legs(c.outcome) != 1 {
			t.Errorf("%s: not counted as %s", name, c.outcome)
		}
		for _, call := range d.seen() {
			if call.role != "decode" {
				continue
			}
			select {
			case <-ended:
			case <-time.After(20 * time.Second):
				t.Errorf("%s: the decode leg waits on", name)
			}
		}
	}
}

func TestAClientThatLeavesCancelsBothSGLangLegs(t *testing.T) {
	reached, ended := make(chan struct{}, 2), make(chan struct{}, 2)
	hang := func(_ http.ResponseWriter, r *http.Request) {
		reached <- struct{}{}
		<-r.Context().Done()
		ended <- struct{}{}
	}
	d := newDuo(t, "sglang", hang, hang, nil)
	d.askAndLeave(2, reached)
	for range 2 {
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			t.Fatal("a leg ran on")
		}
	}
	d.idle()
	if d.legs(disagg.Left) != 1 {
		t.Error("not counted as left")
	}
}

// TestSGLangServersOfOneRoleDoNotServeAlone: they cannot.
func TestSGLangServersOfOneRoleDoNotServeAlone(t *testing.T) {
	d := newDuo(t, "sglang", says(200, leadAnswer), says(200, decodeAnswer), func(cfg *Config) { cfg.Routing.Disagg.Tokens = 5000 })
	if status, _, _ := d.ask(plainAsk); status != 200 || len(d.seen()) != 2 {
		t.Errorf("a short prompt: %d, %d legs", status, len(d.seen()))
	}
	if status, _, _ := d.ask(`{"model":"m","messages":[],"n":2}`); status != 503 {
		t.Errorf("an unsuitable one: %d", status)
	}
}
