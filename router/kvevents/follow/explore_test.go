package follow

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"testing"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/crdt/crdttest"
)

// setting is one kind of engine, and how it restarts.
type setting struct {
	name   string
	tells  bool // its start time
	replay bool
	starts [2]uint64 // of its two processes, by its own clock, ms
}

// settings are walked each by itself.
var settings = []setting{
	{"tells, replay", true, true, [2]uint64{5000, 9000}},
	{"tells, no replay", true, false, [2]uint64{5000, 9000}},
	{"tells, clock set back", true, true, [2]uint64{5000, 3000}},
	{"tells, clock set back, no replay", true, false, [2]uint64{5000, 3000}},
	{"silent, replay", false, true, [2]uint64{5000, 9000}},
	{"silent, clock set back", false, true, [2]uint64{5000, 3000}},
	{"silent, no replay", false, false, [2]uint64{5000, 9000}},
}

// world is an engine of two processes, one after the other, and two owners that
// follow it, each with what the mesh knows there.
type world struct {
	setting
	process int
	log     [2][]crdt.Slot
	owners  [2]*owner
	now     int64
	names   map[uint64]int // process by epoch
	late    bool           // a replay was not answered in time: what it had may be given up
	forgot  bool           // a peer forgot the stream: once is enough
	why     string         // what was broken first
}

// owner is a tracker, its connection, and the stream that it feeds.
type owner struct {
	tracker *Tracker
	stream  *crdt.Stream
	view    *crdttest.View
	conn    int          // process at the other end + 1; 0: none
	asked   bool         // who is there; not answered yet
	pipe    []*crdt.Slot // on its way; nil: the connection's end
	replay  *ReplayFrom  // in flight
	lost    []crdt.Span  // told as exhausted
}

func newWorld(s setting) *world {
	w := &world{setting: s, names: map[uint64]int{}}
	for i := range w.owners {
		view := &crdttest.View{}
		w.owners[i] = &owner{
			tracker: New(s.replay), view: view,
			stream: crdt.NewStream(crdt.StreamConfig{ID: "s", Open: view.Open, Ring: crdt.NewRing(400)}),
		}
	}
	return w
}

// maxSlots is how many batches a process says at most.
const maxSlots = 3

// actions are the things that may happen next.
func (w *world) actions() (out []string) {
	if len(w.log[w.process]) < maxSlots {
		out = append(out, "emit")
	}
	if w.process == 0 {
		out = append(out, "restart")
	}
	out = append(out, "wait")
	for i, o := range w.owners {
		add := func(what string, can bool) {
			if can {
				out = append(out, fmt.Sprintf("%s%d", what, i))
			}
		}
		add("connect", o.conn == 0)
		add("cut", o.conn != 0)
		add("answer", o.asked)
		add("hear", len(o.pipe) > 0)
		add("miss", len(o.pipe) > 0 && o.pipe[0] != nil)
		add("replay", o.replay != nil)
		add("fail", o.replay != nil)
		add("gossip", true)
		add("forget", !w.forgot && o.stream.Epoch() != 0)
	}
	return out
}

// do lets one thing happen.
func (w *world) do(action string) {
	i := int(action[len(action)-1] - '0')
	switch what := strings.TrimRight(action, "01"); what {
	case "emit":
		w.emit()
	case "restart":
		w.process = 1
		for _, o := range w.owners {
			if o.conn != 0 {
				o.pipe = append(o.pipe, nil)
			}
		}
	case "wait":
		w.now += holdMs + 1
		w.late = w.late || w.owners[0].replay != nil || w.owners[1].replay != nil
		for _, o := range w.owners {
			w.step(o, Tick{})
		}
	case "connect":
		w.connect(w.owners[i])
	case "cut":
		o := w.owners[i]
		o.conn, o.asked, o.pipe = 0, false, nil
		w.step(o, Disconnected{})
	case "answer":
		w.answer(w.owners[i])
	case "hear":
		w.hear(w.owners[i])
	case "miss":
		w.owners[i].pipe = w.owners[i].pipe[1:]
	case "replay":
		w.playBack(w.owners[i])
	case "fail":
		w.late = true
		w.owners[i].replay = nil
		w.step(w.owners[i], ReplayEnded{})
	case "gossip":
		w.gossip(w.owners[i], w.owners[1-i])
	case "forget":
		w.forgot = true
		w.owners[i].stream.Forget()
	}
}

