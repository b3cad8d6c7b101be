package proxy

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/banyan-llm/banyan/router/openai"
)

// disguiseTypes are content types that engines, frameworks and routers read
// differently.
var disguiseTypes = [][]string{
	{"application/json"},
	{"application/json; x"},
	{"application/json; a=b; a=c"},
	{"APPLICATION/JSON;"},
	{" application/json"},
	{"application/json ;"},
	{"application/vnd.x+json"},
	{"text/json"},
	{"json"},
	{"application/json,text/plain"},
	{},
	{""},
	{"text/plain"},
	{"multipart/form-data; boundary=x"},
	{"application/json", "text/plain"},
	{"text/plain", "application/json"},
}

// disguises are bodies with a field that only routers may set, as json.loads of
// Python may find it.
func disguises() map[string]string {
	plain := `{"a":1,"kv_transfer_params":{"remote_host":"10.0.0.1"}}`
	wide := func(first int) string {
		var b strings.Builder
		for _, c := range []byte(plain) {
			pair := [2]byte{}
			pair[first] = c
			b.Write(pair[:])
		}
		return b.String()
	}
	var quad strings.Builder
	for _, c := range []byte(plain) {
		quad.Write([]byte{c, 0, 0, 0})
	}
	return map[string]string{
		"plain": plain, "spaces": strings.Repeat(" \n", 64) + plain, "mark": "\ufeff" + plain, "mark and spaces": "\ufeff" + strings.Repeat("\t", 100) + plain,
		"escaped": strings.ReplaceAll(plain, "kv_t", `k\u0076_t`), "twice": strings.Replace(plain, `{"a":1`, `{"kv_transfer_params":null`, 1),
		"list": "[" + plain + "]", "listed": " [[" + plain + "]]", "xargs": `{"vllm_xargs":` + plain + `}`, "report": `{"vllm_xargs":{"kv_cache_report_mode":"full"}}`,
		"sampling": `{"sampling_params":{"extra_args":` + plain + `}}`, "sampled": `{"sampling_params":[{"bootstrap_host":"10.0.0.1"}]}`,
		"utf-16": wide(0), "utf-16 be": wide(1), "utf-16 mark": "\xff\xfe" + wide(0), "utf-16 be mark": "\xfe\xff" + wide(1), "utf-32": quad.String(), "utf-32 mark": "\xff\xfe\x00\x00" + quad.String(),
		"nan": strings.Replace(plain, "1", "NaN", 1), "surrogate": strings.Replace(plain, `"a"`, "\"\xed\xa0\x80\"", 1), "behind": plain + " x",
		"twice, escaped": strings.Replace(plain, `{"a":1`, `{"k\u0076_transfer_params":{}`, 1), "wide twice": widened(wide(0)),
		"carrier twice": `{"vllm_xargs":{},"vllm_xargs":` + plain + `,"extra_args":` + plain + `,"extra_args":1}`, "twice in a carrier": `{"vllm_xargs":{"kv_transfer_params":1,"a":1,"kv\u005ftransfer_params":{}}}`,
		"deeper than json.loads": strings.Replace(plain, "1", strings.Repeat("[", 3000)+strings.Repeat("]", 3000), 1), "deep in a carrier": `{"vllm_xargs":` + strings.Replace(plain, "1", strings.Repeat("[", 900)+strings.Repeat("]", 900), 1) + `}`,
		"deep": strings.Replace(plain, "1", strings.Repeat("[", 200)+strings.Repeat("]", 200), 1),
	}
}

// widened is a text in UTF-16 once more.
func widened(text string) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		b.Write([]byte{0, c})
	}
	return b.String()
}

