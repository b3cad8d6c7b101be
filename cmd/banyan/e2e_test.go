//go:build e2e

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/banyan-llm/banyan/router/console"
	"github.com/banyan-llm/banyan/simulation/demo"
)

// binary builds bin/banyan once for all end-to-end tests.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "banyan-e2e-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "banyan")
	cmd := exec.Command("go", "build", "-trimpath", "-o", path, ".") // as make build, whose packages are there
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w: %s", err, out)
	}
	return path, nil
})

// process is a running banyan.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	began time.Time
	admin adminClient // one, for its connection is kept
	said  map[string]string
	errs  *logBuffer
	ended time.Time // written before done
	done  chan error
}

// logBuffer is what a process wrote so far, also while it runs.
type logBuffer struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// launch starts banyan and waits for the line that says where it listens.
func launch(t *testing.T, args ...string) *process {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	return launchCommand(t, exec.Command(path, args...))
}

// launchCommand is launch for a command that ends up as banyan.
func launchCommand(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{t: t, cmd: cmd, began: time.Now(), said: map[string]string{}, errs: &logBuffer{}, done: make(chan error, 1)}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Stderr = p.errs
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	for word := range strings.FieldsSeq(line) {
		if k, v, ok := strings.Cut(word, "="); ok {
			p.said[k] = v
		}
	}
	p.admin.peer = p.said["admin"]
	go func() {
		_, _ = io.Copy(io.Discard, out)
		err := p.cmd.Wait()
		p.ended = time.Now()
		p.done <- err
	}()
	t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	if err != nil {
		t.Fatalf("%v said nothing: %v: %s", cmd.Args, err, p.errs)
	}
	return p
}

// stop sends SIGTERM and expects a clean end.
func (p *process) stop() {
	p.t.Helper()
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case err := <-p.done:
		if err != nil {
			p.t.Errorf("ended with %v: %s", err, p.errs)
		}
	case <-time.After(patience):
		p.t.Errorf("did not end within %v: %s", patience, p.errs)
		_ = p.cmd.Process.Kill()
	}
}

func replicaProcess(t *testing.T, name string, args ...string) *process {
	return launch(t, append([]string{
		"replica", "--name", name, "--listen", "127.0.0.1:0", "--events", "tcp://127.0.0.1:0", "--replay", "tcp://127.0.0.1:0", "--model", "m",
	}, args...)...)
}

// meshOf starts n peers in front of the replicas and waits until all are ready
// and see each other.
func meshOf(t *testing.T, n int, replicas ...*process) []*process {
	t.Helper()
	return meshWith(t, n, "", replicas...)
}

// meshWith is meshOf with more lines of configuration.
func meshWith(t *testing.T, n int, more string, replicas ...*process) []*process {
	t.Helper()
	var cfg strings.Builder
	cfg.WriteString(more)
	cfg.WriteString("mesh: {insecure: true}\ndrain: {delay: 300ms, timeout: 5s}\nreplicas:\n")
	for i, r := range replicas {
		fmt.Fprintf(&cfg, "- {name: r%d, url: %q, events: %q, replay: %q}\n", i, "http://"+r.said["http"], r.said["events"], r.said["replay"])
	}
	return meshFrom(t, n, cfg.String())
}

// tokenizeLimit is how long peers wait for an engine's token ids. By default
// they go on without, which sends a prompt away from what is cached, sooner
// than a busy machine may answer.
const tokenizeLimit = 20 * time.Second

// meshFrom starts n peers with one configuration and waits until all are ready
// and see each other.
func meshFrom(t *testing.T, n int, config string) []*process {
	t.Helper()
	path := writeFile(t, config)
	var peers []*process
	for i := range n {
		args := []string{
			"serve", "--config", path, "--mesh.name", fmt.Sprintf("p%d", i), "--http.listen", "127.0.0.1:0",
			"--admin.listen", "127.0.0.1:0", "--mesh.bind", "127.0.0.1:0", "--limits.tokenize", tokenizeLimit.String(),
		}
		if i > 0 {
			args = append(args, "--mesh.join", peers[0].said["mesh"])
		}
		peers = append(peers, launch(t, args...))
	}
	eventually(t, "all peers are ready and see each other", func() bool {
		for _, p := range peers {
			if st := p.status(); st == nil || !st.Ready || len(st.Peers) != n {
				return false
			}
		}
		return true
	})
	return peers
}

func (p *process) status() *console.Status {
	st, _, err := fetchStatus(context.Background(), &p.admin)
	if err != nil {
		return nil
	}
	return st
}

// patience is how long tests wait for what must come; a busy machine is slow.
const patience = time.Minute

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("not within %v: %s", patience, what)
}

// calm waits until nothing is in flight and every peer knows as much as the
// others: what follows is decided by what is cached where, at every peer alike.
func calm(t *testing.T, peers []*process) {
	t.Helper()
	var seen []console.Tree
	eventually(t, "all peers know the same of idle replicas", func() bool {
		seen = seen[:0]
		for _, p := range peers {
			st := p.status()
			if st == nil || slices.ContainsFunc(st.Replicas, func(r console.Replica) bool { return r.Inflight > 0 }) {
				return false
			}
			seen = append(seen, st.Tree)
		}
		differs := func(tree console.Tree) bool {
			return tree.Facts != seen[0].Facts || tree.Predicted != seen[0].Predicted
		}
		return !slices.ContainsFunc(seen, differs) && converged(peers)
	})
}

