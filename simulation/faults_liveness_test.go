package simulation

import (
	"strings"
	"testing"
	"time"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/gossip"
	"github.com/banyan-llm/banyan/router/load"
)

// quiet starts a mesh that nothing random happens to and runs it until all
// peers are ready.
func quiet(t *testing.T, cfg FaultConfig) *faultRun {
	t.Helper()
	if cfg.Faults == nil {
		cfg.Faults = []Fault{}
	}
	cfg, err := cfg.complete()
	if err != nil {
		t.Fatal(err)
	}
	r := newFaultRun(cfg)
	t.Cleanup(r.close)
	r.runUntil(r.now + 3_000)
	if why := r.notReady(); why != "" {
		t.Fatal(why)
	}
	return r
}

// settle heals nothing; it ends the engines' talk and asks for convergence.
func settle(t *testing.T, r *faultRun, within time.Duration) {
	t.Helper()
	r.healed = true
	for _, e := range r.engines {
		e.calm = true
	}
	from := r.now
	for why := "?"; why != ""; why = r.difference() {
		if r.now-from > within.Milliseconds() {
			t.Fatalf("not converged within %v: %s\n%s", within, why, r.end())
		}
		r.runUntil(r.now + askedEveryMs)
	}
	clean(t, r)
}

func clean(t *testing.T, r *faultRun) {
	t.Helper()
	if len(r.violations) > 0 {
		t.Errorf("%v\n%s", r.violations, r.end())
	}
}

// end is the end of the trace.
func (r *faultRun) end() string {
	lines := r.log.lines()
	return strings.Join(lines[max(0, len(lines)-40):], "\n")
}

// A link that never passes one way is got around, for ever (property 25).
func TestNonTransitiveLink(t *testing.T) {
	for seed := range uint64(3) {
		r := quiet(t, FaultConfig{Seed: seed, Peers: 4, BatchMs: 400})
		r.net.cut(0, 1, 1)
		r.runUntil(r.now + 20_000)
		for _, p := range r.peers {
			for slot, s := range p.sees {
				if !s.up {
					t.Errorf("%s takes %s for dead, which others reach", p.name, peerName(slot))
				}
			}
		}
		settle(t, r, 10*time.Second) // with the link still cut
	}
}

// A partition that outlasts every memory of the other half still ends in one
// mesh (property 24).
func TestHealAfterReap(t *testing.T) {
	r := quiet(t, FaultConfig{Seed: 5, Peers: 4, RingBytes: 1_000, RejoinMs: 30_000, BatchMs: 400})
	across := func(by int) {
		for _, x := range []int{0, 1} {
			for _, y := range []int{2, 3} {
				r.net.cut(x, y, by)
				r.net.cut(y, x, by)
			}
		}
	}
	across(1)
	r.runUntil(r.now + 60_000)
	for _, p := range r.peers {
		if n := len(p.core.Peers()); n != 1 {
			t.Fatalf("%s knows %d peers a minute into the partition, want its own half", p.name, n)
		}
	}
	r.peers[0].loads.SetIntent(r.engines[0].stream, true, r.now)
	across(-1)
	settle(t, r, 45*time.Second)
	if !r.peers[3].loads.Intents()[r.engines[0].stream].Drain {
		t.Error("the other half's operator was not heard")
	}
}

