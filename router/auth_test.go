package router

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func keysFile(t *testing.T, lines ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestOnlyKnownKeysPassAndAreTakenOff(t *testing.T) {
	key, line := NewClientKey("team:a")
	k, err := openKeys(keysFile(t, "# clients", "", line))
	if err != nil {
		t.Fatal(err)
	}
	var reached http.Header
	h := k.guard(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { reached = r.Header.Clone() }))
	for header, want := range map[string]int{
		"Bearer " + key: 200, "Bearer " + key + "x": 401, "Bearer ": 401, "": 401, "Basic " + key: 401, key: 401,
		"Bearer " + line[strings.LastIndexByte(line, ':')+1:]: 401, // a leaked hash is no key
	} {
		reached = nil
		r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", nil)
		r.Header.Set("Authorization", header)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != want || (reached != nil) != (want == 200) {
			t.Errorf("%q: %d, want %d", header, w.Code, want)
		}
		if reached.Get("Authorization") != "" {
			t.Error("the router's key reached the data path")
		}
		if want == 401 && !strings.Contains(w.Body.String(), `"code":"invalid_api_key"`) {
			t.Errorf("body %s", w.Body)
		}
	}
}

func TestChangedKeysAreTakenUpAndBrokenOnesAreNot(t *testing.T) {
	key, line := NewClientKey("a")
	path := keysFile(t, line)
	k, err := openKeys(path)
	if err != nil {
		t.Fatal(err)
	}
	other, otherLine := NewClientKey("b")
	write := func(text string, at time.Time) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	write(otherLine, time.Now().Add(time.Minute))
	if changed, err := k.reload(); !changed || err != nil || k.name(other) != "b" || k.name(key) != "" {
		t.Fatalf("changed %v, err %v", changed, err)
	}
	write("b:nothex", time.Now().Add(2*time.Minute))
	if _, err := k.reload(); err == nil || k.name(other) != "b" {
		t.Errorf("err %v: a broken file must change nothing", err)
	}
}

func TestKeyFileFaultsNameTheLine(t *testing.T) {
	for _, bad := range []string{"nocolon", ":abc", "a:zz", "a:" + strings.Repeat("0", 63)} {
		if _, err := parseKeys([]byte("# ok\n" + bad)); err == nil || !strings.Contains(err.Error(), "line 2") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
