//go:build unix

package mesh

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/banyan-llm/banyan/gossip"
)

// BenchmarkManyPeers is meshes of many real peers over TLS on one machine, with
// the product's own times: meet-s until every peer has both connections to every
// other, and meet-cpu-s of this process until then; at rest, per peer, bytes
// (with their lengths) and frames a second and cores; busy, with 20 dispatches a
// second at every peer, the same, and the p99 age of the views as a decision
// takes it; MB is heap and stacks at rest, per peer. Of more than 64 peers half are another process's: 128 need more
// files than one may open. BANYAN_BENCH_PEERS names one size.
func BenchmarkManyPeers(b *testing.B) {
	sizes := []int{8, 16, 32, 64, 128}
	if n, err := strconv.Atoi(os.Getenv("BANYAN_BENCH_PEERS")); err == nil && n > 0 {
		sizes = []int{n}
	}
	for _, n := range sizes {
		b.Run(fmt.Sprintf("peers=%d", n), func(b *testing.B) {
			for b.Loop() {
				manyPeers(b, n)
			}
		})
	}
}

// crowded is a peer of many: the real core over loads, without a debug log.
func crowded(b testing.TB, cfg Config) *node {
	b.Helper()
	cfg.tune, cfg.Timing = nil, Timing{}
	n := &node{id: cfg.PeerID, state: newLoadState(cfg.PeerID), reg: prometheus.NewRegistry(), log: &syncBuffer{}}
	cfg.Registerer = n.reg
	cfg.Logger = hclog.New(&hclog.LoggerOptions{Name: cfg.Name, Level: hclog.Warn, Output: n.log})
	core, err := gossip.New(gossip.Config{
		Self: cfg.PeerID, Name: cfg.Name, Label: cfg.Label, Fingerprint: 7, State: n.state,
		Rand: rand.New(rand.NewPCG(1, uint64(cfg.PeerID[0]))),
	})
	if err != nil {
		b.Fatal(err)
	}
	cfg.Core = core
	if n.Mesh, err = New(cfg); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { n.close(b) })
	if err := n.Start(); err != nil {
		b.Fatal(err)
	}
	return n
}

// crowd starts peers that join by the seeds, or by the first of them.
func crowd(b testing.TB, name string, peers int, seeds ...string) (nodes []*node) {
	b.Helper()
	for i := range peers {
		cfg := config(fmt.Sprintf("%s%03d", name, i), seeds...)
		for _, x := range nodes[:min(3, len(nodes))] {
			cfg.Join = append(cfg.Join, x.Addr())
		}
		nodes = append(nodes, crowded(b, cfg))
	}
	return nodes
}

// linkedTo reports of how many pairs of one of the nodes and any peer both
// connections stand.
func linkedTo(nodes []*node) (pairs int) {
	for _, x := range nodes {
		for _, m := range x.Members() {
			if !m.Self && m.State == Alive && m.Connected == [gossip.Classes]bool{true, true} {
				pairs++
			}
		}
	}
	return pairs
}

// crowdMeets waits until every node is connected to all others of the mesh.
func crowdMeets(b testing.TB, nodes []*node, peers int) {
	b.Helper()
	began, next := time.Now(), 5*time.Second
	for linkedTo(nodes) < len(nodes)*(peers-1) {
		time.Sleep(200 * time.Millisecond) // to look costs the square of the peers
		took := time.Since(began)
		if took >= next {
			next = took + 5*time.Second
			tellCrowd(b, nodes, peers, took)
		}
		if took > 5*time.Minute {
			b.Fatalf("%d of %d pairs are connected", linkedTo(nodes), len(nodes)*(peers-1))
		}
	}
}

// tellCrowd says on standard error how far the nodes have come.
func tellCrowd(b testing.TB, nodes []*node, peers int, took time.Duration) {
	b.Helper()
	var alive, failed, waiting int
	counts := make(map[string]float64)
	add := func(name string, c prometheus.Counter) {
		var m dto.Metric
		if err := c.Write(&m); err != nil {
			b.Fatal(err)
		}
		counts[name] += m.GetCounter().GetValue()
	}
	for _, n := range nodes {
		for _, m := range n.Members() {
			switch m.State {
			case Alive:
				alive++
			case Failed:
				failed++
			}
		}
		waiting += n.inbox.waiting()
		for _, r := range results {
			add("dial "+r, n.meter.dials.WithLabelValues(r))
			add("join "+r, n.meter.joins.WithLabelValues(r))
		}
		for _, by := range endings {
			add("ended by "+by, n.meter.ended.WithLabelValues(by))
		}
		for why, c := range n.meter.refused {
			add("refused "+string(why), c)
		}
	}
	var told []string
	for _, k := range slices.Sorted(maps.Keys(counts)) {
		if counts[k] > 0 {
			told = append(told, fmt.Sprintf("%s %g", k, counts[k]))
		}
	}
	fmt.Fprintf(os.Stderr, "%3.0f s, %.1f s of processor: %d of %d pairs; members alive %d, failed %d; %d items wait; %s\n",
		took.Seconds(), processCPU().Seconds(), linkedTo(nodes), len(nodes)*(peers-1), alive, failed, waiting, strings.Join(told, ", "))
}

