package follow

import "testing"

// Two owners of an engine that tells no start time and offers no replay, whose
// batches come 12 s apart for 15 minutes.
func TestAProcessThatSeldomSpeaksIsNamedOnce(t *testing.T) {
	const gapMs, batches = 12_000, 75
	for _, c := range []struct {
		name   string
		change []string // after the first batch, which owner 0 heard
		names  int
	}{
		{"an owner takes up what the other one reads on", []string{"connect1", "answer1"}, 1},
		{"an owner's connection ends", []string{"connect1", "answer1", "emit", "hear0", "gossip0", "hear1", "cut0", "connect0", "answer0"}, 1},
		{"both connections end: nothing proves that it is the same", []string{"cut0", "connect0", "answer0", "connect1", "answer1"}, 2},
		{"both end, and one is late", []string{"cut0", "connect0", "answer0", "emit", "hear0", "wait", "connect1", "answer1"}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := play(setting{name: "silent, no replay", starts: [2]uint64{5000, 9000}}, []string{"connect0", "answer0", "emit", "hear0", "gossip0"})
			for _, a := range c.change {
				w.do(a)
			}
			for range batches {
				w.emit()
				for ms := 0; ms < gapMs; ms += 250 {
					w.turn()
					w.now += 250
				}
			}
			if len(w.names) != c.names || w.why != "" {
				t.Errorf("%d names of one process, want %d: %v %s", len(w.names), c.names, w.names, w.why)
			}
			context := w.owners[1].stream.Context()
			if known := len(w.log[0]) - int(context.Anchor) + 1; context.Floor != uint64(len(w.log[0])) || known < batches {
				t.Errorf("of %d batches %+v is known", len(w.log[0]), context)
			}
		})
	}
}

// turn lets both owners hear all that came, connect again and tell each other.
func (w *world) turn() {
	for _, o := range w.owners {
		if o.conn == 0 {
			w.connect(o)
			w.answer(o)
		}
		for len(o.pipe) > 0 {
			w.hear(o)
		}
	}
	w.gossip(w.owners[0], w.owners[1])
	w.gossip(w.owners[1], w.owners[0])
	for _, o := range w.owners {
		w.step(o, Tick{})
	}
}
