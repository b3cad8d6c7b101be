//go:build e2e && linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/banyan-llm/banyan/router/console"
)

// lan is network namespaces joined by a bridge, which has a namespace of its
// own: nothing is seen or changed outside.
type lan struct {
	t      *testing.T
	prefix string
	hosts  map[string]string // address by name
}

// newLAN joins the hosts by links as link makes them: name at the bridge, eth0
// in the namespace of that name.
func newLAN(t *testing.T, link func(l *lan, name string), names ...string) *lan {
	t.Helper()
	lookup(t, "ip")
	if os.Getuid() != 0 {
		t.Skip("skipped: network namespaces need root")
	}
	l := &lan{t: t, prefix: fmt.Sprintf("banyan-e2e-%08x-", rand.Uint32()), hosts: map[string]string{}}
	if out, err := exec.Command("ip", "netns", "add", l.ns("hub")).CombinedOutput(); err != nil {
		t.Skipf("skipped: network namespaces are not allowed here: %s", out)
	}
	l.dropLater("hub")
	l.in("hub", "link add br0 type bridge")
	l.in("hub", "addr add 10.77.0.254/24 dev br0")
	l.in("hub", "link set br0 up")
	for i, name := range names {
		l.ip("netns add " + l.ns(name))
		l.dropLater(name)
		l.hosts[name] = fmt.Sprintf("10.77.0.%d", i+1)
		link(l, name)
		l.in("hub", "link set "+name+" master br0 up")
		l.in(name, "addr add "+l.hosts[name]+"/24 dev eth0")
		l.in(name, "link set eth0 up")
		l.in(name, "link set lo up")
	}
	return l
}

// veth makes a link of the kernel's.
func veth(l *lan, name string) {
	l.ip(fmt.Sprintf("link add %s netns %s type veth peer name eth0 netns %s", name, l.ns("hub"), l.ns(name)))
}

func (l *lan) ns(name string) string { return l.prefix + name }

func (l *lan) dropLater(name string) {
	l.t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", l.ns(name)).Run() })
}

func (l *lan) ip(args string) {
	l.t.Helper()
	if out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput(); err != nil {
		l.t.Fatalf("ip %s: %v: %s", args, err, out)
	}
}

// in runs ip inside a namespace.
func (l *lan) in(name, args string) { l.t.Helper(); l.ip("-n " + l.ns(name) + " " + args) }

// plug connects a host to the bridge, or not.
func (l *lan) plug(name string, on bool) {
	l.in("hub", "link set "+name+map[bool]string{true: " up", false: " down"}[on])
}

// launch starts banyan inside a namespace.
func (l *lan) launch(name string, args ...string) *process {
	l.t.Helper()
	path, err := binary()
	if err != nil {
		l.t.Fatal(err)
	}
	return launchCommand(l.t, exec.Command("ip", append([]string{"netns", "exec", l.ns(name), path}, args...)...))
}

// within runs f on a thread that is in the namespace.
func (l *lan) within(name string, f func() error) error {
	runtime.LockOSThread()
	home, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return err
	}
	defer home.Close()
	there, err := os.Open(filepath.Join("/run/netns", l.ns(name)))
	if err != nil {
		return err
	}
	defer there.Close()
	if err := unix.Setns(int(there.Fd()), unix.CLONE_NEWNET); err != nil {
		return err
	}
	err = f()
	if back := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); back == nil {
		runtime.UnlockOSThread() // else the thread ends with its goroutine
	}
	return err
}

// dial connects from the bridge's namespace.
func (l *lan) dial(ctx context.Context, network, address string) (c net.Conn, err error) {
	err = l.within("hub", func() (err error) {
		c, err = (&net.Dialer{Timeout: 2 * time.Second}).DialContext(ctx, network, address)
		return err
	})
	return c, err
}

// island is a mesh with one peer per namespace.
type island struct {
	*lan
	cfg   string
	http  http.Client         // for what peers say of themselves
	asks  http.Client         // for prompts
	peers map[string]*process // by name of the namespace
	names []string
}

