//go:build e2e && soak

package main

import (
	"bytes"
	be "encoding/binary"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/banyan-llm/banyan/router/kvevents/zmtp"
)

// memoryGroup makes a control group of so many bytes. It returns the file that
// takes a process in, and one that tells the most it ever held.
func memoryGroup(t *testing.T, bytes int64) (procs, most string) {
	t.Helper()
	name := fmt.Sprintf("banyan-flood-%d", os.Getpid())
	dir, limit, peak := "/sys/fs/cgroup/memory/"+name, "memory.limit_in_bytes", "memory.max_usage_in_bytes"
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		dir, limit, peak = "/sys/fs/cgroup/"+name, "memory.max", "memory.peak"
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Skipf("skipped: cannot limit memory: %v", err)
	}
	t.Cleanup(func() { eventually(t, "the group is empty", func() bool { return os.Remove(dir) == nil }) })
	if err := os.WriteFile(filepath.Join(dir, limit), []byte(strconv.FormatInt(bytes, 10)), 0o600); err != nil {
		t.Skipf("skipped: cannot limit memory: %v", err)
	}
	return filepath.Join(dir, "cgroup.procs"), filepath.Join(dir, peak)
}

// residentMB is what a process holds now; 0 when it is gone.
func residentMB(pid int) int {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "VmRSS:" {
			kb, _ := strconv.Atoi(f[1])
			return kb >> 10
		}
	}
	return 0
}

// floodingEngine is an engine that answers at once, tells 14 MB of token ids of
// any prompt, and whose events are the test's; the rest is a mock replica's.
type floodingEngine struct {
	url string
	pub *zmtp.Pub
}

func newFloodingEngine(t *testing.T, name string) *floodingEngine {
	t.Helper()
	r := replicaProcess(t, name, "--time-scale", "0", "--blocks", "8000000")
	to, err := url.Parse("http://" + r.said["http"])
	if err != nil {
		t.Fatal(err)
	}
	rest := httputil.NewSingleHostReverseProxy(to)
	tokens := []byte(`{"count":2000000,"max_model_len":4000000,"tokens":[1` + strings.Repeat(",100000", 1_999_999) + `]}`)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Method != http.MethodPost {
			rest.ServeHTTP(w, req)
			return
		}
		_, _ = io.Copy(io.Discard, req.Body)
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(req.URL.Path, "tokenize") {
			_, _ = w.Write(tokens)
			return
		}
		_, _ = io.WriteString(w, `{"id":"x","object":"text_completion","choices":[{"index":0,"text":"a","finish_reason":"length"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`)
	}))
	t.Cleanup(server.Close)
	pub, err := zmtp.ListenPub("tcp://127.0.0.1:0", zmtp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pub.Close() })
	return &floodingEngine{server.URL, pub}
}

// storedBatch is an engine's batch that stores so many blocks of 16 tokens as one
// chain, and where its hashes and its first token stand.
func storedBatch(blocks int) (batch []byte, hashes, token int) {
	array := func(n int) { batch = be.BigEndian.AppendUint32(append(batch, 0xdd), uint32(n)) }
	array(2)
	batch = be.BigEndian.AppendUint64(append(batch, 0xcb), math.Float64bits(1.8e9))
	array(1)
	array(5)
	batch = append(append(batch, 0xab), "BlockStored"...)
	array(blocks)
	hashes = len(batch)
	for range blocks {
		batch = be.BigEndian.AppendUint64(append(batch, 0xcf), 0)
	}
	batch = append(batch, 0xc0)
	array(16 * blocks)
	token = len(batch)
	for i := range 16 * blocks {
		batch = be.BigEndian.AppendUint32(append(batch, 0xce), uint32(i))
	}
	return append(batch, 16), hashes, token
}

// flood publishes batches, each of blocks that no other has, faster than they are
// taken, until stop is closed.
func (e *floodingEngine) flood(engine uint64, blocks int, stop <-chan struct{}) {
	batch, hashes, token := storedBatch(blocks)
	for n := uint64(0); ; n++ {
		for i := range blocks {
			be.BigEndian.PutUint64(batch[hashes+9*i+1:], engine<<56|n<<24|uint64(i)+1)
		}
		be.BigEndian.PutUint32(batch[token+1:], uint32(engine<<24|n&0xffffff))
		dropped := e.pub.Stats().Dropped
		e.pub.Send(nil, be.BigEndian.AppendUint64(nil, n), batch)
		if e.pub.Stats().Dropped > dropped { // its queue is full: a gap, as an engine makes it
			time.Sleep(5 * time.Millisecond)
		}
		select {
		case <-stop:
			return
		default:
		}
	}
}