func (w *world) emit() {
	seq := uint64(len(w.log[w.process])) + 1
	var b crdt.Builder
	b.Store(crdt.Op{Main: true, PerPage: 1, Root: 1}, []uint64{uint64(w.process+1)*1000 + seq}, []uint64{seq})
	s, err := b.Slot(seq, int64(w.starts[w.process])*1000+int64(seq)*7000)
	if err != nil {
		panic(err)
	}
	w.log[w.process] = append(w.log[w.process], s)
	for _, o := range w.owners {
		if o.conn == w.process+1 && !slices.Contains(o.pipe, nil) {
			o.pipe = append(o.pipe, &s)
		}
	}
}

func (w *world) connect(o *owner) {
	o.conn, o.asked, o.pipe = w.process+1, true, nil
	w.step(o, Connected{})
}

// answer is the engine's; that of a connection that ended is dropped by the
// caller.
func (w *world) answer(o *owner) {
	o.asked = false
	if o.conn != w.process+1 {
		return // its end is on its way
	}
	told := Identified{}
	if w.tells {
		told.Start = w.starts[w.process]
	}
	w.step(o, told)
}

func (w *world) hear(o *owner) {
	s := o.pipe[0]
	o.pipe = o.pipe[1:]
	if s == nil {
		o.conn, o.asked, o.pipe = 0, false, nil
		w.step(o, Disconnected{})
		return
	}
	w.step(o, Live{*s})
}

// playBack answers a replay whole. The process of a connection whose end was not
// noticed yet answers nothing: the next one takes longer to start than that.
func (w *world) playBack(o *owner) {
	from := o.replay.From
	o.replay = nil
	if o.conn != w.process+1 {
		w.step(o, ReplayEnded{})
		return
	}
	for _, s := range w.log[w.process] {
		if s.Seq >= from {
			w.step(o, Replayed{s})
			if o.replay != nil {
				return // another one is asked for
			}
		}
	}
	w.step(o, ReplayEnded{Complete: true})
}

// step feeds one event and does what comes of it.
func (w *world) step(o *owner, ev Event) {
	c := o.stream.Context()
	prior := Prior{Epoch: c.Epoch, Anchor: c.Anchor, Floor: c.Floor}
	prior.LastSeq, prior.LastTS = o.stream.Last()
	out := o.tracker.Step(w.now, prior, ev)
	for i := range out.Deliver {
		w.delivered(out.Epoch, out.Anchor, &out.Deliver[i])
	}
	if len(out.Deliver) > 0 || out.Opened {
		o.stream.Apply(&crdt.Delta{Stream: "s", Epoch: out.Epoch, Anchor: out.Anchor, Slots: out.Deliver}, w.now)
	}
	o.lost = append(o.lost, out.Exhausted...)
	if out.StopReplay {
		o.replay = nil
	}
	if out.Replay != nil {
		o.replay = out.Replay
	}
	if out.HangUp {
		o.conn, o.asked, o.pipe = 0, false, nil
	}
}

// delivered holds a slot against the process that its epoch names.
func (w *world) delivered(epoch, anchor uint64, s *crdt.Slot) {
	process := -1
	for i, log := range w.log {
		if s.Seq <= uint64(len(log)) && log[s.Seq-1].TS == s.TS {
			process = i
		}
	}
	was, ok := w.names[epoch]
	switch {
	case ok && was != process:
		w.fault("epoch %d names process %d and %d", epoch, was, process)
	case s.Seq < anchor:
		w.fault("slot %d is below its anchor %d", s.Seq, anchor)
	}
	w.names[epoch] = process
	if w.starts[1] < w.starts[0] {
		return // who knows nothing of the first may name the second below it, until they meet
	}
	for other, p := range w.names {
		if p < process && other > epoch || p > process && other < epoch {
			w.fault("process %d is epoch %d, and process %d is %d", process, epoch, p, other)
		}
	}
}

