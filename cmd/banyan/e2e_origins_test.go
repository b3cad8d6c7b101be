//go:build e2e

package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestAPageOfAnotherOriginMayCall: a web app calls the API from a browser,
// without and with a key, reads the router's own refusals, and finds the headers
// that say which request it was. A page that is not listed reads nothing.
func TestAPageOfAnotherOriginMayCall(t *testing.T) {
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<!doctype html><link rel=icon href=data:,><title>app</title>")
	}))
	defer app.Close()
	const key = "bk-UVanJekOflaonfIXzUk6a6Wei_QjVR0AC8T0DbOmet8"
	keys := fmt.Sprintf("auth: {keys_file: %q}\n", writeFile(t, fmt.Sprintf("app:%x\n", sha256.Sum256([]byte(key)))))
	r := replicaProcess(t, "r0")
	b := startBrowser(t)
	for _, c := range []struct {
		name, config, key string
		status            int // of the chat; 0: the browser keeps it from the page
	}{
		{"any origin, no keys", "http: {allowed_origins: ['*']}\n", "", 200},
		{"this origin, no keys", "http: {allowed_origins: [" + app.URL + "]}\n", "", 200},
		{"any origin, a key", "http: {allowed_origins: ['*']}\n" + keys, key, 200},
		{"any origin, a wrong key", "http: {allowed_origins: ['*']}\n" + keys, "wrong", 401},
		{"another origin", "http: {allowed_origins: ['https://app.example.com']}\n", "", 0},
		{"by default", "", "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := meshWith(t, 1, c.config, r)[0]
			tab := b.open(t, app.URL)
			var got struct {
				Status     int
				ID, Models string
				Text       string
			}
			url, _ := json.Marshal("http://" + p.said["http"])
			auth, _ := json.Marshal(c.key)
			tab.eval(`(async () => {
				const headers = {"content-type": "application/json"};
				if (`+string(auth)+`) headers.authorization = "Bearer " + `+string(auth)+`;
				const body = JSON.stringify({model: "m", stream: true, messages: [{role: "user", content: "hello"}], max_tokens: 2});
				try {
					const models = await (await fetch(`+string(url)+` + "/v1/models", {headers})).text();
					const res = await fetch(`+string(url)+` + "/v1/chat/completions", {method: "POST", headers, body});
					return {Status: res.status, ID: res.headers.get("x-request-id") ?? "", Text: await res.text(), Models: models};
				} catch (e) { return {Status: 0, Text: String(e)}; }
			})()`, &got)
			if got.Status != c.status || c.status != 0 && got.ID == "" || c.status == 200 && (!strings.Contains(got.Text, "[DONE]") || !strings.Contains(got.Models, `"m"`)) {
				t.Errorf("the page got %+v, want status %d", got, c.status)
			}
		})
	}
}
