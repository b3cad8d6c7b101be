//go:build e2e && e2e_vllm && linux

package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// folderVariable names the folder that testdata/vllm/install.sh made. Peers
// refuse variables they do not know, so the test takes it out of its own
// environment.
const folderVariable = "BANYAN_VLLM"

// insideVariable tells a test that it runs in a network namespace of its own.
const insideVariable = "E2E_VLLM_INSIDE"

// TestVLLM puts peers before two real vLLM servers, one of which was started
// with --enable-scale-out, and holds that the mesh knows what they know.
//
// vLLM publishes events only at endpoints such as tcp://*:5557, which the whole
// network could reach. So everything runs in a network namespace that has
// nothing but loopback: the test starts itself again inside of one.
func TestVLLM(t *testing.T) {
	folder := os.Getenv(folderVariable)
	os.Unsetenv(folderVariable)
	if os.Getenv(insideVariable) == "" {
		again(t, folder)
		return
	}
	os.Unsetenv(insideVariable)
	lookup(t, "ip")
	if out, err := exec.Command("ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
		t.Fatalf("loopback of the namespace: %v: %s", err, out)
	}
	w := newVLLMWorld(t, folder)
	defer w.writeTable(t)
	t.Run("matched", w.matched)
	t.Run("answers", w.answers)
	t.Run("facts", w.facts)
	t.Run("disconnects", w.disconnects)
	t.Run("sources", w.sources)
	if !testing.Short() {
		t.Run("ttft", w.ttft)
		t.Run("restart", w.restart)
		t.Run("pooling", w.pooling)
	}
	t.Run("streams", w.streams) // it kills a server
	t.Run("dying", w.dying)     // and this one both
	t.Run("ranks", w.ranks)
}

// again runs this test in a new network namespace, as root of a new user
// namespace where this process may not make one. What it starts ends with it.
func again(t *testing.T, folder string) {
	if folder == "" {
		t.Skipf("skipped: %s names no folder with a vLLM (make e2e-vllm says why)", folderVariable)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	flags := []string{"-test.v", "-test.run=" + flag.Lookup("test.run").Value.String(), "-test.timeout=" + flag.Lookup("test.timeout").Value.String()}
	if testing.Short() {
		flags = append(flags, "-test.short")
	}
	cmd := exec.Command(self, flags...)
	cmd.Env = append(os.Environ(), folderVariable+"="+folder, insideVariable+"=1")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if uid := os.Getuid(); uid != 0 {
		cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: uid, Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	runtime.LockOSThread() // the signal comes when this thread ends
	defer runtime.UnlockOSThread()
	err = cmd.Start()
	if errors.Is(err, os.ErrPermission) || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EINVAL) {
		t.Skipf("skipped: network namespaces are not allowed here: %v", err)
	}
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil {
		t.Fatalf("in the namespace: %v", err)
	}
}

// vllmWorld is two real servers, an independent reader of the events of each, a
// mesh before both, and a peer before each alone.
type vllmWorld struct {
	t       *testing.T
	open    *vllm // started with --enable-scale-out
	closed  *vllm
	engines []*vllm
	peers   []*process
	rows    [][]string // of the table of matched and cached tokens
	serial  int        // makes prompts differ
}

func newVLLMWorld(t *testing.T, folder string) *vllmWorld {
	w := &vllmWorld{
		t: t, open: &vllm{name: "open", port: 21101, folder: folder, flags: []string{"--enable-scale-out", "--scheduling-policy", "priority"}},
		closed: &vllm{name: "closed", port: 21102, folder: folder},
	}
	w.engines = []*vllm{w.open, w.closed}
	for _, e := range w.engines {
		e.start(t)
	}
	for _, e := range w.engines {
		e.waitHealthy(t)
		e.fold = newFold(t, folder, e.replay())
	}
	w.peers = meshFrom(t, 2, w.config())
	for _, e := range w.engines {
		e.alone = launch(t, append([]string{
			"serve", "--insecure-mesh", "--mesh.name", "only-" + e.name, "--drain.delay", "100ms", "--limits.continue_streams",
			"--replicas", fmt.Sprintf("[{name: %s, url: %q, events: %q, replay: %q}]", e.name, e.url(), e.events(), e.replay()),
		}, anyPorts...)...)
	}
	w.settle(t, "at first")
	return w
}

// config is that of all peers. Where the events of the closed server are, it
// tells itself.
func (w *vllmWorld) config() string {
	var b strings.Builder
	b.WriteString("mesh: {insecure: true}\nhttp: {policy_override: true}\ndrain: {delay: 300ms, timeout: 5s}\nlimits: {continue_streams: true}\nreplicas:\n")
	fmt.Fprintf(&b, "- {name: %s, url: %q, events: %q, replay: %q, priority: lower-first}\n", w.open.name, w.open.url(), w.open.events(), w.open.replay())
	fmt.Fprintf(&b, "- {name: %s, url: %q}\n", w.closed.name, w.closed.url())
	return b.String()
}

// text is a prompt of some n words that no other prompt begins like.
func (w *vllmWorld) text(n int) string {
	w.serial++
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%d words of story %d go on, ", i, w.serial)
	}
	return b.String()
}

// settle waits until all peers hold exactly what the engines say they hold, no
// batch missing, under equal digests, three times in a row while the engines
// publish nothing.
func (w *vllmWorld) settle(t *testing.T, when string) {
	t.Helper()
	why, same, last := "", 0, map[string]int{}
	wait(t, "peers hold what the engines hold "+when, &why, func() bool {
		why = ""
		for _, e := range w.engines {
			held := e.fold.held(t)
			if held.Seq != last[e.name] {
				why = "the engine still publishes"
			}
			last[e.name] = held.Seq
			digests := map[string]bool{}
			for _, p := range append(w.peers[:len(w.peers):len(w.peers)], e.alone) {
				r := p.named(e.name)
				if p != e.alone { // which is of another mesh
					digests[r.Stream.Digest] = true
				}
				if r.State != "up" || r.Stream.State != "ok" || r.Stream.Facts != held.Held || r.Inflight != 0 || held.Missed != 0 {
					why += fmt.Sprintf("; %s of %s: state %q, stream %q, %d facts; the engine holds %d after batch %d (%d missed)",
						p.said["admin"], e.name, r.State, r.Stream.State, r.Stream.Facts, held.Held, held.Seq, held.Missed)
				}
			}
			if len(digests) > 1 {
				why += "; digests differ"
			}
		}
		if same++; why != "" {
			same = 0
		}
		return same == 3
	})
}

// wait is eventually that says in the end why not.
func wait(t *testing.T, what string, why *string, ok func() bool) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Log("because: " + *why)
		}
	}()
	eventually(t, what, ok)
}
