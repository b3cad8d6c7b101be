//go:build e2e

package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	connectionAge = 2 * time.Second
	settled       = 3 * connectionAge // after a change of peers shares are even again
	shareWindow   = 4 * time.Second
	shareWindows  = 3 // of which one must be even: a busy machine takes longer to settle
	warmUp        = 5 * time.Second
	baseline      = time.Minute // of traffic before the first change
	hitWindow     = 5 * time.Second
	// hitDip is how far the cached share of any window after the first change
	// may lie below that of the minute before.
	hitDip = .02
	// leastAsked is how many requests a window must have to be judged; on a slow
	// machine it is made longer until it has.
	leastAsked = 1000
	// replaySteps is what the engines keep for replay: a few seconds of the
	// traffic, as engines that run for hours keep a small part of their log.
	replaySteps = 1000
	// slots is the number of server lines in the balancer's configuration.
	slots = 5
)

// balancer is what stands before a tier.
type balancer interface {
	url() string
	waitUp(slot int)   // until it sends requests there
	waitFor(up ...int) // until it sends requests to these slots and to no other
}

// tier is the peers behind a balancer.
type tier struct {
	t      *testing.T
	cfg    string
	ports  [slots]string // public address of each slot
	admin  [slots]string // admin address, if it matters
	living map[int]*process
	names  map[int]string // of the living
	count  int
}

func newTier(t *testing.T, replicas []*process) *tier {
	var cfg strings.Builder
	fmt.Fprintf(&cfg, "mesh: {insecure: true}\nhttp: {connection_age: %v}\ndrain: {delay: 2500ms, timeout: 60s}\nlimits: {tokenize: %v}\nreplicas:\n", connectionAge, tokenizeLimit)
	for i, r := range replicas {
		fmt.Fprintf(&cfg, "- {name: r%d, url: %q, events: %q, replay: %q, engine: vllm}\n", i, "http://"+r.said["http"], r.said["events"], r.said["replay"])
	}
	tr := &tier{t: t, cfg: writeFile(t, cfg.String()), living: map[int]*process{}, names: map[int]string{}}
	for i := range tr.ports {
		tr.ports[i] = freePort(t)
	}
	return tr
}

// start fills a slot with a fresh peer.
func (tr *tier) start(slot int) {
	tr.t.Helper()
	name := fmt.Sprintf("p%d", tr.count)
	tr.count++
	args := []string{
		"serve", "--config", tr.cfg, "--mesh.name", name, "--http.listen", tr.ports[slot],
		"--admin.listen", cmp.Or(tr.admin[slot], "127.0.0.1:0"), "--mesh.bind", "127.0.0.1:0",
	}
	var seeds []string
	for _, i := range slices.Sorted(maps.Keys(tr.living)) {
		seeds = append(seeds, tr.living[i].said["mesh"])
	}
	if len(seeds) > 0 {
		args = append(args, "--mesh.join", strings.Join(seeds, ","))
	}
	tr.living[slot], tr.names[slot] = launch(tr.t, args...), name
}

// drainLimit is how long a peer may take from SIGTERM to its end.
const drainLimit = 90 * time.Second

// term begins the drain of a slot's peer; the function it returns, which may be
// called late, waits for its clean end.
func (tr *tier) term(slot int) (wait func()) {
	p, name := tr.living[slot], tr.names[slot]
	delete(tr.living, slot)
	delete(tr.names, slot)
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	begun := time.Now()
	return func() {
		tr.t.Helper()
		select {
		case err := <-p.done:
			took := p.ended.Sub(begun)
			if err != nil || took > drainLimit || strings.Contains(p.errs.String(), "requests were cut") {
				tr.t.Errorf("%s ended after %.1f s with %v: %s", name, took.Seconds(), err, p.errs)
			}
		case <-time.After(drainLimit):
			tr.t.Errorf("%s did not end within %v: %s", name, drainLimit, p.errs)
		}
	}
}

