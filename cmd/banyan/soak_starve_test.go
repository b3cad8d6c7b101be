//go:build e2e && soak

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// starvedPeers share a machine of two cores with their clients and engines, and
// leave them enough to send three times what the peers bear.
const (
	starvedPeers = 3
	starvedShare = .2 // of a core, each
)

// cpuGroup makes a control group that may use so much of a core, and returns the
// file that takes a process in.
func cpuGroup(t *testing.T, name string, share float64) string {
	t.Helper()
	const period = 100_000
	quota := int(share * period)
	dir, files := "/sys/fs/cgroup/cpu/"+name, map[string]string{"cpu.cfs_period_us": fmt.Sprint(period), "cpu.cfs_quota_us": fmt.Sprint(quota)}
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		dir, files = "/sys/fs/cgroup/"+name, map[string]string{"cpu.max": fmt.Sprintf("%d %d", quota, period)}
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Skipf("skipped: cannot limit CPU: %v", err)
	}
	t.Cleanup(func() { eventually(t, "the group is empty", func() bool { return os.Remove(dir) == nil }) })
	for file, text := range files {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Skipf("skipped: cannot limit CPU: %v", err)
		}
	}
	return filepath.Join(dir, "cgroup.procs")
}

// driven is what `banyan load` tells.
type driven struct {
	Completed, Failed int
	Rate              float64 `json:"completed_per_s"`
	Failures          map[string]int
}

func flood(t *testing.T, url string, args ...string) (out driven) {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, append([]string{"load", "--url", url, "--model", "m", "--new-connections", "--json", "--timeout", "1m"}, args...)...)
	var text, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &text, &errs
	_ = cmd.Run() // failures are told in the report
	if err := json.Unmarshal(text.Bytes(), &out); err != nil {
		t.Fatalf("%v: %s%s", err, &text, &errs)
	}
	return out
}

// Peers that are short of CPU under three times the load that they bear fall
// behind each other, all at once. They stay ready, and no request is refused:
// the balancer, as shipped, never loses more than half of them.
func TestStarvedPeersStayInTheBalancer(t *testing.T) {
	lookup(t, "haproxy")
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	var replicas []string
	for i := range 4 {
		r := replicaProcess(t, fmt.Sprintf("r%d", i), "--time-scale", "20")
		replicas = append(replicas, fmt.Sprintf("{name: r%d, url: 'http://%s', events: '%s', replay: '%s'}", i, r.said["http"], r.said["events"], r.said["replay"]))
	}
	var peers []*process
	var servers []string
	for i := range starvedPeers {
		group := cpuGroup(t, fmt.Sprintf("banyan-starved-%d-%d", os.Getpid(), i), starvedShare)
		args := []string{
			"-c", `echo $$ > "$0"; exec "$@"`, group, path, "serve", "--insecure-mesh", "--mesh.name", fmt.Sprintf("p%d", i), "--http.listen", "127.0.0.1:0",
			"--admin.listen", "127.0.0.1:0", "--mesh.bind", "127.0.0.1:0", "--drain.delay", "100ms", "--replicas", "[" + strings.Join(replicas, ", ") + "]",
		}
		if i > 0 {
			args = append(args, "--mesh.join", peers[0].said["mesh"])
		}
		peers = append(peers, launchCommand(t, exec.Command("sh", args...)))
		servers = append(servers, peers[i].said["http"])
	}
	h := startHAProxy(t, servers)
	up := func() (n int) {
		for name, state := range h.states() {
			if strings.HasPrefix(name, "s") && strings.HasPrefix(state, "UP") {
				n++
			}
		}
		return n
	}
	eventually(t, "all are up", func() bool { return up() == starvedPeers })
	bears := flood(t, h.url(), "--concurrency", "64", "--duration", "5s", "--requests", "5000")
	least, looks, done := starvedPeers, 0, make(chan driven)
	go func() {
		done <- flood(t, h.url(), "--rate", fmt.Sprint(3*bears.Rate), "--duration", "15s", "--max-in-flight", "1000")
	}()
	var over driven
	for running := true; running; {
		select {
		case over = <-done:
			running = false
		case <-time.After(100 * time.Millisecond):
			least, looks = min(least, up()), looks+1
		}
	}
	t.Logf("%d peers of %.2f cores bear %.0f requests a second; at three times that %d were answered and %d failed %v; of %d looks the fewest up were %d",
		starvedPeers, starvedShare, bears.Rate, over.Completed, over.Failed, over.Failures, looks, least)
	if least < starvedPeers/2 {
		t.Errorf("only %d of %d peers were up", least, starvedPeers)
	}
	if over.Failed > 0 || over.Completed == 0 {
		t.Errorf("%d requests failed: %v", over.Failed, over.Failures)
	}
	for _, p := range peers {
		if text := p.errs.String(); strings.Contains(text[strings.Index(text, "ready: GET /readyz answers 200"):], "not ready") {
			t.Errorf("a peer became unready:\n%s", text)
		}
	}
}