func newIsland(t *testing.T, peers int, link func(l *lan, name string)) *island {
	var names []string
	for i := range peers {
		names = append(names, fmt.Sprintf("p%d", i))
	}
	is := &island{lan: newLAN(t, link, append(slices.Clone(names), "engines")...), names: names, peers: map[string]*process{}}
	is.http = http.Client{Timeout: 3 * time.Second, Transport: &http.Transport{DialContext: is.dial, DisableKeepAlives: true}}
	is.asks = http.Client{Timeout: patience / 4, Transport: is.http.Transport}
	var cfg strings.Builder
	cfg.WriteString("mesh:\n  insecure: true\n  join: [")
	for _, name := range names {
		fmt.Fprintf(&cfg, "'%s:7946', ", is.hosts[name])
	}
	cfg.WriteString("]\nhttp: {connection_age: 2s}\ndrain: {delay: 100ms, timeout: 5s}\nlimits: {tokenize: 5s}\nreplicas:\n")
	for i := range 2 {
		host := is.hosts["engines"]
		r := is.lan.launch("engines", "replica", "--name", fmt.Sprintf("r%d", i), "--model", "m",
			"--listen", host+":0", "--events", "tcp://"+host+":0", "--replay", "tcp://"+host+":0")
		fmt.Fprintf(&cfg, "- {name: r%d, url: %q, events: %q, replay: %q, engine: vllm}\n", i, "http://"+r.said["http"], r.said["events"], r.said["replay"])
	}
	is.cfg = writeFile(t, cfg.String())
	for _, name := range names {
		is.start(name)
	}
	is.whole("at the start")
	return is
}

// start starts the peer of a namespace.
func (is *island) start(name string) {
	is.t.Helper()
	host := is.hosts[name]
	is.peers[name] = is.lan.launch(name, "serve", "--config", is.cfg, "--mesh.name", name,
		"--http.listen", host+":8080", "--admin.listen", host+":8081", "--insecure-admin", "--mesh.bind", host+":7946")
}

// kill ends a peer without goodbye and waits for it.
func (is *island) kill(name string) {
	_ = is.peers[name].cmd.Process.Kill()
	<-is.peers[name].done
}

func (is *island) signal(name string, sig syscall.Signal) {
	_ = is.peers[name].cmd.Process.Signal(sig)
}

func (is *island) status(name string) *console.Status {
	res, err := is.http.Get("http://" + is.hosts[name] + ":8081/v1/status")
	if err != nil {
		return nil
	}
	defer res.Body.Close()
	var st console.Status
	if json.NewDecoder(res.Body).Decode(&st) != nil {
		return nil
	}
	return &st
}

// told is status of a peer that must answer.
func (is *island) told(name string) (st *console.Status) {
	is.t.Helper()
	eventually(is.t, name+" tells its status", func() bool { st = is.status(name); return st != nil })
	return st
}

func alive(st *console.Status) (out []string) {
	for _, p := range st.Peers {
		if p.State == "alive" {
			out = append(out, p.Name)
		}
	}
	slices.Sort(out)
	return out
}

// whole waits until every peer is ready and sees exactly all peers alive.
func (is *island) whole(when string) {
	is.t.Helper()
	begun := time.Now()
	eventually(is.t, "all peers are ready and see each other "+when, func() bool {
		for _, name := range is.names {
			if st := is.status(name); st == nil || !st.Ready || !slices.Equal(alive(st), is.names) {
				return false
			}
		}
		return true
	})
	is.t.Logf("whole %s after %.1f s", when, time.Since(begun).Seconds())
}