// dispatches lets every node dispatch 20 times a second until the end.
func dispatches(nodes []*node) (end func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for i := int32(0); ; i++ {
			for k, n := range nodes {
				n.dispatch(i)
				if k%(1+len(nodes)/8) == 0 {
					time.Sleep(50 * time.Millisecond / 8)
				}
			}
			select {
			case <-quit:
				return
			default:
			}
		}
	}()
	return func() { close(quit); <-done }
}

// otherHalf runs the peers of a mesh that are another process's.
type otherHalf struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

const otherHalfEnv = "BANYAN_BENCH_OTHER_HALF"

func startOtherHalf(b *testing.B, peers, of int, seed string) *otherHalf {
	b.Helper()
	o := &otherHalf{cmd: exec.Command(os.Args[0], "-test.run", "^TestOtherHalf$", "-test.timeout", "15m")}
	o.cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %d %s", otherHalfEnv, peers, of, seed))
	var err error
	if o.in, err = o.cmd.StdinPipe(); err != nil {
		b.Fatal(err)
	}
	out, err := o.cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	o.out = bufio.NewScanner(out)
	if err := o.cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = o.in.Close(); _ = o.cmd.Wait() })
	return o
}

func (o *otherHalf) met(b *testing.B) {
	for o.out.Scan() {
		if o.out.Text() == "met" {
			return
		}
	}
	b.Fatal("the other half has not met")
}

// TestOtherHalf is no test: it is the other process of BenchmarkManyPeers.
func TestOtherHalf(t *testing.T) {
	var peers, of int
	var seed string
	if _, err := fmt.Sscan(os.Getenv(otherHalfEnv), &peers, &of, &seed); err != nil {
		t.Skip("for BenchmarkManyPeers")
	}
	nodes := crowd(t, "q", peers, seed)
	crowdMeets(t, nodes, of)
	fmt.Println("met")
	orders := bufio.NewScanner(os.Stdin)
	for orders.Scan() {
		if strings.TrimSpace(orders.Text()) == "busy" {
			defer dispatches(nodes)()
		}
	}
}

func manyPeers(b *testing.B, peers int) {
	own, cpu, began := peers, processCPU(), time.Now()
	if peers > 64 {
		own = peers / 2
	}
	nodes := crowd(b, "p", own)
	defer func() {
		for _, n := range nodes {
			n.close(b)
		}
	}()
	var other *otherHalf
	if own < peers {
		other = startOtherHalf(b, peers-own, peers, nodes[0].Addr())
	}
	crowdMeets(b, nodes, peers)
	b.ReportMetric((processCPU() - cpu).Seconds(), "meet-cpu-s")
	if other != nil {
		other.met(b)
	}
	b.ReportMetric(time.Since(began).Seconds(), "meet-s")

	time.Sleep(5 * time.Second)
	runtime.GC()
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	b.ReportMetric(float64(mem.HeapInuse+mem.StackInuse)/float64(len(nodes))/(1<<20), "MB")
	measureCrowd(b, nodes, "rest", 10*time.Second)
	if other != nil {
		_, _ = io.WriteString(other.in, "busy\n")
	}
	defer dispatches(nodes)()
	time.Sleep(2 * time.Second)
	measureCrowd(b, nodes, "busy", 5*time.Second)
	var ages []float64
	for _, n := range nodes {
		for _, m := range n.Members() {
			if !m.Self {
				ages = append(ages, float64(m.ViewAge.Microseconds())/1000)
			}
		}
	}
	slices.Sort(ages)
	b.ReportMetric(ages[len(ages)*99/100], "age-p99-ms")
}

// measureCrowd reports what the nodes send and take for a while.
func measureCrowd(b *testing.B, nodes []*node, what string, d time.Duration) {
	b.Helper()
	sent := func() (sum gossip.Traffic, kinds map[string]gossip.Traffic) {
		kinds = make(map[string]gossip.Traffic)
		for _, n := range nodes {
			if err := n.Do(b.Context(), func() {
				for name, k := range n.cfg.Core.(*gossip.Core).Stats().Sent {
					k.Bytes += 4 * k.Frames
					sum.Frames, sum.Bytes = sum.Frames+k.Frames, sum.Bytes+k.Bytes
					kinds[name] = gossip.Traffic{Frames: kinds[name].Frames + k.Frames, Bytes: kinds[name].Bytes + k.Bytes}
				}
			}); err != nil {
				b.Fatal(err)
			}
		}
		return sum, kinds
	}
	before, old := sent()
	cpu, began := processCPU(), time.Now()
	time.Sleep(d)
	spent, took := processCPU()-cpu, time.Since(began)
	after, kinds := sent()
	perPeer := 1 / took.Seconds() / float64(len(nodes))
	for _, k := range slices.Sorted(maps.Keys(kinds)) {
		b.Logf("%s: %s %.1f frames/s, %.0f B/s", what, k, float64(kinds[k].Frames-old[k].Frames)*perPeer, float64(kinds[k].Bytes-old[k].Bytes)*perPeer)
	}
	b.ReportMetric(float64(after.Bytes-before.Bytes)*perPeer, what+"-B/s")
	b.ReportMetric(float64(after.Frames-before.Frames)*perPeer, what+"-frames/s")
	b.ReportMetric(spent.Seconds()*perPeer, what+"-cores")
}
