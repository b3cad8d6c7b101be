package gossip_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/gossip"
)

var rewrite = flag.Bool("rewrite", false, "write the transcripts anew")

// teller writes down what happens, without the chatter of heartbeats and acks.
type teller struct {
	bytes.Buffer
	quiet bool
}

func (w *teller) trace(at int64, x *Node, what string) {
	for _, boring := range []string{"> ? ", " load 0 ", " ack", "observed", "gossip.LoadChanged", "connected class"} {
		if strings.Contains(what, boring) {
			return
		}
	}
	if !w.quiet {
		fmt.Fprintf(w, "%6d %s %s\n", at-Start, x.Name, what)
	}
}

func (w *teller) say(format string, args ...any) { fmt.Fprintf(w, "-- "+format+"\n", args...) }

// scenes are conversations worth reading; each is compared with
// testdata/NAME.txt.
var scenes = map[string]func(t *testing.T, w *teller){
	"hello":         sceneHello,
	"refuse":        sceneRefuse,
	"late_delta":    sceneLateDelta,
	"late_snapshot": sceneLateSnapshot,
	"gap":           sceneGap,
	"divergence":    sceneDivergence,
	"second_owner":  sceneSecondOwner,
	"broken_link":   sceneBrokenLink,
	"resend":        sceneResend,
	"want_again":    sceneWantAgain,
	"snapshot_on":   sceneSnapshotOn,
	"snapshot_anew": sceneSnapshotAnew,
	"keys":          sceneKeys,
}