// equal waits until all peers hold equal digests of every stream, and none was
// ever found diverging.
func (is *island) equal() {
	is.t.Helper()
	eventually(is.t, "all digests are equal", func() bool {
		digests := map[string]bool{}
		for _, name := range is.names {
			st := is.status(name)
			if st == nil || st.Mesh.Divergent != 0 || st.Mesh.Quarantined != 0 {
				return false
			}
			all := ""
			for _, r := range st.Replicas {
				all += r.Stream.Digest + " "
			}
			digests[all] = true
		}
		return len(digests) == 1
	})
}

// steadyPeer is the one that nothing happens to: every request through it must
// be answered.
const steadyPeer = "p0"

// load lets clients on the bridge talk through every peer, so that both
// engines keep announcing blocks.
func (is *island) load(r *record) (end func()) {
	var sets []talkers
	for _, name := range is.names {
		limit := 3 * time.Second // what peers in trouble do not answer is given up
		if name == steadyPeer {
			limit = 30 * time.Second
		}
		sets = append(sets, talkers{
			set: name, url: "http://" + is.hosts[name] + ":8080", dial: is.dial, clients: 3, output: [2]int{1, 30},
			think: [2]time.Duration{10 * time.Millisecond, 150 * time.Millisecond}, turns: 4, limit: limit,
		})
	}
	return r.run(sets...)
}

// idle waits until every peer sees every replica idle: what is left of load,
// also in a scrape, may rightly send a prompt away from its prefix.
func (is *island) idle() {
	is.t.Helper()
	eventually(is.t, "all peers see idle replicas", func() bool {
		for _, name := range is.names {
			st := is.status(name)
			if st == nil || slices.ContainsFunc(st.Replicas, func(r console.Replica) bool {
				return r.Inflight > 0 || r.Running != nil && *r.Running > 0 || r.Queued != nil && *r.Queued > 0
			}) {
				return false
			}
		}
		return true
	})
}

// routed is how one peer routed a prompt.
type routed struct {
	Replica string
	Matched int // tokens
}