// memoryFlood lets four engines flood one peer with events while clients send it
// bodies of 30 MB, for so long, and prints what it held every second.
func memoryFlood(t *testing.T, limit int64, lasts time.Duration) {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	procs, most := memoryGroup(t, limit)
	var engines []*floodingEngine
	var config []string
	for i := range 4 {
		e := newFloodingEngine(t, fmt.Sprintf("r%d", i))
		engines = append(engines, e)
		config = append(config, fmt.Sprintf("{name: r%d, url: '%s', events: 'tcp://%s'}", i, e.url, e.pub.Addr()))
	}
	p := launchCommand(t, exec.Command("sh", "-c", `echo $$ > "$0"; exec "$@"`, procs, path, "serve", "--insecure-mesh", "--mesh.name", "p0",
		"--http.listen", "127.0.0.1:0", "--admin.listen", "127.0.0.1:0", "--mesh.bind", "127.0.0.1:0", "--drain.delay", "100ms",
		"--replicas", "["+strings.Join(config, ",")+"]"))
	eventually(t, "the replicas are up", func() bool {
		s := p.status()
		return s != nil && len(s.Replicas) == 4 && s.Replicas[0].State == "up" && s.Replicas[3].State == "up"
	})
	public := "http://" + p.said["http"]
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for i, e := range engines {
		wg.Go(func() { e.flood(uint64(i+1), 20_000, stop) })
	}
	body := []byte(`{"model":"m","max_tokens":1,"prompt":"` + strings.Repeat("x ", 15<<20) + `"}`)
	client := http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	var answers [600]atomic.Int64
	for i := range 24 {
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				sent := append([]byte(fmt.Sprintf(`{"user":"%d.%d",`, i, n)), body[1:]...) // of a prompt like no other
				at := bytes.Index(sent, []byte("x x x"))
				copy(sent[at:], fmt.Sprintf("%02d%06d", i, n))
				res, err := client.Post(public+"/v1/completions", "application/json", bytes.NewReader(sent))
				if err != nil {
					answers[0].Add(1)
					time.Sleep(50 * time.Millisecond)
					continue
				}
				_, _ = io.Copy(io.Discard, res.Body)
				res.Body.Close()
				answers[res.StatusCode].Add(1)
			}
		})
	}
	highest := 0
	t.Logf("%7s %9s %8s %8s %10s", "second", "resident", "tree", "heap", "facts")
	for begin, next := time.Now(), time.Now(); time.Since(begin) < lasts; time.Sleep(50 * time.Millisecond) {
		now := residentMB(p.cmd.Process.Pid)
		highest = max(highest, now)
		if now == 0 {
			t.Errorf("the peer is gone after %v", time.Since(begin))
			break
		}
		if time.Now().Before(next) {
			continue
		}
		next = time.Now().Add(time.Second)
		f := p.figures("banyan_tree_bytes", "go_memstats_heap_inuse_bytes", "banyan_tree_facts")
		t.Logf("%7.0f %9d %8.0f %8.0f %10.0f", time.Since(begin).Seconds(), now, f[0]/(1<<20), f[1]/(1<<20), f[2])
	}
	close(stop)
	wg.Wait()
	text, _ := os.ReadFile(most)
	n, _ := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	t.Logf("in %d MB: most resident %d MB, most that the group held %d MB; answers: %d whole, %d of 429, %d of 503, %d broken", limit>>20, highest, n>>20,
		answers[200].Load(), answers[429].Load(), answers[503].Load(), answers[0].Load())
	eventually(t, "it serves afterwards", func() bool {
		_, status := p.askFor("m", "after")
		return status == http.StatusOK
	})
}

// figures are values of a peer's metrics, 0 for those that it does not tell now.
func (p *process) figures(names ...string) []float64 {
	out := make([]float64, len(names))
	client := http.Client{Timeout: 10 * time.Second}
	res, err := client.Get("http://" + p.said["admin"] + "/metrics")
	if err != nil {
		return out
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(res.Body)
	for line := range strings.Lines(string(text)) {
		for i, name := range names {
			if rest, ok := strings.CutPrefix(line, name+" "); ok {
				out[i], _ = strconv.ParseFloat(strings.TrimSpace(rest), 64)
			}
		}
	}
	return out
}

// TestEventsAndBodiesInAGiB floods a peer that may hold 1 GiB with events and
// bodies at once: it lives, and serves afterwards.
func TestEventsAndBodiesInAGiB(t *testing.T) { memoryFlood(t, 1<<30, 12*time.Second) }
