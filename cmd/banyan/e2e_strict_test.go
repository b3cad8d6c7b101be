//go:build e2e

package main

import (
	"net/http"
	"strings"
	"testing"
)

// TestAdviceFailsAStrictCheck: what works and could work better is no trouble,
// but scripts that want all of it can ask for that. An engine without events is
// not called exactly routed, and one that tells no cached tokens is noticed.
func TestAdviceFailsAStrictCheck(t *testing.T) {
	whole := meshOf(t, 1, replicaProcess(t, "r0"))[0]
	eventually(t, "nothing is to be advised", func() bool {
		text, code := whole.check("--strict")
		return code == exitOK && strings.Contains(text, "exact routing: on for every model with events")
	})

	r := replicaProcess(t, "r0", "--events", "", "--replay", "", "--hide-cached-tokens")
	p := meshFrom(t, 1, "mesh: {insecure: true}\ndrain: {delay: 300ms, timeout: 5s}\nreplicas: [{name: r0, url: 'http://"+r.said["http"]+"'}]\n")[0]
	eventually(t, "the engine is known to have no events", func() bool {
		text, code := p.check()
		return code == exitOK && strings.Contains(text, "r0 announces no cache events")
	})
	if text, code := p.check("--strict"); code != exitFailed || strings.Contains(text, "all is well") || strings.Contains(text, "exact routing: on") || !strings.Contains(text, "1 piece of advice") {
		t.Errorf("exit code %d:\n%s", code, text)
	}

	const cure = "--enable-prompt-tokens-details"
	if text, _ := p.check(); strings.Contains(text, cure) {
		t.Errorf("nothing was answered yet:\n%s", text)
	}
	body := `{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("The same long prompt. ", 60) + `"}],"max_tokens":2}`
	for range 20 {
		res, err := http.Post("http://"+p.said["http"]+"/v1/chat/completions", "application/json", strings.NewReader(body))
		if err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("%v %v", res, err)
		}
		res.Body.Close()
	}
	eventually(t, "the missing option is named", func() bool {
		text, code := p.check()
		return code == exitOK && strings.Contains(text, cure)
	})
	if text, code := p.check("--strict"); code != exitFailed || !strings.Contains(text, "2 pieces of advice") {
		t.Errorf("exit code %d:\n%s", code, text)
	}
}