func (is *island) route(name, prompt string) (routed, error) {
	body, _ := json.Marshal(map[string]any{"model": "m", "messages": []message{{"user", prompt}}, "max_tokens": 2})
	res, err := is.asks.Post("http://"+is.hosts[name]+":8080/v1/chat/completions", "application/json", bytes.NewReader(body))
	if err != nil {
		return routed{}, err
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(res.Body)
	if res.StatusCode != http.StatusOK {
		return routed{}, fmt.Errorf("status %d: %s", res.StatusCode, text)
	}
	matched, err := strconv.Atoi(res.Header.Get("X-Banyan-Matched-Tokens"))
	return routed{res.Header.Get("X-Banyan-Replica"), matched}, err
}

// shared waits until what was asked through one peer is found through another,
// with a new prompt every time.
func (is *island) shared(from, to string) {
	is.t.Helper()
	n := 0
	eventually(is.t, to+" finds what was asked through "+from, func() bool {
		n++
		prompt := strings.Repeat(fmt.Sprintf("From %s to %s, number %d. ", from, to, n), 100)
		asked, err := is.route(from, prompt)
		if err != nil {
			return false
		}
		time.Sleep(500 * time.Millisecond)
		found, err := is.route(to, prompt)
		return err == nil && found.Replica == asked.Replica && found.Matched > 0
	})
}

// agree holds that the same prompt gets the same answer through every peer.
func (is *island) agree() {
	is.t.Helper()
	prompt := func(i int) string { return strings.Repeat(fmt.Sprintf("Prompt %d after all. ", i), 400) }
	const prompts = 8
	const probe = prompts // goes where it will until all find it, and may end up at both engines
	for i := range prompts + 1 {
		if _, err := is.route(is.names[i%len(is.names)], prompt(i)); err != nil {
			is.t.Fatalf("prompt %d: %v", i, err)
		}
	}
	is.equal()
	begun := time.Now()
	for _, name := range is.names { // a peer that was cut off asks engines for token ids again, in a while
		eventually(is.t, name+" finds what the mesh knows", func() bool {
			r, err := is.route(name, prompt(probe))
			return err == nil && r.Matched > 0
		})
	}
	is.t.Logf("all find the same prefixes after %.1f s", time.Since(begun).Seconds())
	for i := range prompts {
		got := map[string]routed{}
		for _, name := range is.names {
			is.idle()
			r, err := is.route(name, prompt(i))
			if err != nil || r.Matched == 0 {
				is.t.Errorf("prompt %d through %s: %+v, %v", i, name, r, err)
			}
			got[name] = r
		}
		if first := got[is.names[0]]; slices.ContainsFunc(slices.Collect(maps.Values(got)), func(r routed) bool { return r != first }) {
			is.t.Errorf("prompt %d is routed differently: %v", i, got)
		}
	}
}

func TestFaultsBetweenNetworkNamespaces(t *testing.T) {
	is := newIsland(t, 4, veth)
	r := &record{}
	end := is.load(r)
	defer end()
	begun := time.Now()
	time.Sleep(2 * time.Second)

	is.plug("p1", false)
	eventually(t, "the others call a cut-off peer failed", func() bool {
		st := is.status("p0")
		return st != nil && slices.Equal(alive(st), []string{"p0", "p2", "p3"})
	})
	time.Sleep(2 * time.Second)
	is.plug("p1", true)
	is.whole("after a cut link")

	// p0 cannot send to p2; all else works. Others ask p2 on p0's behalf.
	is.in("p0", "route add blackhole "+is.hosts["p2"]+"/32")
	is.shared("p0", "p2")
	is.shared("p2", "p0")
	for range 8 {
		time.Sleep(500 * time.Millisecond)
		if st := is.told("p1"); !slices.Equal(alive(st), is.names) {
			t.Errorf("a third peer does not see everybody alive during a one-way cut: %v", st)
			break
		}
	}
	is.in("p0", "route del blackhole "+is.hosts["p2"]+"/32")
	is.whole("after a one-way cut")

	is.signal("p2", syscall.SIGSTOP)
	eventually(t, "the others call a stopped peer failed", func() bool {
		st := is.status("p0")
		return st != nil && !slices.Contains(alive(st), "p2")
	})
	is.signal("p2", syscall.SIGCONT)
	is.whole("after a stopped peer went on")

	is.kill("p3")
	is.start("p3")
	is.whole("after a killed peer came back")

	is.churn(30*time.Second, rand.New(rand.NewPCG(1, 2)))
	is.whole("after churn")
	end()
	is.agree()

	is.judge(r, begun)
}

// judge holds that the steady peer has failed no request since begun, and ends
// all peers.
func (is *island) judge(r *record, begun time.Time) {
	is.t.Helper()
	steady, all := 0, r.between(begun, time.Now())
	for _, a := range all {
		if a.set != steadyPeer {
			continue
		}
		if steady++; a.err != nil {
			is.t.Errorf("request through %s, which nothing happened to, at %.1f s: %v", steadyPeer, a.at.Sub(begun).Seconds(), a.err)
		}
	}
	if steady == 0 {
		is.t.Errorf("no request went through %s", steadyPeer)
	}
	is.t.Logf("%d requests, %d of them through %s; %d failed through peers in trouble", len(all), steady, steadyPeer, len(failures(all)))
	for _, name := range is.names {
		is.peers[name].stop()
	}
}

// churn troubles all peers but p0, one after the other.
func (is *island) churn(d time.Duration, r *rand.Rand) {
	for until := time.Now().Add(d); time.Now().Before(until); {
		name := is.names[1+r.IntN(len(is.names)-1)]
		switch r.IntN(3) {
		case 0:
			is.plug(name, false)
			time.Sleep(1500 * time.Millisecond)
			is.plug(name, true)
		case 1:
			is.signal(name, syscall.SIGSTOP)
			time.Sleep(time.Second)
			is.signal(name, syscall.SIGCONT)
		case 2:
			is.kill(name)
			time.Sleep(300 * time.Millisecond)
			is.start(name)
		}
		time.Sleep(time.Second)
	}
}