// A dead peer's load leaves exactly; a false suspicion takes nothing for long
// (property 13).
func TestCleanup(t *testing.T) {
	r := quiet(t, FaultConfig{Seed: 6, Peers: 4, NoTraffic: true})
	e := r.engines[0]
	for i, p := range r.peers {
		for range i + 1 {
			p.loads.Dispatch(&load.Cost{Replica: e.stream}, p.now())
		}
	}
	sum := func(p *faultPeer) int32 { return p.load(e).Waiting }
	r.runUntil(r.now + 1_000)
	if got := sum(r.peers[0]); got != 1+2+3+4 {
		t.Fatalf("%d waiting, want 10", got)
	}
	r.apply(Fault{Verb: "suspect", Peer: "a", Other: "d", OneWay: true, For: 2 * time.Second})
	r.runUntil(r.now + 1_000)
	if got := sum(r.peers[0]); got != 10 {
		t.Errorf("%d waiting while d is suspected and heard, want 10", got)
	}
	r.runUntil(r.now + 8_000)
	if got := sum(r.peers[0]); got != 10 {
		t.Errorf("%d waiting after the suspicion, want 10", got)
	}
	r.kill(1, false)
	r.runUntil(r.now + r.cfg.DetectMs + 500)
	for _, p := range r.live() {
		if got := sum(p); got != 1+3+4 {
			t.Errorf("%s sums %d waiting after b died, want 8", p.name, got)
		}
	}
	r.boot(1)
	settle(t, r, 20*time.Second)
	if got := sum(r.peers[1]); got != 8 {
		t.Errorf("the one that came back sums %d, want 8", got)
	}
}

// A drained peer leaves after its streams: at no moment does another see less
// load than runs (property 26).
func TestDrainOrder(t *testing.T) {
	for seed := range uint64(4) {
		r := quiet(t, FaultConfig{Seed: seed, Peers: 3, Replicas: 1, NoTraffic: true})
		e, p := r.engines[0], r.peers[1]
		for range 20 {
			r.request(p, e)
		}
		r.runUntil(r.now + 300)
		r.drain(p)
		for end := r.now + 10_000; p.alive && r.now < end; {
			runs := p.requests
			r.runUntil(r.now + 20)
			for _, q := range []*faultPeer{r.peers[0], r.peers[2]} {
				if s := q.load(e); int(s.Waiting+s.Streams) < min(runs, p.requests) {
					t.Fatalf("seed %d: %s sees %d requests of %d", seed, q.name, s.Waiting+s.Streams, p.requests)
				}
			}
		}
		if p.alive || p.requests != 0 {
			t.Fatalf("alive %v with %d requests", p.alive, p.requests)
		}
		r.runUntil(r.now + 2_000)
		if r.peers[0].sees[1].up {
			t.Error("a goodbye is heard at once")
		}
		settle(t, r, 10*time.Second)
	}
}

// What one owner gave up hastily and another peer has comes back (property 21).
func TestHastyLossOfWhatAPeerHas(t *testing.T) {
	r := quiet(t, FaultConfig{Seed: 8, Peers: 3, Replicas: 1})
	e := r.engines[0]
	e.calm = true
	r.runUntil(r.now + 2_000)
	// Only a, apart from the others, hears the next batch.
	for _, y := range []int{1, 2} {
		r.net.cut(0, y, 1)
		r.net.cut(y, 0, 1)
	}
	r.runUntil(r.now + 6_000) // all halves own the stream now
	e.cutOff[1], e.cutOff[2] = 1, 1
	e.emit()
	lost := uint64(len(e.log()))
	r.runUntil(r.now + 100)
	e.cutOff[1], e.cutOff[2] = 0, 0
	e.dropped = 1 // replays too
	b := r.peers[1]
	d, _ := b.index.Digest(e.stream)
	e.emit()
	last := e.log()[lost]
	b.index.Apply(&crdt.Delta{Stream: e.stream, Epoch: d.Context.Epoch, Anchor: d.Context.Anchor, Slots: []crdt.Slot{last}}, r.now)
	r.runUntil(r.now + 100)
	b.lose([]gossip.Loss{{Stream: e.stream, Epoch: d.Context.Epoch, Spans: []crdt.Span{{From: lost, To: lost}}}}, r.now)
	if d, _ := b.index.Digest(e.stream); len(d.Context.Voids) != 1 {
		t.Fatalf("b is to have given slot %d up: %+v", lost, d.Context)
	}
	for _, y := range []int{1, 2} {
		r.net.cut(0, y, -1)
		r.net.cut(y, 0, -1)
	}
	settle(t, r, 30*time.Second)
	for _, p := range r.peers {
		if d, _ := p.index.Digest(e.stream); len(d.Context.Voids) != 0 || d.Context.Floor != lost+1 {
			t.Errorf("%s: slot %d is still given up: %+v", p.name, lost, d.Context)
		}
	}
	r.equalsTruth(e)
	clean(t, r)
}

