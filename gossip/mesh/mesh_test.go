package mesh

import (
	"context"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/serf/serf"

	"github.com/banyan-llm/banyan/gossip"
)

func TestThreePeersMeetBySeedAndPart(t *testing.T) {
	t.Parallel()
	a := start(t, config("a"))
	b := start(t, config("b", a.Addr()))
	cfg := config("c", a.Addr())
	c := start(t, cfg)
	whole(t, a, b, c)
	if got := a.value(t, "banyan_mesh_peers"); got != 3 {
		t.Errorf("banyan_mesh_peers = %v, want 3", got)
	}
	a.dispatch(5)
	b.knows(t, a, 5)
	c.knows(t, a, 5)
	c.dispatch(9)
	a.knows(t, c, 9)

	// A graceful leave is no failure, and its load goes.
	if err := b.Leave(); err != nil {
		t.Fatal(err)
	}
	b.close(t)
	eventually(t, "a saw b leave", func() bool { return a.stateOf(b) == Left })
	eventually(t, "c saw b leave", func() bool { return c.stateOf(b) == Left })

	// An abrupt end is one.
	c.close(t)
	eventually(t, "a saw c fail", func() bool { return a.stateOf(c) == Failed })
	if n := a.log.count("[WARN]  a: peer failed: the others take over its event subscriptions: name=c peer=" + c.id.String()); n != 1 {
		t.Errorf("that c failed was logged %d times, want once", n)
	}
	eventually(t, "a dropped c's load", func() bool { _, ok := a.state.of(c.id); return !ok })

	// The same name comes back on the same port as another peer.
	again := config("c", a.Addr())
	again.Bind = c.Addr()
	c2 := start(t, again)
	whole(t, a, c2)
	c2.dispatch(2)
	a.knows(t, c2, 2)
	if got := a.value(t, "banyan_mesh_peers"); got != 2 {
		t.Errorf("banyan_mesh_peers = %v, want 2", got)
	}
}

func TestAdvertisedAddress(t *testing.T) {
	t.Parallel()
	for advertise, want := range map[string]string{
		"127.0.0.9": "127.0.0.9:PORT", "127.0.0.9:0": "127.0.0.9:PORT", "127.0.0.9:5": "127.0.0.9:5", "": "127.0.0.1:PORT",
	} {
		cfg := config("a")
		cfg.Bind, cfg.Advertise = "127.0.0.1:0", advertise
		n := newNode(t, cfg)
		port := strconv.Itoa(n.transport.tcp.Addr().(*net.TCPAddr).Port)
		if got := n.Addr(); got != strings.ReplaceAll(want, "PORT", port) {
			t.Errorf("advertise %q: %s, want %s", advertise, got, want)
		}
	}
}

func TestInsecureMeshRunsInPlaintext(t *testing.T) {
	t.Parallel()
	cfg := config("a")
	cfg.Keyring, cfg.Insecure = nil, true
	a := start(t, cfg)
	cfg = config("b", a.Addr())
	cfg.Keyring, cfg.Insecure = nil, true
	b := start(t, cfg)
	whole(t, a, b)
	a.dispatch(1)
	b.knows(t, a, 1)
	if a.log.count("not encrypted") != 1 {
		t.Error("no warning about the missing encryption")
	}
}

func TestTagsTravel(t *testing.T) {
	t.Parallel()
	a := start(t, config("a"))
	b := start(t, config("b", a.Addr()))
	whole(t, a, b)
	find := func() Member {
		for _, m := range a.Members() {
			if m.ID == b.id {
				return m
			}
		}
		return Member{}
	}
	if m := find(); m.Ready || m.Draining || m.Name != "b" || m.HTTP != "127.0.0.1:8080" || m.Version != "v1" ||
		m.Protocol != gossip.Version || m.Addr != b.Addr() {
		t.Errorf("first tags: %+v", m)
	}
	b.SetTags(true, false, "0123abcd")
	eventually(t, "ready", func() bool { m := find(); return m.Ready && !m.Draining && m.Settings == "0123abcd" })
	before := find().Settled
	b.SetTags(true, true, "0123abcd")
	eventually(t, "draining", func() bool { return find().Draining })
	if got := find().Settled; !got.Equal(before) {
		t.Errorf("settings that did not change count as new: %v, then %v", before, got)
	}
	b.SetTags(true, true, "other")
	eventually(t, "other settings", func() bool { m := find(); return m.Settings == "other" && m.Settled.After(before) })
	if ms := a.Members(); !ms[0].Self || ms[0].ID != a.id {
		t.Errorf("first member is %+v, want self", ms[0])
	}
}

func TestSeedsAreTriedForEver(t *testing.T) {
	t.Parallel()
	later := newNode(t, config("later")) // holds its port, answers nothing yet
	addr := later.Addr()
	later.close(t)
	a := start(t, config("a", addr, "no-such-host.invalid:1"))
	eventually(t, "some vain attempts", func() bool { return a.value(t, "banyan_mesh_joins_total", "failed") >= 3 })
	cfg := config("later")
	cfg.Bind = addr
	b := start(t, cfg)
	whole(t, a, b)
	if n := a.log.count("seed unreachable"); n != 1 {
		t.Errorf("the vain seed was logged %d times, want once", n)
	}
}

