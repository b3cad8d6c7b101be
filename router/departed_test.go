package router

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/gossip"
	"github.com/banyan-llm/banyan/radix"
	"github.com/banyan-llm/banyan/router/fleet"
	"github.com/banyan-llm/banyan/router/index"
	"github.com/banyan-llm/banyan/router/kvevents"
	"github.com/banyan-llm/banyan/router/load"
	"github.com/banyan-llm/banyan/router/pick"
)

func TestReplicasThatStayAwayAreForgotten(t *testing.T) {
	start := time.Unix(1000, 0)
	now := start
	f := fleet.New(fleet.Config{})
	discovered := []fleet.Spec{{URL: "http://10.0.0.1:80"}, {URL: "http://10.0.0.2:80"}, {URL: "http://10.0.0.3:80"}}
	f.Set([]fleet.Spec{{URL: "http://static:80"}}, start)
	f.Update(fleet.SourceKubernetes, discovered, start)
	var held []crdt.StreamID
	for _, r := range f.List() {
		held = append(held, r.Stream)
	}
	third, stranger := held[2], crdt.StreamID("http://10.0.0.9:80#0")
	d := departures{clock: func() time.Time { return now }}
	look := func(after time.Duration) (out []string) {
		now = start.Add(after)
		for _, id := range d.due(f, held, now) {
			out = append(out, string(id))
		}
		slices.Sort(out)
		return out
	}
	look(0)
	f.Update(fleet.SourceKubernetes, discovered[:1], start)
	now = start.Add(time.Second)
	if !d.wants(f, third) || d.wants(f, stranger) {
		t.Error("one that has just left is wanted, one that nobody listed is not")
	}
	f.Update(fleet.SourceKubernetes, discovered[:2], start) // the second comes back
	if got := look(departedAfter); got != nil {
		t.Errorf("too early: %q", got)
	}
	if got := look(departedAfter + time.Second); len(got) != 1 || got[0] != string(third) {
		t.Errorf("%q", got)
	}
	if d.wants(f, third) {
		t.Error("what was forgotten is wanted again")
	}
	held = slices.DeleteFunc(held, func(id crdt.StreamID) bool { return id == third })
	if got := look(departedAfter + 2*time.Second); got != nil {
		t.Errorf("again: %q", got)
	}
	held = append(held, stranger) // what came before anything was listed here
	look(departedAfter + 3*time.Second)
	if got := look(2*departedAfter + 3*time.Second); len(got) != 1 || got[0] != string(stranger) {
		t.Errorf("what was never listed stays: %q", got)
	}
	if n := d.rule.Leaving(); n != 0 {
		t.Errorf("%d are remembered for ever", n)
	}
}

// TestUntilDiscoveryAnswersAllIsWanted, lest a peer serves before it has caught
// up with replicas that it is about to find.
func TestUntilDiscoveryAnswersAllIsWanted(t *testing.T) {
	p := quietPeer(t, nil)
	p.census.discovery = []finder{{source: fleet.SourceDNS}}
	id := crdt.StreamID("http://10.0.0.1:80#0")
	if !p.census.wants(id) {
		t.Error("not wanted before discovery answered")
	}
	p.fleet.Update(fleet.SourceDNS, []fleet.Spec{{URL: "http://10.0.0.2:80"}}, time.Now())
	if p.census.wants(id) || !p.census.wants("http://10.0.0.2:80#0") {
		t.Error("what is listed is wanted and nothing else")
	}
}

// TestLoadsOfUnlistedReplicasAreNotTaken, nor operators' words on them: what
// others tell of one would keep it here.
func TestLoadsOfUnlistedReplicasAreNotTaken(t *testing.T) {
	p := quietPeer(t, func(c *Config) { c.Replicas = []fleet.Spec{{URL: "http://listed"}} })
	s := pick.State{Index: p.index, Table: p.loads, Wants: p.census.wants}
	for _, id := range []crdt.StreamID{"http://listed#0", "http://unlisted#0"} {
		s.JoinScrapes(map[crdt.StreamID]crdt.Scrape{id: {Version: 1}})
		s.JoinLoads(crdt.PeerID{2}, []crdt.LoadEntry{{Replica: id, Load: crdt.Load{Version: 3, Waiting: 1}}})
		if s.JoinIntents(map[crdt.StreamID]crdt.Intent{id: {Time: 1, Drain: true}}) != (id == "http://listed#0") {
			t.Errorf("the word on a listed replica is taken, on any other it is not: wrong for %s", id)
		}
	}
	if held := heldLoads(p); len(held) != 1 || held[0] != "http://listed#0" {
		t.Errorf("%q", held)
	}
}

// heldLoads are the replicas whose load a peer knows.
func heldLoads(p *Peer) []crdt.StreamID {
	held := p.loads.Held(nil)
	slices.Sort(held)
	return slices.Compact(held)
}