// Cold peers that join a mesh of many streams at once are ready soon, and know
// all (property 11).
func TestColdJoinersAtScale(t *testing.T) {
	r := quiet(t, FaultConfig{Seed: 9, Peers: 3, Replicas: 60, BatchMs: 400, RingBytes: 200_000, NoTraffic: true})
	r.runUntil(r.now + 10_000)
	from := len(r.peers)
	for range 3 {
		r.boot(len(r.peers))
	}
	began := r.now
	for r.notReady() != "" {
		if r.now-began > 20_000 {
			t.Fatal(r.notReady())
		}
		r.runUntil(r.now + askedEveryMs)
	}
	for _, p := range r.peers[from:] {
		if n := len(p.index.Streams(nil)); n != 60 {
			t.Errorf("%s is ready with %d of 60 streams", p.name, n)
		}
	}
	settle(t, r, 15*time.Second)
	t.Logf("three cold peers ready after %d ms", r.now-began)
}

// Nothing that is only expected differs between peers once writes stop
// (property 10, predictions).
func TestPredictionsConverge(t *testing.T) {
	r := quiet(t, FaultConfig{Seed: 10, Peers: 4, Faults: []Fault{
		{At: 4 * time.Second, For: 5 * time.Second, Verb: "cut", Peer: "a", Other: "b"},
		{At: 6 * time.Second, Verb: "break", Peer: "c", Other: "d"},
	}})
	r.runUntil(r.now + 15_000)
	settle(t, r, 20*time.Second)
	r.runUntil(r.now + 8_000)
	for _, p := range r.peers[1:] {
		for _, e := range r.engines {
			for i := range r.library.prompts {
				if x, y := r.guessed(r.peers[0], e, i), r.guessed(p, e, i); x != y {
					t.Errorf("%s prompt %d: a expects %d blocks, %s %d", e.name, i, x, p.name, y)
				}
			}
		}
	}
}

// The checks see what they are there to see: a log that says something else
// than the peers were told is a violation by name.
func TestChecksCanFail(t *testing.T) {
	for _, c := range []struct {
		property string
		tamper   func(log []crdt.Slot, other crdt.Slot)
	}{
		{"NoResurrection", func(log []crdt.Slot, _ crdt.Slot) { log[len(log)-1].Body = cleared() }},
		{"NoPhantom", func(log []crdt.Slot, _ crdt.Slot) {
			for i := range log {
				log[i].Body = nil
			}
		}},
		{"NoLocalDelete", func(log []crdt.Slot, other crdt.Slot) { log[len(log)-1].Body = other.Body }},
		{"Oracle", func(log []crdt.Slot, _ crdt.Slot) { log[len(log)-1].Body = cleared() }},
	} {
		r := quiet(t, FaultConfig{Seed: 11, Peers: 2, Replicas: 1})
		e := r.engines[0]
		e.calm = true
		r.runUntil(r.now + 1_000)
		c.tamper(e.log(), r.everything(e))
		clear(r.peers[0].checked)
		r.check(e.stream)
		found := false
		for _, v := range r.violations {
			found = found || v.Property == c.property
		}
		if !found {
			t.Errorf("%s was not seen: %v", c.property, r.violations)
		}
	}
}

func cleared() []byte {
	var b crdt.Builder
	b.Clear()
	body, _ := b.Bytes()
	return body
}

// everything stores all prompts.
func (r *faultRun) everything(e *faultEngine) crdt.Slot {
	var b crdt.Builder
	b.Clear()
	e.empty()
	for i := range r.library.prompts {
		e.serve(&b, &r.library.prompts[i])
	}
	s, err := b.Slot(1, 1)
	if err != nil {
		panic(err)
	}
	return s
}