// scaleAndRestart changes the peers under load in every way: 2 -> 5 -> 3, each
// one replaced, one killed. Clients never retry. Graceful changes must cost no
// request, new peers must get their share, and no 5 s of it all may find less
// cached than the minute before did.
func scaleAndRestart(t *testing.T, start func(tr *tier) balancer) {
	t.Helper()
	var replicas []*process
	for i := range 4 {
		replicas = append(replicas, replicaProcess(t, fmt.Sprintf("r%d", i), "--replay-steps", strconv.Itoa(replaySteps)))
	}
	tr := newTier(t, replicas)
	tr.start(0)
	tr.start(1)
	h := start(tr)
	h.waitFor(0, 1)

	r := &record{}
	url := h.url()
	end := r.run(
		talkers{set: "fast", url: url, clients: 40, output: [2]int{1, 2}, think: [2]time.Duration{0, 60 * time.Millisecond}, turns: 12},
		talkers{set: "slow", url: url, clients: 16, output: [2]int{60, 220}, think: [2]time.Duration{0, 300 * time.Millisecond}, turns: 6},
		// Longer than drain.delay and the linger together.
		talkers{set: "long", url: url, clients: 4, output: [2]int{900, 1100}, turns: 1, limit: time.Minute},
	)
	defer end()
	begun := time.Now()
	phase := func(what string, f func()) {
		from := time.Now()
		f()
		all := r.between(from, time.Now())
		t.Logf("%-26s %5.1f s, %d requests, cached %.3f, shares %v", what, time.Since(from).Seconds(), len(all), cachedShare(all), shares(all))
	}
	evenly := func(peers int) {
		t.Helper()
		time.Sleep(settled)
		for window := range shareWindows {
			from := time.Now()
			time.Sleep(shareWindow)
			got := shares(r.between(from, time.Now()))
			short := shortShares(got, tr.names, peers)
			if len(short) == 0 {
				return
			}
			if t.Logf("window %d: %v got less than half their share: %v", window, short, got); window == shareWindows-1 {
				t.Errorf("%v never got their share among %d peers", short, peers)
			}
		}
	}

	phase("2 peers", func() { time.Sleep(warmUp + baseline) })
	before := cachedShare(r.between(begun.Add(warmUp), time.Now()))
	named := epochs(tr.living[0])
	changes := time.Now()
	phase("2 to 5 peers", func() {
		tr.start(2)
		tr.start(3)
		tr.start(4)
		h.waitFor(0, 1, 2, 3, 4)
		evenly(5)
	})
	phase("5 to 3 peers", func() {
		waits := []func(){tr.term(0), tr.term(1)}
		h.waitFor(2, 3, 4)
		evenly(3)
		for _, wait := range waits {
			wait()
		}
	})
	phase("rolling restart", func() {
		// Each successor takes a free slot first, as with maxSurge 1.
		var waits []func()
		for i, old := range []int{2, 3, 4} {
			fresh := i
			if i == 2 {
				waits[0]()
				fresh = 2
			}
			tr.start(fresh)
			h.waitUp(fresh)
			waits = append(waits, tr.term(old))
		}
		h.waitFor(0, 1, 2)
		evenly(3)
		for _, wait := range waits[1:] {
			wait()
		}
	})
	graceful := time.Now()
	victim := tr.names[1]
	phase("SIGKILL of "+victim, func() {
		time.Sleep(time.Second)
		_ = tr.living[1].cmd.Process.Kill()
		delete(tr.living, 1)
		delete(tr.names, 1)
		h.waitFor(0, 2)
		time.Sleep(hitWindow)
	})
	last := time.Now()
	phase("the end of all answers", end)
	phase("equal digests", func() {
		eventually(t, "the peers left hold equal digests", func() bool { return converged(slices.Collect(maps.Values(tr.living))) })
	})
	for _, p := range tr.living {
		if now := epochs(p); !maps.Equal(now, named) {
			t.Errorf("no engine restarted, and their incarnations are %v, were %v", now, named)
		}
	}

	// A stream may still run when a phase ends, so what began early and failed
	// late counts for the phase it failed in.
	lost := 0
	for _, a := range failures(r.between(begun, time.Now())) {
		switch {
		case a.end.After(graceful) && a.peer == victim:
			lost++
		case a.end.After(graceful) && a.peer == "" && !a.began:
			lost++ // accepted by the victim's kernel, never answered
		default:
			t.Errorf("%s request through %q at %.1f s failed after %.2f s: %v", a.set, a.peer, a.at.Sub(begun).Seconds(), a.end.Sub(a.at).Seconds(), a.err)
		}
	}
	if lost == 0 || lost > 40 {
		t.Errorf("SIGKILL of one of 3 peers cost %d of 60 clients a request", lost)
	}
	least := 1.0
	for at := changes; ; {
		to := at.Add(hitWindow)
		window := r.between(at, to)
		for ; len(window) < leastAsked && to.Before(last); window = r.between(at, to) {
			to = to.Add(time.Second)
		}
		if to.After(last) {
			break
		}
		share := cachedShare(window)
		if least = min(least, share); share < before-hitDip {
			t.Errorf("cached share %.3f of %d requests from %.1f to %.1f s, %.3f before", share, len(window), at.Sub(begun).Seconds(), to.Sub(begun).Seconds(), before)
		}
		at = to
	}
	t.Logf("SIGKILL cost %d requests; cached share in the minute before all changes %.3f, least in 5 s after %.3f", lost, before, least)
}

// epochs are the incarnations a peer sees, by replica.
func epochs(p *process) map[string]uint64 {
	out := map[string]uint64{}
	if st := p.status(); st != nil {
		for _, r := range st.Replicas {
			out[r.Name] = r.Stream.Epoch
		}
	}
	return out
}

// shares counts requests by peer.
func shares(all []asked) map[string]int {
	out := map[string]int{}
	for _, a := range all {
		if a.err == nil {
			out[a.peer]++
		}
	}
	return out
}

// shortShares names the living peers that got less than half the mean.
func shortShares(got map[string]int, names map[int]string, peers int) (short []string) {
	sum := 0
	for _, n := range got {
		sum += n
	}
	for _, name := range names {
		if 2*peers*got[name] < sum {
			short = append(short, name)
		}
	}
	slices.Sort(short)
	return short
}