// converged reports whether all peers hold equal digests of every stream.
func converged(peers []*process) bool {
	var first *console.Status
	for _, p := range peers {
		st := p.status()
		if st == nil {
			return false
		}
		if first == nil {
			first = st
			continue
		}
		if len(st.Replicas) != len(first.Replicas) {
			return false
		}
		for i, r := range st.Replicas {
			if r.Stream.Digest != first.Replicas[i].Stream.Digest {
				return false
			}
		}
	}
	return true
}

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// say sends one chat turn through a peer.
func (p *process) say(messages []message) (replica, reply string, cached int) {
	p.t.Helper()
	body, _ := json.Marshal(map[string]any{"model": "m", "messages": messages, "max_tokens": 20})
	res, err := http.Post("http://"+p.said["http"]+"/v1/chat/completions", "application/json", bytes.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	defer res.Body.Close()
	var out struct {
		Choices []struct{ Message message }
		Usage   struct {
			Details struct {
				Cached int `json:"cached_tokens"`
			} `json:"prompt_tokens_details"`
		}
	}
	if err := json.NewDecoder(res.Body).Decode(&out); err != nil || res.StatusCode != http.StatusOK || len(out.Choices) != 1 {
		p.t.Fatalf("status %d, %v", res.StatusCode, err)
	}
	return res.Header.Get("X-Banyan-Replica"), out.Choices[0].Message.Content, out.Usage.Details.Cached
}

func TestAConversationStaysOnItsReplicaWhateverThePeer(t *testing.T) {
	converse(t, meshOf(t, 3, replicaProcess(t, "r0"), replicaProcess(t, "r1", "--layout", "array", "--replay-frames", "4")))
}

// Text keys know nothing of the engines' events: what the peers tell each other
// of their own traffic must do.
func TestAConversationStaysOnItsReplicaInTextMode(t *testing.T) {
	converse(t, meshWith(t, 3, "tokenizer: text\n", replicaProcess(t, "r0"), replicaProcess(t, "r1")))
}

func converse(t *testing.T, peers []*process) {
	t.Helper()
	for c := range 4 {
		talk := []message{{"system", strings.Repeat(fmt.Sprintf("Conversation %d wants care. ", c), 40)}, {"user", "Hello."}}
		home := ""
		for turn := range 5 {
			replica, reply, cached := peers[(c+turn)%3].say(talk)
			if turn == 0 {
				home = replica
			} else if replica != home || cached == 0 {
				t.Errorf("conversation %d turn %d went to %s with %d cached tokens, home is %s", c, turn, replica, cached, home)
			}
			talk = append(talk, message{"assistant", reply}, message{"user", fmt.Sprintf("And then, %d?", turn)})
			calm(t, peers)
		}
	}
	eventually(t, "all digests are equal", func() bool { return converged(peers) })
	for _, p := range peers {
		p.stop()
	}
}

func TestAKilledPeerIsReplacedFromWhatTheOthersKnow(t *testing.T) {
	r := replicaProcess(t, "r0", "--hide-event-sources")
	peers := meshOf(t, 2, r)
	talk := []message{{"system", strings.Repeat("Long and shared. ", 100)}, {"user", "Hello."}}
	peers[0].say(talk)
	eventually(t, "facts reach both peers", func() bool {
		a, b := peers[0].status(), peers[1].status()
		return a != nil && b != nil && a.Tree.Facts > 0 && a.Tree.Facts == b.Tree.Facts
	})
	_ = peers[1].cmd.Process.Kill()
	fresh := launch(t, "serve", "--insecure-mesh", "--mesh.name", "fresh", "--http.listen", "127.0.0.1:0", "--admin.listen", "127.0.0.1:0",
		"--mesh.bind", "127.0.0.1:0", "--mesh.join", peers[0].said["mesh"], "--drain.delay", "100ms",
		"--replicas", fmt.Sprintf("[{name: r0, url: 'http://%s'}]", r.said["http"])) // no events endpoint: it can only learn from peers
	eventually(t, "the fresh peer knows what its peer knows", func() bool {
		a, b := peers[0].status(), fresh.status() // the last events may come late
		return a != nil && b != nil && b.Ready && b.Tree.Facts > 0 && a.Tree.Facts == b.Tree.Facts
	})
	if _, _, cached := fresh.say(talk); cached == 0 {
		t.Error("the fresh peer found nothing cached")
	}
	fresh.stop()
	peers[0].stop()
}

func TestDemoHolds(t *testing.T) {
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(path, "demo", "--json", "--requests", "600").Output()
	if err != nil {
		t.Fatalf("demo: %v\n%s", err, out)
	}
	var r demo.Report
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatal(err)
	}
	if !r.Converged || r.Failed != 0 || r.DivergentStreams != 0 || r.JoinedPeer.Facts == 0 || len(r.Policies) != 3 {
		t.Errorf("%+v", r)
	}
}