func (w *world) fault(format string, args ...any) {
	if w.why == "" {
		w.why = fmt.Sprintf(format, args...)
	}
}

// gossip tells b all that a knows.
func (w *world) gossip(a, b *owner) {
	c := b.stream.Context()
	if d, ok := a.stream.Since(&c, 1<<20); ok {
		if mine := a.stream.Context(); mine.Epoch != 0 && (len(d.Slots)+len(d.Lost) > 0 || mine.Epoch > c.Epoch) {
			b.stream.Apply(&d, w.now)
		}
		return
	}
	cut := a.stream.BeginCut()
	if cut == nil {
		return
	}
	for !cut.Next(100) {
	}
	j, err := b.stream.BeginJoin(cut.Snapshot(), w.now)
	for done := false; err == nil && !done; {
		done, err = j.Next(w.now)
	}
	if err != nil {
		w.fault("join: %v", err)
	}
}

// check is what holds at every moment: no peer shows a block that no batch of
// its epoch's process stored.
func (w *world) check() {
	for i, o := range w.owners {
		c := o.stream.Context()
		process, named := w.names[c.Epoch]
		for e := range o.view.Metas() {
			if !named || int(e.Handle/1000)-1 != process {
				w.fault("peer %d shows block %d under epoch %d, which is process %d", i, e.Handle, c.Epoch, process)
			}
		}
	}
}

// heal lets everything that can be heard be heard, and checks what is left.
func (w *world) heal() {
	known := w.most()
	for _, o := range w.owners {
		for len(o.pipe) > 0 {
			w.hear(o)
		}
	}
	w.settle()
	w.log[w.process] = append([]crdt.Slot(nil), w.log[w.process]...)
	for range 2 { // two last words, heard by all
		w.emit()
		w.settle()
	}
	a, b := w.owners[0], w.owners[1]
	if a.stream.Quarantined() || b.stream.Quarantined() {
		if w.tells {
			w.fault("one restart became a quarantine")
		}
		return
	}
	ca, cb := a.stream.Context(), b.stream.Context()
	switch process, ok := w.names[ca.Epoch]; {
	case !ca.Equal(&cb):
		w.fault("healed, peers have %+v and %+v", ca, cb)
	case !ok || process != w.process:
		w.fault("healed, epoch %d names process %d, and %d runs", ca.Epoch, process, w.process)
	case w.replay && w.tells && !w.late && knowledge(&ca) < len(w.log[w.process]):
		w.fault("healed, %+v is known of %d slots", ca, len(w.log[w.process]))
	case w.tells && knowledge(&ca) < known:
		w.fault("healed, %+v is known, %d slots were before", ca, known)
	}
	w.check()
}

// most is how many slots of the running process a peer knows.
func (w *world) most() (n int) {
	for _, o := range w.owners {
		if c := o.stream.Context(); w.names[c.Epoch] == w.process && c.Epoch != 0 {
			n = max(n, knowledge(&c))
		}
	}
	return n
}

func knowledge(c *crdt.Context) (n int) {
	for seq := uint64(1); seq <= 2*maxSlots+4; seq++ {
		if c.Knows(seq) {
			n++
		}
	}
	return n
}

// settle connects, answers, replays, gossips and fills holes until nothing
// changes.
func (w *world) settle() {
	for range 12 {
		for _, o := range w.owners {
			if o.conn == 0 {
				w.connect(o)
			}
			if o.asked {
				w.answer(o)
			}
			for len(o.pipe) > 0 {
				w.hear(o)
			}
			for range 20 {
				if o.replay == nil {
					break
				}
				w.playBack(o)
			}
		}
		w.gossip(w.owners[0], w.owners[1])
		w.gossip(w.owners[1], w.owners[0])
		for _, o := range w.owners {
			if holes := o.stream.Holes(99); len(holes) > 0 {
				w.step(o, Wanted{holes})
				if len(o.lost) > 0 {
					o.stream.Declare(o.lost, w.now)
				}
			}
			w.step(o, Tick{})
		}
		w.now += 1000
	}
	for _, o := range w.owners { // what cannot be proved ends by time
		for range 10 {
			if o.tracker.Phase() == Verifying {
				w.now += 1000
				w.step(o, Tick{})
			}
		}
	}
}