// listFile is a peer's own file of replicas.
func listFile(t *testing.T, urls ...string) (path string, write func(urls ...string)) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "replicas")
	write = func(urls ...string) {
		next := path + ".next"
		if err := os.WriteFile(next, []byte(strings.Join(urls, "\n")), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, path); err != nil {
			t.Fatal(err)
		}
	}
	write(urls...)
	return path, write
}

// listingPeer follows its file of replicas, joined with the seeds.
func listingPeer(t *testing.T, file string, seeds ...string) *Peer {
	t.Helper()
	cfg := DefaultConfig()
	cfg.HTTP.Listen, cfg.Admin.Listen, cfg.Mesh.Bind = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	cfg.Mesh.Insecure, cfg.Mesh.Join = true, seeds
	cfg.Drain.Delay, cfg.Drain.Timeout = 0, time.Second
	load := func() (Config, error) {
		text, err := os.ReadFile(file)
		next := cfg
		next.Replicas = nil
		for _, url := range strings.Fields(string(text)) {
			next.Replicas = append(next.Replicas, fleet.Spec{URL: url, Engine: "vllm"})
		}
		return next, err
	}
	first, err := load()
	if err != nil {
		t.Fatal(err)
	}
	p, err := New(first, Options{Version: "test", Source: Source{Files: []string{file}, Load: load}, departed: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return p
}

// facts is how many facts a peer holds of a stream.
func facts(p *Peer, id crdt.StreamID) int {
	d, _ := p.index.Digest(id)
	return int(d.Base.Count)
}

// rounds lets every peer have so many digest rounds more.
func rounds(t *testing.T, n uint64, peers ...*Peer) {
	t.Helper()
	count := func(p *Peer) (r uint64) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		p.mesh.inspect(ctx, func(c *gossip.Core) { r = c.Stats().Rounds })
		return r
	}
	until := map[*Peer]uint64{}
	for _, p := range peers {
		until[p] = count(p) + n
	}
	for _, p := range peers {
		wait(t, "digest rounds", func() bool { return count(p) >= until[p] })
	}
}

// TestDepartedReplicasLeaveEveryPeer takes a replica out of the peers' files one
// after the other, and lets a peer join in between that never lists it.
func TestDepartedReplicasLeaveEveryPeer(t *testing.T) {
	stays, leaves := "http://127.0.0.1:1", "http://127.0.0.1:2"
	fileA, writeA := listFile(t, stays, leaves)
	fileB, writeB := listFile(t, stays, leaves)
	fileC, _ := listFile(t, stays)
	a := listingPeer(t, fileA)
	b := listingPeer(t, fileB, a.Addresses().Mesh)
	idStays, idLeaves := crdt.NewStreamID(stays, 0), crdt.NewStreamID(leaves, 0)
	const blocks = 50
	for _, id := range []crdt.StreamID{idStays, idLeaves} {
		a.ingest.Deliver(kvevents.Delivery{Stream: id, Epoch: 1000, Anchor: 1, Slots: []crdt.Slot{storedSlot(t, 1, blocks)}, ReceivedAt: time.Now()})
	}
	wait(t, "b has caught up", func() bool { return facts(b, idStays) == blocks && facts(b, idLeaves) == blocks })

	writeA(stays)
	wait(t, "a forgets the replica", func() bool { return facts(a, idLeaves) == 0 })
	rounds(t, 2, a, b)
	c := listingPeer(t, fileC, a.Addresses().Mesh, b.Addresses().Mesh)
	wait(t, "c has caught up", func() bool { return facts(c, idStays) == blocks })
	rounds(t, 2, a, b, c)
	if facts(b, idLeaves) != blocks {
		t.Error("b lists it still and holds nothing")
	}
	for name, p := range map[string]*Peer{"the first": a, "the late one": c} {
		if n := facts(p, idLeaves); n > 0 {
			t.Errorf("%s holds %d facts of a replica that it does not list", name, n)
		}
	}

	writeB(stays)
	wait(t, "b forgets the replica", func() bool { return facts(b, idLeaves) == 0 })
	rounds(t, 2, a, b, c)
	for i, p := range []*Peer{a, b, c} {
		if n := facts(p, idLeaves); n > 0 || facts(p, idStays) != blocks || len(heldLoads(p)) > 1 {
			t.Errorf("peer %d: %d facts of what left, %d of what stays, loads of %q", i, n, facts(p, idStays), heldLoads(p))
		}
	}

	writeA(stays, leaves) // and comes back
	wait(t, "a lists it again", func() bool { return len(a.fleet.List()) == 2 })
	a.ingest.Deliver(kvevents.Delivery{Stream: idLeaves, Epoch: 1000, Anchor: 1, Slots: []crdt.Slot{storedSlot(t, 1, blocks)}, ReceivedAt: time.Now()})
	writeB(stays, leaves)
	wait(t, "b learns of it again", func() bool { return facts(b, idLeaves) == blocks })
}

// storedSlot is a batch that stores one run of blocks.
func storedSlot(t testing.TB, seq uint64, blocks int) crdt.Slot {
	t.Helper()
	var b crdt.Builder
	handles, hashes := make([]uint64, blocks), make([]uint64, blocks)
	for i := range handles {
		handles[i], hashes[i] = seq<<32|uint64(i+1), uint64(i+1)
	}
	b.Store(crdt.Op{Main: true, PerPage: 1, Root: 7}, handles, hashes)
	s, err := b.Slot(seq, int64(seq))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestRolloutsLeaveNothing replaces all of 64 replicas twenty times: what a peer
// holds, and how far its matches look, is what it was after the first.
func TestRolloutsLeaveNothing(t *testing.T) {
	const replicas, blocks, rollouts = 64, 2000, 20
	p := quietPeer(t, nil)
	now := time.Now()
	p.census.departed.clock = func() time.Time { return now }
	settle := func() {
		p.census.forgetDeparted(now)
		now = now.Add(departedAfter + time.Second)
		for range 2 {
			p.census.forgetDeparted(now)
			for p.index.Maintain(p.clock.ms(now), 1<<20) {
			}
		}
	}
	slot := storedSlot(t, 1, blocks)
	var first, last string
	var bytes int64
	for rollout := range rollouts {
		var specs []fleet.Spec
		for i := range replicas {
			specs = append(specs, fleet.Spec{URL: fmt.Sprintf("http://10.%d.0.%d:80", rollout, i)})
		}
		p.fleet.Set(specs, now)
		for i, r := range p.fleet.List() {
			p.path.directory.markOf(r)
			p.index.Apply(&crdt.Delta{Stream: r.Stream, Epoch: 1000, Anchor: 1, Slots: []crdt.Slot{slot}}, p.clock.ms(now))
			p.index.Predict(r.Stream, &index.Chain{Root: 7, Keys: []radix.Key{radix.Key(i + 1), radix.Key(i + 1000)}}, p.clock.ms(now))
			c := &load.Cost{Replica: r.Stream}
			p.loads.Dispatch(c, p.clock.ms(now))
			p.loads.Done(c, time.Second, 1, 1)
			p.loads.JoinScrapes(map[crdt.StreamID]crdt.Scrape{r.Stream: {Version: 1}})
			p.loads.JoinLoads(crdt.PeerID{9}, []crdt.LoadEntry{{Replica: r.Stream, Load: crdt.Load{Version: 1}}})
			p.loads.SetIntent(r.Stream, true, now.UnixMilli())
		}
		settle()
		st := p.index.Stats()
		last = fmt.Sprintf("%d facts, %d keys, %d streams, %d holders, %d places, loads of %d, %d drains, %d leaving",
			st.Facts, st.Keys, st.Streams, st.Holders, st.Places, len(heldLoads(p)), len(p.loads.Intents()), p.census.departed.rule.Leaving())
		t.Logf("rollout %d: %s, width %d, %d bytes", rollout, last, st.Width, st.Bytes)
		if rollout == 0 {
			first = last
		}
		// Two rollouts overlap, so numbers up to twice the replicas are in use.
		if most := 2 * 2 * replicas / 64; st.Width > most || rollout > 1 && st.Bytes > bytes {
			t.Errorf("rollout %d: matches look at %d words, want %d at most; %d bytes after %d", rollout, st.Width, most, st.Bytes, bytes)
		}
		bytes = max(bytes, st.Bytes)
	}
	if first != last {
		t.Errorf("after one rollout %s; after %d: %s", first, rollouts, last)
	}
}

// TestADrainOutlastsAMomentUnlisted: a replica that discovery leaves out for
// less than ten minutes is still drained when it is back.
func TestADrainOutlastsAMomentUnlisted(t *testing.T) {
	p := quietPeer(t, nil)
	now := time.Now()
	p.census.departed.clock = func() time.Time { return now }
	specs := []fleet.Spec{{URL: "http://10.0.0.1:80"}, {URL: "http://10.0.0.2:80"}}
	p.fleet.Set(specs, now)
	id := crdt.NewStreamID(specs[1].URL, 0)
	p.loads.SetIntent(id, true, 1)
	for _, away := range []time.Duration{departedAfter - time.Second, departedAfter + time.Second} {
		p.fleet.Set(specs[:1], now)
		p.census.forgetDeparted(now)
		now = now.Add(away)
		p.census.forgetDeparted(now)
		p.fleet.Set(specs, now)
		p.census.forgetDeparted(now)
		if got, want := p.loads.Draining(id), away < departedAfter; got != want {
			t.Errorf("drained after %v unlisted: %v, want %v", away, got, want)
		}
	}
}