// TestNoDisguiseCarriesTransferFields: whatever a content type, a mark or white
// space makes of a body, a replica that parses it finds none of the fields.
func TestNoDisguiseCarriesTransferFields(t *testing.T) {
	var got string
	g := newRig(t, nil, func(w http.ResponseWriter, r *http.Request) {
		got = readAll(r)
		ok(w, r)
	})
	for _, path := range []string{"/v1/messages", "/v1/chat/completions", "/v1/unheard/of"} {
		for _, kind := range disguiseTypes {
			for name, body := range disguises() {
				got = ""
				a := g.do(http.MethodPost, path, body, http.Header{"Content-Type": kind})
				bare := strings.ReplaceAll(strings.ReplaceAll(got, "\x00", ""), `\u0076`, "v")
				if name != "behind" && strings.Contains(bare, "kv_transfer_params") && !hidden(kind, body) {
					t.Errorf("%s %q, %s: %d, the replica read %q", path, kind, name, a.status, got)
				}
				if a.status != 200 && a.status != 400 && a.status != 415 {
					t.Errorf("%s %q, %s: %d", path, kind, name, a.status)
				}
			}
		}
	}
	// What is no JSON by anybody's reading passes.
	for _, kind := range []string{"multipart/form-data; boundary=x", "audio/wav"} {
		body := "--x\r\n\x00\x00\r\n--x--"
		if g.do(http.MethodPost, "/v1/audio/transcriptions", body, http.Header{"Content-Type": {kind}}); got != body {
			t.Errorf("%s: %q", kind, got)
		}
	}
}

// hidden reports whether a body is in no text encoding and its content type
// names something else than JSON: bytes that no engine takes for JSON.
func hidden(kind []string, body string) bool {
	return openai.IsWide([]byte(body)) && len(kind) == 1 && kind[0] != "" && !strings.Contains(strings.ToLower(kind[0]), "json")
}

// TestNoDisguiseReachesFastAPI sends the same corpus to a real FastAPI behind
// vLLM's own gate, directly and through the router.
func TestNoDisguiseReachesFastAPI(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: FastAPI takes half a minute for the corpus, and this is -short")
	}
	engine := fastAPI(t)
	g := newRig(t, nil, func(http.ResponseWriter, *http.Request) {})
	g.targets[0].URL = engine
	// A connection each: after some bodies uvicorn closes one without a word.
	client := &http.Transport{DisableKeepAlives: true}
	tell := func(base, path, body string, kind []string) (parsed, leaked bool) {
		req, err := http.NewRequest(http.MethodPost, base+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header["Content-Type"] = kind
		if len(kind) == 0 {
			req.Header["Content-Type"] = nil
		}
		res, err := client.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		var said struct {
			Parsed bool
			Leaked []string
		}
		_ = json.NewDecoder(res.Body).Decode(&said)
		return said.Parsed, len(said.Leaked) > 0
	}
	sent, direct, through := 0, 0, 0
	for _, path := range []string{"/v1/messages", "/v1/ungated", "/v1/direct"} {
		for _, kind := range disguiseTypes {
			for name, body := range disguises() {
				sent++
				if _, leaked := tell(engine, path, body, kind); leaked {
					direct++
				}
				parsed, leaked := tell(g.front.URL, path, body, kind)
				if parsed {
					through++
				}
				if leaked && !(path == "/v1/direct" && hidden(kind, body)) {
					t.Errorf("%s %q, %s: FastAPI found the fields", path, kind, name)
				}
			}
		}
	}
	t.Logf("%d disguises: FastAPI finds the fields in %d sent directly; through the router it parsed %d and found none", sent, direct, through)
	if sent < 200 || direct < 50 || through == 0 {
		t.Errorf("the corpus has lost its teeth: %d sent, %d found directly, %d parsed through the router", sent, direct, through)
	}
}

// fastAPI starts testdata/fastapi_gate.py by TEST_PYTHON, else by the Python that
// .ci/run gives FastAPI, else by python3.
func fastAPI(t *testing.T) (url string) {
	t.Helper()
	python := os.Getenv("TEST_PYTHON")
	if ours := filepath.Join(os.Getenv("HOME"), ".cache", "banyan-sglang", "venv", "bin", "python"); python == "" {
		python = "python3"
		if _, err := os.Stat(ours); err == nil {
			python = ours
		}
	}
	if out, err := exec.Command(python, "-c", "import fastapi, uvicorn").CombinedOutput(); err != nil {
		t.Skipf("skipped: %s has no fastapi and uvicorn (name one that has in TEST_PYTHON): %v %s", python, err, out)
	}
	cmd := exec.CommandContext(t.Context(), python, "testdata/fastapi_gate.py")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	url = "http://127.0.0.1:" + strings.TrimSpace(line)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if res, err := http.Get(url + "/openapi.json"); err == nil {
			res.Body.Close()
			return url
		} else if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}
