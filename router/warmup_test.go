package router

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/banyan-llm/banyan/router/fleet"
)

// Requests that come before the models are known wait, also when a probe was
// answered long before the list of models.
func TestTheFirstRequestWaitsForTheModels(t *testing.T) {
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/models" {
			time.Sleep(300 * time.Millisecond) // a busy server
		}
		_, _ = io.WriteString(w, `{"data":[{"id":"m"}],"choices":[{}]}`)
	}))
	defer engine.Close()
	p := runningPeer(t, Source{}, func(c *Config) {
		c.Replicas = []fleet.Spec{{Name: "r", URL: engine.URL, Engine: "sglang"}}
		c.Tokenizer = "text"
	})
	if code := askPeer(t, p); code != http.StatusOK {
		t.Errorf("the first request gets %d", code)
	}
}
