//go:build e2e && e2e_vllm && linux

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// vllm is a real server. Ports are fixed: nobody else is in the namespace.
type vllm struct {
	name   string
	port   int
	folder string
	flags  []string
	env    []string

	cmd  *exec.Cmd
	log  string
	done chan struct{}
	fold *fold

	alone *process // a peer that knows no other server
}

// Tokens a page and pages in all: few, so that evictions come soon.
const vllmPage, vllmPages = 32, 400

// vllmPatience is how long a server may take to come up: 30 processor seconds,
// on machines that others use as well.
const vllmPatience = 8 * time.Minute

func (e *vllm) url() string    { return fmt.Sprintf("http://127.0.0.1:%d", e.port) }
func (e *vllm) events() string { return fmt.Sprintf("tcp://127.0.0.1:%d", e.port+100) }
func (e *vllm) replay() string { return fmt.Sprintf("tcp://127.0.0.1:%d", e.port+200) }

func python(folder string) string { return filepath.Join(folder, "venv", "bin", "python") }

// start starts the server, whose end is that of this test at the latest.
func (e *vllm) start(t *testing.T) {
	t.Helper()
	if os.Getenv("ATTACH") != "" {
		e.done = make(chan struct{})
		close(e.done)
		return
	}
	cache := t.TempDir()
	log, err := os.Create(filepath.Join(cache, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	e.log = log.Name()
	wild := func(endpoint string) string { return strings.Replace(endpoint, "127.0.0.1", "*", 1) }
	events, _ := json.Marshal(map[string]any{
		"enable_kv_cache_events": true, "publisher": "zmq", "endpoint": wild(e.events()), "replay_endpoint": wild(e.replay()),
	})
	e.cmd = exec.Command(python(e.folder), append([]string{
		"-m", "vllm.entrypoints.openai.api_server", "--model", filepath.Join(e.folder, "model"), "--served-model-name", "tiny",
		"--host", "127.0.0.1", "--port", strconv.Itoa(e.port), "--dtype", "bfloat16", "--max-model-len", "8192",
		"--block-size", strconv.Itoa(vllmPage), "--num-gpu-blocks-override", strconv.Itoa(vllmPages),
		"--enforce-eager", "--distributed-executor-backend", "uni", "--max-num-seqs", "32",
		"--enable-lora", "--max-lora-rank", "8", "--lora-modules", "lora=" + filepath.Join(e.folder, "lora"),
		"--chat-template", filepath.Join("testdata", "vllm", "template.jinja"), "--enable-auto-tool-choice", "--tool-call-parser", "hermes",
		"--enable-prompt-tokens-details", "--kv-events-config", string(events),
	}, e.flags...)...)
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "PYTHONDONTWRITEBYTECODE=") { // else each start compiles all anew
			e.cmd.Env = append(e.cmd.Env, v)
		}
	}
	e.cmd.Env = append(
		e.cmd.Env, "PATH="+filepath.Join(e.folder, "venv", "bin")+":"+os.Getenv("PATH"),
		"HF_HUB_OFFLINE=1", "VLLM_NO_USAGE_STATS=1", "VLLM_SERVER_DEV_MODE=1", "VLLM_HOST_IP=127.0.0.1", "VLLM_LOOPBACK_IP=127.0.0.1",
		"GLOO_SOCKET_IFNAME=lo", "VLLM_ENABLE_V1_MULTIPROCESSING=0", "VLLM_ENABLE_RESPONSES_API_STORE=1", "VLLM_CPU_KVCACHE_SPACE=1", "VLLM_CPU_OMP_THREADS_BIND=nobind",
		"OMP_NUM_THREADS=1", "VLLM_CACHE_ROOT="+cache, "VLLM_CONFIG_ROOT="+cache, "XDG_CACHE_HOME="+cache,
	)
	e.cmd.Env = append(e.cmd.Env, e.env...)
	e.cmd.Stdout, e.cmd.Stderr = log, log
	e.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := e.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	e.done = done
	go func(cmd *exec.Cmd) { _ = cmd.Wait(); close(done) }(e.cmd)
	t.Cleanup(e.kill)
	e.guard(t)
}

// guard kills all processes of the server when this one ends in a way that runs
// no cleanup, by a time limit from outside or a panic: the server's end alone
// leaves its engine process running, with a gigabyte of memory.
func (e *vllm) guard(t *testing.T) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	guard := exec.Command("sh", "-c", `cat > /dev/null; kill -9 -"$1"`, "sh", strconv.Itoa(e.cmd.Process.Pid))
	guard.Stdin, guard.SysProcAttr = r, &syscall.SysProcAttr{Setpgid: true}
	if err := guard.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // before kill: the number may be another's later
		_ = guard.Process.Kill()
		_ = guard.Wait()
		w.Close()
	})
}

// kill is SIGKILL for all processes of the server.
func (e *vllm) kill() {
	select {
	case <-e.done: // its number may be another's by now
	default:
		_ = syscall.Kill(-e.cmd.Process.Pid, syscall.SIGKILL)
		<-e.done
	}
}

func (e *vllm) waitHealthy(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(vllmPatience); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		select {
		case <-e.done:
			if os.Getenv("ATTACH") != "" {
				break
			}
			t.Fatalf("%s ended: %s", e.name, tail(e.log))
		default:
		}
		if res, err := http.Get(e.url() + "/health"); err == nil {
			res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return
			}
		}
	}
	t.Fatalf("%s is not up within %v: %s", e.name, vllmPatience, tail(e.log))
}

func tail(path string) string {
	text, _ := os.ReadFile(path)
	return string(text[max(0, len(text)-4000):])
}

// metric is the sum of a metric of the server's over its labels.
func (e *vllm) metric(t *testing.T, name string) (sum float64) {
	t.Helper()
	res, err := http.Get(e.url() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		line := lines.Text()
		if rest, ok := strings.CutPrefix(line, name); ok && (rest[0] == '{' || rest[0] == ' ') {
			v, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			sum += v
		}
	}
	return sum
}

// reset makes the server forget its cache.
func (e *vllm) reset(t *testing.T) {
	t.Helper()
	res, err := http.Post(e.url()+"/reset_prefix_cache", "application/json", nil)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Fatalf("reset: status %d", res.StatusCode)
	}
}

// fold is testdata/vllm/fold.py: it says what an engine holds.
type fold struct {
	in  io.Writer
	out *json.Decoder
}

// held is what an engine holds after its batch Seq.
type held struct {
	Seq, Missed int
	Held        uint64 // blocks
	Kinds       map[string]int
}

// chain is a prompt, and how many of its blocks from the start on are held.
type chain struct {
	Tokens []int
	Held   int
}

func newFold(t *testing.T, folder, replay string) *fold {
	t.Helper()
	cmd := exec.Command(python(folder), filepath.Join("testdata", "vllm", "fold.py"), replay)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return &fold{in: in, out: json.NewDecoder(out)}
}

func (f *fold) ask(t *testing.T, question, answer any) {
	t.Helper()
	line, _ := json.Marshal(question)
	if _, err := f.in.Write(append(line, '\n')); err != nil {
		t.Fatal(err)
	}
	if err := f.out.Decode(answer); err != nil {
		t.Fatal(err)
	}
}

func (f *fold) held(t *testing.T) (h held) {
	t.Helper()
	f.ask(t, map[string]any{"ask": "held"}, &h)
	return h
}

func (f *fold) chains(t *testing.T, n int) []chain {
	t.Helper()
	var out struct{ Chains []chain }
	f.ask(t, map[string]any{"ask": "chains", "n": n}, &out)
	return out.Chains
}
