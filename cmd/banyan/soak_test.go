//go:build e2e && soak

package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// soakTime is how long the soak goes on: SOAKTIME, default 2 minutes.
func soakTime(t *testing.T) time.Duration {
	text := os.Getenv("SOAKTIME")
	if text == "" {
		return 2 * time.Minute
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 30*time.Second || d > 24*time.Hour {
		t.Fatalf("SOAKTIME %q: want a time from 30s to 24h", text)
	}
	return d
}

// upsetEvery is the time between two things that go wrong.
const upsetEvery = 7 * time.Second

// soak is a mesh of processes under load, with peers that are killed or
// drained and replaced, and engines that restart.
type soak struct {
	t        *testing.T
	replicas []*process
	config   string
	names    int // of peers, given so far

	mu    sync.Mutex // guards below
	peers []*process // those that take connections
	turn  int
	gone  []outage
}

// outage is when something was taken away: requests that it cut are its fault.
type outage struct {
	name string
	from time.Time
	to   time.Time
}

// TestSoak holds, after load and churn: no request failed but those in flight
// where something was killed, all peers have equal digests and none diverges,
// and goroutines, open files, heap and resident memory of the peer that lived
// through it all are about what they were after its first quarter.
func TestSoak(t *testing.T) {
	span := soakTime(t)
	s := &soak{t: t}
	for i := range 4 {
		s.replicas = append(s.replicas, replicaProcess(t, fmt.Sprintf("r%d", i)))
	}
	s.peers = meshOf(t, 3, s.replicas...)
	s.names, s.config = 3, s.peers[0].configPath()
	var seen record
	end := seen.run(talkers{
		set: "soak", url: "http://" + s.peers[0].said["http"], dial: s.dial, clients: 12, output: [2]int{5, 60},
		think: [2]time.Duration{20 * time.Millisecond, 300 * time.Millisecond}, turns: 6,
	})
	defer end()
	began := time.Now()
	first := s.peers[0]
	var early footprint
	for n := 0; time.Since(began) < span; n++ {
		if early == (footprint{}) && time.Since(began) > span/4 {
			early = first.footprint()
		}
		s.upset(n)
		time.Sleep(upsetEvery)
	}
	end()
	s.judge(seen.between(began, time.Now()))
	late := first.footprint()
	t.Logf("the first peer after a quarter: %v; at the end: %v", early, late)
	if late.goroutines > early.goroutines+early.goroutines/2+50 {
		t.Errorf("goroutines grew from %d to %d", early.goroutines, late.goroutines)
	}
	if late.files > early.files+early.files/2+50 {
		t.Errorf("open files grew from %d to %d", early.files, late.files)
	}
	if late.resident > 2*early.resident+64e6 {
		t.Errorf("resident memory grew from %.1f to %.1f MB", early.resident/1e6, late.resident/1e6)
	}
	if late.heap > 2*early.heap+32e6 { // the tokens kept of prompts fill their 32 MiB slowly
		t.Errorf("the heap grew from %.1f to %.1f MB", early.heap/1e6, late.heap/1e6)
	}
	for _, p := range s.peers {
		p.stop()
	}
}

// dial leads each new connection to the next peer, as a balancer does.
func (s *soak) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	s.mu.Lock()
	s.turn++
	address := s.peers[s.turn%len(s.peers)].said["http"]
	s.mu.Unlock()
	return (&net.Dialer{}).DialContext(ctx, network, address)
}

// upset lets the nth thing go wrong.
func (s *soak) upset(n int) {
	switch n % 4 {
	case 0, 2: // take the second oldest peer away, then bring a cold one
		s.mu.Lock()
		p := s.peers[1]
		s.peers = slices.Delete(s.peers, 1, 2)
		s.mu.Unlock()
		if n%4 == 0 {
			s.t.Logf("%s is killed", p.name())
			from := time.Now()
			_ = p.cmd.Process.Kill()
			<-p.done
			s.out(p.name(), from)
		} else {
			s.t.Logf("%s drains", p.name())
			_ = p.cmd.Process.Signal(syscall.SIGTERM)
			if err := <-p.done; err != nil {
				s.t.Errorf("%s ended with %v: %s", p.name(), err, p.errs)
			}
		}
		s.grow()
	case 1: // an engine restarts; a third time in a minute would be a quarantine
		i := n / 4 % len(s.replicas)
		s.t.Logf("r%d restarts", i)
		from := time.Now()
		res, err := http.Post("http://"+s.replicas[i].said["http"]+"/standin/restart?down=1s", "", nil)
		if err != nil {
			s.t.Fatal(err)
		}
		_ = res.Body.Close()
		time.Sleep(time.Second)
		s.out(fmt.Sprintf("r%d", i), from)
	}
}