// key names a state: two with one key go on alike.
func (w *world) key() uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, w.process, len(w.log[0]), len(w.log[1]), w.late, w.forgot)
	for _, o := range w.owners {
		t := o.tracker
		fmt.Fprint(h, "|", t.phase, t.up, t.start, t.known, t.heard, t.inc, len(t.bumps), t.seek.from, w.now-t.seek.since > holdMs, t.seek.attempts, t.seek.short, t.fetch.running, t.fetch.missing, t.fetch.idle, t.fetch.attempts)
		for _, s := range t.seek.held {
			fmt.Fprint(h, s.Seq, s.TS)
		}
		fmt.Fprint(h, "|", o.conn, o.asked, o.replay != nil, o.lost, o.stream.Digest(), o.stream.Quarantined())
		if o.replay != nil {
			fmt.Fprint(h, *o.replay)
		}
		for _, s := range o.pipe {
			if s == nil {
				fmt.Fprint(h, "end")
			} else {
				fmt.Fprint(h, s.Seq, s.TS)
			}
		}
	}
	return h.Sum64()
}

// play lets a row of things happen.
func play(s setting, path []string) *world {
	w := newWorld(s)
	for _, a := range path {
		w.do(a)
		w.check()
	}
	return w
}

// exploreDepth is how many things happen after the beginning, in every order.
const exploreDepth, exploreShort = 7, 5

// TestEveryInterleaving walks every order of emissions, a restart, cuts, answers,
// losses, replays that come or fail, gossip, and a peer that forgets what it knows,
// for two owners of an engine with two processes, from the beginning and from the moments after which most went
// wrong. In every state that is reached: one epoch names one process, a later one
// the higher; nobody shows a block of another process. From every state, once all
// is healed: both peers are equal, follow the process that runs, and know no less
// of it than either did, all that its replay has included.
func TestEveryInterleaving(t *testing.T) {
	depth := exploreDepth
	if testing.Short() {
		depth = exploreShort
	}
	beginnings := [][]string{
		nil,
		{"connect0", "answer0", "connect1", "answer1", "emit", "hear0", "hear1"},
		{"connect0", "answer0", "connect1", "answer1", "emit", "hear0", "hear1", "restart", "hear0", "connect0", "answer0"},
		{"connect0", "answer0", "emit", "hear0", "emit", "hear0", "cut0", "emit", "connect1", "answer1"},
	}
	for _, s := range settings {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			states := 0
			for _, begin := range beginnings {
				var ok []string
				for _, a := range begin { // as far as it can happen here
					if slices.Contains(play(s, ok).actions(), a) {
						ok = append(ok, a)
					}
				}
				states += explore(t, s, ok, depth-min(len(ok)/4, 2))
			}
			t.Logf("%d states", states)
		})
	}
}

// explore walks all states within so many steps of a path, each once.
func explore(t *testing.T, s setting, begin []string, depth int) int {
	seen := map[uint64]bool{}
	level := [][]string{begin}
	for d := 0; len(level) > 0; d++ {
		var next [][]string
		for _, path := range level {
			w := play(s, path)
			if k := w.key(); seen[k] {
				continue
			} else {
				seen[k] = true
			}
			if d < depth {
				for _, a := range w.actions() {
					next = append(next, append(slices.Clone(path), a))
				}
			}
			if w.heal(); w.why != "" {
				t.Fatalf("%s\nafter %s", w.why, strings.Join(path, " "))
			}
		}
		level = next
	}
	return len(seen)
}