func TestHealAfterReap(t *testing.T) {
	t.Parallel()
	cfg := config("a")
	cfg.Timing.ReapAfter = 300 * time.Millisecond
	a := start(t, cfg)
	cfg = config("b", a.Addr())
	cfg.Timing.ReapAfter = 300 * time.Millisecond
	b := start(t, cfg)
	whole(t, a, b)
	// b goes silent for longer than a remembers it, then returns.
	addr := b.Addr()
	b.close(t)
	eventually(t, "a forgot b", func() bool { return a.stateOf(b) == "" })
	cfg = config("b", a.Addr())
	cfg.Bind = addr
	whole(t, a, start(t, cfg))
}

// I7: with a day between rounds, a member that was lost and forgotten is found
// again soon.
func TestALossMakesSeedsBeTriedSooner(t *testing.T) {
	t.Parallel()
	b := start(t, config("b"))
	addr := b.Addr()
	cfg := config("a", addr)
	cfg.Timing.JoinEvery, cfg.Timing.ReapAfter = 24*time.Hour, 300*time.Millisecond
	a := start(t, cfg)
	c := start(t, config("c", a.Addr())) // a is never alone
	whole(t, a, b, c)
	b.close(t)
	eventually(t, "a forgot b", func() bool { return a.stateOf(b) == "" })
	eventually(t, "a tried b in vain", func() bool { return a.value(t, "banyan_mesh_joins_total", "failed") >= 2 })
	cfg = config("b")
	cfg.Bind = addr
	whole(t, a, c, start(t, cfg))
}

// I7: two halves, each whole and without memory of the other, meet: seeds are
// tried by those who are not alone, too.
func TestHalvesThatForgotEachOtherMeet(t *testing.T) {
	t.Parallel()
	seed := newNode(t, config("a"))
	addr := seed.Addr()
	seed.close(t)
	c := start(t, config("c", addr))
	d := start(t, config("d", c.Addr()))
	whole(t, c, d)
	tried := c.value(t, "banyan_mesh_joins_total", "failed")
	eventually(t, "c still tries", func() bool { return c.value(t, "banyan_mesh_joins_total", "failed") > tried+1 })
	cfg := config("a")
	cfg.Bind = addr
	a := start(t, cfg)
	b := start(t, config("b", addr))
	whole(t, a, b, c, d)
}

// I7: the end of a partition is noticed without seeds and without membership's
// own attempts.
func TestAPartitionThatEndsIsNoticed(t *testing.T) {
	t.Parallel()
	c := newCable()
	var nodes []*node
	for i := range 4 {
		cfg := config(string(rune('a' + i)))
		cfg.wire = c.wire(i >= 2)
		cfg.tune = func(s *serf.Config) {
			quick(s)
			s.ReconnectInterval, s.MemberlistConfig.GossipToTheDeadTime = 24*time.Hour, time.Millisecond
		}
		n := start(t, cfg)
		c.place(n.Addr(), i >= 2)
		if i > 0 {
			if _, err := n.serf.Join([]string{nodes[0].Addr()}, true); err != nil { // no seeds, or they would be tried
				t.Fatal(err)
			}
		}
		nodes = append(nodes, n)
	}
	whole(t, nodes...)
	c.cut()
	for _, x := range nodes[:2] {
		for _, y := range nodes[2:] {
			eventually(t, "the halves take each other for dead", func() bool { return x.stateOf(y) == Failed && y.stateOf(x) == Failed })
		}
	}
	whole(t, nodes[:2]...)
	whole(t, nodes[2:]...)
	c.heal()
	whole(t, nodes...)
	nodes[0].dispatch(7)
	nodes[3].knows(t, nodes[0], 7)
}

func TestCloseEndsWhatWaits(t *testing.T) {
	t.Parallel()
	n := newNode(t, config("a"))
	n.close(t) // before Start
	if err := n.Do(context.Background(), func() {}); err == nil {
		t.Error("Do after Close did not fail")
	}
	if err := n.Start(); err == nil {
		t.Error("started after Close")
	}
	n = start(t, config("a"))
	n.close(t)
	if err := n.Do(context.Background(), func() {}); err == nil {
		t.Error("Do after Close did not fail")
	}
	if err := n.Leave(); err == nil {
		t.Error("Leave after Close did not fail")
	}
	n.Post(gossip.LoadChanged{Urgent: true}) // must not hang or panic
	if err := n.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
}

func TestWhoIsAloneSaysNoGoodbye(t *testing.T) {
	t.Parallel()
	a := start(t, config("a"))
	if err := a.Leave(); err != nil {
		t.Errorf("alone: %v", err)
	}
	if st := a.serf.State(); st != serf.SerfAlive {
		t.Errorf("alone, a peer waited for others to hear its goodbye: membership is %v", st)
	}
	a.close(t)
	if a.log.count("[WARN]  a: serf: Shutdown") != 0 {
		t.Error("alone, a peer warns when it stops as it should")
	}
}

// memberlist panics in a Leave that outlives its Shutdown.
func TestCloseWaitsForAGoodbyeUnderWay(t *testing.T) {
	t.Parallel()
	a := start(t, config("a"))
	b := start(t, config("b", a.Addr()))
	whole(t, a, b)
	left := make(chan error, 1)
	go func() { left <- b.Leave() }()
	eventually(t, "b says goodbye", func() bool { return b.serf.State() == serf.SerfLeaving })
	b.close(t)
	if err := <-left; err != nil {
		t.Errorf("a goodbye was cut by Close: %v", err)
	}
	eventually(t, "a saw b leave", func() bool { return a.stateOf(b) == Left })
}