func (s *soak) out(name string, from time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone = append(s.gone, outage{name, from.Add(-time.Second), time.Now().Add(time.Second)})
}

// grow starts one more peer and lets it take connections when it is ready.
func (s *soak) grow() {
	name := fmt.Sprintf("p%d", s.names)
	s.names++
	p := launch(s.t, "serve", "--config", s.config, "--mesh.name", name, "--http.listen", "127.0.0.1:0",
		"--admin.listen", "127.0.0.1:0", "--mesh.bind", "127.0.0.1:0", "--mesh.join", s.peers[0].said["mesh"])
	eventually(s.t, name+" is ready", func() bool {
		st := p.status()
		return st != nil && st.Ready && len(st.Peers) >= len(s.peers)+1
	})
	s.mu.Lock()
	s.peers = append(s.peers, p)
	s.mu.Unlock()
}

// judge looks at the requests and at what the peers know.
func (s *soak) judge(all []asked) {
	s.t.Helper()
	excused, cut := 0, failures(all)
	for _, a := range cut {
		if s.excuses(a) {
			excused++
			continue
		}
		s.t.Errorf("failed from %s to %s at peer %q replica %q: %v", a.at.Format(time.TimeOnly), a.end.Format(time.TimeOnly), a.peer, a.replica, a.err)
	}
	s.t.Logf("%d requests, %d cut by what was killed, %.2f of the prompts cached", len(all), excused, cachedShare(all))
	if len(all)-len(cut) < 100 {
		s.t.Errorf("only %d requests were answered", len(all)-len(cut))
	}
	eventually(s.t, "all digests are equal", func() bool { return converged(s.peers) })
	for _, p := range s.peers {
		if n := p.metric("banyan_divergent_streams"); n != 0 {
			s.t.Errorf("%s holds %v streams for divergent", p.name(), n)
		}
	}
}

// excuses reports whether a request ran where and while something was killed.
func (s *soak) excuses(a asked) bool {
	return slices.ContainsFunc(s.gone, func(o outage) bool {
		return (o.name == a.peer || o.name == a.replica || a.peer == "") && a.at.Before(o.to) && a.end.After(o.from)
	})
}

// footprint is what a peer holds after a collection.
type footprint struct {
	goroutines, files int
	heap, resident    float64 // bytes
}

func (f footprint) String() string {
	return fmt.Sprintf("%d goroutines, %d open files, %.1f MB of heap, %.1f MB resident", f.goroutines, f.files, f.heap/1e6, f.resident/1e6)
}

func (p *process) footprint() footprint {
	p.t.Helper()
	if _, err := p.get("/debug/pprof/heap?gc=1"); err != nil {
		p.t.Fatal(err)
	}
	return footprint{
		goroutines: int(p.metric("go_goroutines")), files: int(p.metric("process_open_fds")),
		heap: p.metric("go_memstats_heap_alloc_bytes"), resident: p.metric("process_resident_memory_bytes"),
	}
}

// metric reads one number of the admin listener's metrics, summed over labels.
func (p *process) metric(name string) (sum float64) {
	p.t.Helper()
	text, err := p.get("/metrics")
	if err != nil {
		p.t.Fatal(err)
	}
	found := false
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(line, name)
		if !ok || rest[0] != ' ' && rest[0] != '{' {
			continue
		}
		fields := strings.Fields(rest)
		v, err := strconv.ParseFloat(fields[len(fields)-1], 64)
		if err != nil {
			p.t.Fatalf("%s: %v", line, err)
		}
		sum, found = sum+v, true
	}
	if !found {
		p.t.Fatalf("no metric %s", name)
	}
	return sum
}

func (p *process) get(path string) (string, error) {
	res, err := http.Get("http://" + p.said["admin"] + path)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, 16<<20))
	return string(body), err
}

// name and configPath read a peer's own command line.
func (p *process) name() string       { return p.flag("--mesh.name") }
func (p *process) configPath() string { return p.flag("--config") }

func (p *process) flag(name string) string {
	return p.cmd.Args[slices.Index(p.cmd.Args, name)+1]
}
