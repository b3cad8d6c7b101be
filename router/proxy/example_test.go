package proxy_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/banyan-llm/banyan/router/proxy"
)

// A router gives the Handler a way to choose and hears how each try ended.
func ExampleHandler() {
	replica := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"choices":[{}],"usage":{"prompt_tokens":12,"completion_tokens":1}}`)
	}))
	defer replica.Close()
	handler, err := proxy.New(proxy.Config{
		Peer: "a",
		Pick: func(_ context.Context, call *proxy.Call) (*proxy.Target, error) {
			if call.Body.Model != "m" {
				return nil, proxy.ErrUnknownModel
			}
			return &proxy.Target{Replica: "r0", URL: replica.URL, Policy: "ttft", Reason: "prefix", Matched: 8}, nil
		},
		Done: func(target *proxy.Target, result proxy.Result) {
			fmt.Println("done:", target.Replica, result.Status, result.Usage.Prompt)
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, model := range []string{"m", "x"} {
		w := httptest.NewRecorder()
		body := strings.NewReader(`{"model":"` + model + `","messages":[]}`)
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/chat/completions", body))
		fmt.Println(w.Code, w.Header().Get("X-Banyan-Replica"), w.Header().Get("X-Banyan-Matched-Tokens"))
	}
	// Output:
	// done: r0 200 12
	// 200 r0 8
	// 404
}