func TestTranscripts(t *testing.T) {
	for name, scene := range scenes {
		t.Run(name, func(t *testing.T) {
			var w teller
			scene(t, &w)
			file := filepath.Join("testdata", name+".txt")
			if *rewrite {
				if err := os.WriteFile(file, w.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(w.Bytes(), want) {
				t.Errorf("%s differs (-rewrite if that can be explained); got:\n%s", file, w.String())
			}
		})
	}
}

// quietMesh starts peers without writing it down.
func quietMesh(t *testing.T, w *teller, k int, cfg Config) (*Net, []*Node) {
	w.quiet = true
	cfg.Seed, cfg.Trace = 11, w.trace
	n, nodes := mesh(t, k, cfg)
	n.Run(100)
	w.quiet = false
	return n, nodes
}

func sceneHello(t *testing.T, w *teller) {
	n := New(Config{Seed: 11, Trace: w.trace})
	w.say("two peers meet; the smaller id dials")
	n.Add()
	n.Add()
	n.Run(100)
	w.quiet = true
}

func sceneRefuse(t *testing.T, w *teller) {
	cfg := odd(1, func(c *gossip.Config) { c.Label = "another" })
	cfg.Seed, cfg.Trace = 11, w.trace
	n := New(cfg)
	w.say("b belongs to another cluster")
	n.Add()
	n.Add()
	n.Run(1_000)
}

func sceneLateDelta(t *testing.T, w *teller) {
	n, nodes := quietMesh(t, w, 2, Config{})
	e := n.Engine("http://r")
	w.say("a ingests; the slots are pushed to b")
	e.Ingest(nodes[0], true, e.Emit(3)...)
	n.Run(10)
	w.say("c comes late and is served from the ring")
	n.Add()
	n.Run(60)
}

func sceneLateSnapshot(t *testing.T, w *teller) {
	n, nodes := quietMesh(t, w, 2, Config{State: smallRing, CutMs: 5})
	e := n.Engine("http://r")
	w.quiet, e.Calm = true, true
	for range 40 {
		e.Ingest(nodes[0], true, e.Emit(1)...)
		n.Run(5)
	}
	w.quiet = false
	w.say("c comes late; the ring no longer reaches back; a slot arrives while the snapshot is cut")
	n.Add()
	n.RunUntil(100, func() bool { return n.Nodes()[2].Core.Stats().Wants > 0 })
	e.Ingest(nodes[0], true, e.Emit(1)...)
	n.Run(100)
	if d := difference(n); d != "" {
		t.Error(d)
	}
}

func sceneGap(t *testing.T, w *teller) {
	n, nodes := quietMesh(t, w, 3, Config{})
	e := n.Engine("http://r")
	slots := e.Emit(5)
	e.Ingest(nodes[0], true, slots[0])
	w.say("a misses slots 2 and 3, b has 2, nobody has 3")
	nodes[1].State.Apply(&crdt.Delta{Stream: e.Stream, Epoch: e.Epoch, Anchor: 1, Slots: slots[1:2]}, n.Now())
	e.Ingest(nodes[0], true, slots[3:]...)
	n.Run(300)
	w.say("a gets 3 by replay")
	e.Ingest(nodes[0], true, slots[2])
	n.Run(300)
	if d := difference(n); d != "" {
		t.Error(d)
	}
}

func sceneDivergence(t *testing.T, w *teller) {
	n, nodes := quietMesh(t, w, 2, Config{CutMs: 5})
	e := n.Engine("http://r")
	w.quiet = true
	e.Ingest(nodes[0], true, e.Emit(6)...)
	n.Run(50)
	w.quiet = false
	w.say("a fault in b's memory loses a fact")
	nodes[1].State.Corrupt(e.Stream)
	e.Ingest(nodes[0], true, e.Emit(1)...)
	n.RunUntil(5_000, func() bool { return difference(n) == "" && nodes[1].Snaps == 1 })
	w.say("the next digests prove it healed")
	n.Run(2_500)
	if d := difference(n); d != "" {
		t.Error(d)
	}
	for _, x := range nodes {
		if s := x.Core.Stats(); s.Divergences == 0 || s.Divergent != 0 {
			t.Errorf("%s counted %d divergences, %d still open", x.Name, s.Divergences, s.Divergent)
		}
	}
}

func sceneSecondOwner(t *testing.T, w *teller) {
	n, nodes := quietMesh(t, w, 3, Config{})
	e := n.Engine("http://r")
	slots := e.Emit(3)
	w.say("both owners ingest; the first misses the last slot")
	e.Ingest(nodes[1], false, slots...)
	e.Ingest(nodes[0], true, slots[:2]...)
	n.Run(60)
}

func sceneBrokenLink(t *testing.T, w *teller) {
	n, nodes := quietMesh(t, w, 3, Config{})
	w.say("a and b cannot hear each other, c hears both")
	n.Cut(nodes[0], nodes[1])
	n.Cut(nodes[1], nodes[0])
	e := n.Engine("http://r")
	e.Ingest(nodes[0], true, e.Emit(2)...)
	n.RunUntil(5_000, func() bool { return difference(n) == "" })
}

func sceneResend(t *testing.T, w *teller) {
	n, nodes := quietMesh(t, w, 2, Config{})
	e := n.Engine("http://r")
	w.quiet = true
	n.Run(2_500)
	w.quiet = false
	w.say("the connection breaks while slots are on their way")
	e.Ingest(nodes[0], true, e.Emit(2)...)
	n.Break(nodes[0], nodes[1])
	n.RunUntil(5_000, func() bool { return difference(n) == "" })
}

// behind makes a know 40 slots of a stream that b has never heard of and that
// only a snapshot brings, one frame at a time and late.
func behind(t *testing.T, w *teller) (n *Net, a, b *Node) {
	n, nodes := quietMesh(t, w, 2, Config{State: smallRing, CutMs: 5, Core: gossip.Config{Limits: gossip.Limits{SnapshotBytes: 1}}})
	a, b = nodes[0], nodes[1]
	w.quiet = true
	n.Run(2_500)
	n.Link(a, b).BulkMs, n.Link(b, a).BulkMs = 30, 30
	e := n.Engine("http://r")
	e.Calm = true
	for _, s := range e.Emit(40) {
		a.State.Apply(&crdt.Delta{Stream: e.Stream, Epoch: e.Epoch, Anchor: 1, Slots: []crdt.Slot{s}}, n.Now())
	}
	n.RunUntil(5_000, func() bool { return b.Core.Stats().Wants > 0 })
	w.quiet = false
	return n, a, b
}

func sceneWantAgain(t *testing.T, w *teller) {
	n, a, b := behind(t, w)
	w.say("b has asked; the connection of the answer is replaced; b asks again once a has the new one")
	n.Connect(b, a, gossip.Bulk, a.ID)
	n.RunUntil(2_000, func() bool { return difference(n) == "" })
}

func sceneSnapshotOn(t *testing.T, w *teller) {
	n, a, b := behind(t, w)
	w.quiet = true
	n.RunUntil(1_000, func() bool { return b.Core.Stats().StagedBytes > 0 })
	w.quiet = false
	w.say("a snapshot is coming; the connection of the want breaks; the snapshot goes on")
	n.BreakClass(a, b, gossip.Fast)
	n.RunUntil(2_000, func() bool { return difference(n) == "" })
}

func sceneSnapshotAnew(t *testing.T, w *teller) {
	n, a, b := behind(t, w)
	w.quiet = true
	n.RunUntil(1_000, func() bool { return a.Core.Stats().Sent["snapshot"].Frames > 0 })
	w.quiet = false
	w.say("a snapshot has begun; the connection of the want breaks before its first piece came; it begins anew")
	n.BreakClass(a, b, gossip.Fast)
	n.RunUntil(2_000, func() bool { return difference(n) == "" })
	if s := b.Core.Stats(); difference(n) != "" || s.Dropped["want"] > 0 {
		t.Errorf("%s; dropped %v", difference(n), s.Dropped)
	}
}

func sceneKeys(t *testing.T, w *teller) {
	n, nodes := quietMesh(t, w, 2, Config{})
	a, b := nodes[0], nodes[1]
	e := n.Engine("http://r")
	w.quiet = true
	e.Ingest(a, true, chain(t))
	n.Run(50)
	w.quiet = false
	w.say("a knows no key of one block, b of another; the facts are equal")
	a.State.Unlink(e.Stream, 2)
	b.State.Unlink(e.Stream, 3)
	if difference(n) == "" {
		t.Fatal("nothing is missing")
	}
	n.RunUntil(5_000, func() bool { return difference(n) == "" })
	w.say("the next digests prove it healed")
	n.Run(2_500)
	if d := difference(n); d != "" {
		t.Error(d)
	}
	for _, x := range nodes {
		if s := x.Core.Stats(); s.KeyMismatches == 0 || s.KeysAsked != 1 || s.KeysLinked != 1 || s.Divergences != 0 {
			t.Errorf("%s: %+v", x.Name, s)
		}
	}
}
