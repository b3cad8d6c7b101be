package client

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/banyan-llm/banyan/simulation/workload"
)

func TestClientReadsAStreamAndMeasuresIt(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Banyan-Peer", "p")
		fmt.Fprint(w, "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\"}}]}\n\n: keep-alive\n\n"+
			"data: {\"choices\":[{\"delta\":{\"content\":\"he\"}}]}\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"llo\"}}]}\n\n"+
			"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"prompt_tokens_details\":{\"cached_tokens\":8}}}\n\ndata: [DONE]\n\n")
	}))
	defer srv.Close()
	a := New(srv.URL, true).Ask(t.Context(), "/v1/chat/completions", []byte("{}"), http.Header{})
	if a.Err != nil || a.Text != "hello" || a.Prompt != 9 || a.Cached != 8 || a.Peer != "p" || a.TTFT <= 0 || a.Retried {
		t.Errorf("%+v", a)
	}
}

func TestACutStreamIsAFailureThatIsNotRetried(t *testing.T) {
	calls := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls++
		fmt.Fprint(w, "data: {\"choices\":[{\"delta\":{\"content\":\"he\"}}]}\n\n")
	}))
	defer srv.Close()
	a := New(srv.URL, true).Ask(t.Context(), "/", nil, http.Header{})
	if !errors.Is(a.Err, io.ErrUnexpectedEOF) || !a.Began || calls != 1 {
		t.Errorf("%+v after %d calls", a, calls)
	}
}

func TestAnErrorBeforeTheFirstByteIsRetriedOnce(t *testing.T) {
	calls := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls++
		http.Error(w, "busy", http.StatusServiceUnavailable)
	}))
	defer srv.Close()
	a := New(srv.URL, true).Ask(t.Context(), "/", nil, http.Header{})
	if a.Err == nil || !a.Retried || calls != 2 {
		t.Errorf("%+v after %d calls", a, calls)
	}
}

// answering is a server that writes one body with one status.
func answering(t *testing.T, status int, body string) *Client {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}))
	t.Cleanup(srv.Close)
	return New(srv.URL, true)
}

func TestL2EveryFailureHasItsCause(t *testing.T) {
	for _, c := range []struct {
		status int
		body   string
		want   Cause
	}{
		{200, "data: [DONE]\n\n", ""},
		{200, "data:[DONE]\n\n", ""},
		{200, "", CauseCut},
		{200, "data: {]\n\n", CauseBad},
		{200, "data: " + strings.Repeat("x", maxLine+1), CauseBad},
		{200, `data: {"error":{"message":"no"}}` + "\n\n", CauseError},
		{204, "", CauseStatus},
		{404, "no", CauseClient},
		{429, "later", CauseClient},
		{503, "down", CauseServer},
	} {
		a := answering(t, c.status, c.body).Once(t.Context(), "/", nil, nil)
		if a.Cause != c.want || (a.Err == nil) != (c.want == "") {
			t.Errorf("L2: %d %.20q: cause %q (%v), want %q", c.status, c.body, a.Cause, a.Err, c.want)
		}
	}
	gone := New("http://127.0.0.1:1", true)
	if a := gone.Once(t.Context(), "/", nil, nil); a.Cause != CauseConnect {
		t.Errorf("L2: nobody there: %q (%v)", a.Cause, a.Err)
	}
}

func TestL2ASilentServerTimesOut(t *testing.T) {
	release := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "data: {\"choices\":[{\"text\":\"a\"}]}\n\n")
		w.(http.Flusher).Flush()
		<-release
	}))
	defer srv.Close()
	defer close(release)
	c := New(srv.URL, true)
	c.Timeout = 50 * time.Millisecond
	if a := c.Once(t.Context(), "/", nil, nil); a.Cause != CauseTimeout {
		t.Errorf("L2: %q (%v)", a.Cause, a.Err)
	}
}

func TestTheFirstModelIsTaken(t *testing.T) {
	if got, err := answering(t, 200, `{"data":[{"id":"m1","max_model_len":7},{"id":"m2"}]}`).Models(t.Context()); err != nil || len(got) != 2 || got[0] != (Listed{"m1", 7}) {
		t.Errorf("%+v, %v", got, err)
	}
	for _, body := range []string{`{"data":[]}`, `[]`, ``} {
		if got, err := answering(t, 200, body).Models(t.Context()); err == nil {
			t.Errorf("%+v gave %+v", body, got)
		}
	}
}

func TestURLsMayEndInV1(t *testing.T) {
	for _, url := range []string{"http://h:1", "http://h:1/", "http://h:1/v1", "http://h:1/v1/"} {
		if c := New(url, false); c.URL != "http://h:1" {
			t.Errorf("%s became %s", url, c.URL)
		}
	}
}

func TestLaterTurnsCarryTheRealAnswer(t *testing.T) {
	w, err := workload.Generate("multi_turn", workload.Options{Seed: 1, Requests: 20})
	if err != nil {
		t.Fatal(err)
	}
	writer := Writer{Model: "m"}
	for i := range w.Requests {
		if r := &w.Requests[i]; r.After < 0 {
			writer.Remember(r, "the very answer")
			continue
		}
		path, body, err := writer.Body(&w.Requests[i])
		if err != nil || path != "/v1/chat/completions" {
			t.Fatalf("%s, %v", path, err)
		}
		if w.Requests[i].Turn == 1 && !strings.Contains(string(body), `{"role":"assistant","content":"the very answer"}`) {
			t.Errorf("the second turn does not carry the first answer: %.300s", body)
		}
	}
}

func FuzzAnswer(f *testing.F) {
	f.Add("data: {\"choices\":[{\"delta\":{\"content\":\"he\"}}]}\n\ndata: [DONE]\n\n")
	f.Add("data: {\"usage\":{\"prompt_tokens\":-5,\"prompt_tokens_details\":{\"cached_tokens\":1e9}}}\n")
	f.Add(": ping\n\ndata: null\n\ndata: []\n")
	f.Fuzz(func(t *testing.T, stream string) {
		var a Answer
		cause, err := a.read(strings.NewReader(stream), time.Now())
		if (err == nil) != (cause == "") || err == nil && !strings.Contains(stream, "[DONE]") {
			t.Errorf("L1: cause %q, %v", cause, err)
		}
		if a.Prompt < 0 || a.Cached < 0 || a.Output < 0 || len(a.Text) > len(stream)*4 {
			t.Errorf("L3: %+v", a)
		}
	})
}
