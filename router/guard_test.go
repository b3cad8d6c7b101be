package router

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/banyan-llm/banyan/router/access"
)

// answerOf sends a request of an operator's.
func answerOf(h http.Handler, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://127.0.0.1"+path, nil))
	return w
}

func TestEveryAdminAnswerHasSecurityHeaders(t *testing.T) {
	h := quietPeer(t, nil).front.adminHandler()
	for _, path := range []string{"/", "/v1/status", "/metrics", "/nothing", "/console/app.js", "/debug/pprof/"} {
		w := answerOf(h, path)
		policy := w.Header().Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'"} {
			if !strings.Contains(policy, want) {
				t.Errorf("%s: policy %q", path, policy)
			}
		}
		if strings.Contains(policy, "unsafe") || w.Header().Get("X-Content-Type-Options") != "nosniff" || w.Header().Get("X-Frame-Options") != "DENY" {
			t.Errorf("%s: headers %v", path, w.Header())
		}
	}
	if w := answerOf(h, "/debug/pprof/cmdline"); w.Code != http.StatusNotFound {
		t.Errorf("the command line, which may hold keys, is shown: %d", w.Code)
	}
}

func TestAnOpenAdminListenerMustBeWanted(t *testing.T) {
	_, line := access.NewKey("ops")
	for listen, open := range map[string]bool{
		"127.0.0.1:8081": false, "localhost:8081": false, "[::1]:8081": false, ":8081": true, "0.0.0.0:8081": true, "10.0.0.1:8081": true, "router-1:8081": true,
	} {
		cfg := DefaultConfig()
		cfg.Mesh.Insecure, cfg.Admin.Listen = true, listen
		if err := cfg.Validate(); (err != nil) != open || open && !strings.Contains(err.Error(), "banyan keygen --admin") {
			t.Errorf("%s: %v", listen, err)
		}
		cfg.Admin.Insecure = true
		if err := cfg.Validate(); err != nil {
			t.Errorf("%s, insecure: %v", listen, err)
		}
		cfg.Admin.Insecure, cfg.Admin.KeysFile = false, fileOf(t, line)
		if err := cfg.Validate(); err != nil {
			t.Errorf("%s with keys: %v", listen, err)
		}
	}
}

func fileOf(t *testing.T, lines ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
