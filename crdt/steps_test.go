package crdt_test

import (
	"fmt"
	"maps"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/banyan-llm/banyan/crdt"
)

// twins are two streams to which the same happens: one folds in steps of a few
// blocks and stops anywhere, the other folds whole. A third one only gathers
// what snapshots are cut from.
type twins struct {
	w            world
	epochs       int // first ones of w; the rest are revivals
	steps, whole *peer
	donor        *peer
	now          int64
	rest         *crdt.Outcome // known
	promised     []promise
}

// promise is an outcome that is whole when the fold is at its end.
type promise struct {
	got  *crdt.Outcome
	want crdt.Outcome
}

func newTwins(t *rapid.T) *twins {
	tw := &twins{w: world{}, whole: wide(), donor: wide(), steps: wide()}
	tw.steps.Stream = crdt.NewStream(crdt.StreamConfig{
		ID: streamID, Open: tw.steps.view.Open, Hold: rapid.IntRange(1, 12).Draw(t, "hold"),
	})
	tw.epochs = rapid.IntRange(1, 3).Draw(t, "epochs")
	for e := range tw.epochs {
		epoch := uint64(1000 + 10*e)
		tw.w[epoch] = drawLog(t, epoch, rapid.IntRange(4, 12).Draw(t, "slots"), true)
	}
	return tw
}

// log draws an incarnation, mostly the present one.
func (tw *twins) log(t *rapid.T) *engineLog {
	if l := tw.w[tw.whole.Epoch()]; l != nil && rapid.IntRange(0, 5).Draw(t, "other epoch") > 0 {
		return l
	}
	return tw.w[uint64(1000+10*rapid.IntRange(0, tw.epochs-1).Draw(t, "epoch"))]
}

// both does the same to both; what the stepped one tells is compared at once
// or, if its fold is not at its end, then.
func (tw *twins) both(t *rapid.T, what string, do func(p *peer) crdt.Outcome) {
	want, got := do(tw.whole), do(tw.steps)
	tw.keep(t) // what was pending is at its end now
	if rest := tw.steps.Unsettled(); rest != nil {
		if rest != tw.rest {
			tw.promised = append(tw.promised, promise{rest, want})
		}
		tw.rest = rest
		return
	}
	if !same(got, want) {
		t.Fatalf("%s: %+v in steps, %+v whole", what, got, want)
	}
}

// same compares outcomes. Which slots before a clear are kept, so that another
// content of theirs is noticed, depends on what came with the clear.
func same(a, b crdt.Outcome) bool {
	a.Conflicts, b.Conflicts = 0, 0
	return reflect.DeepEqual(a, b)
}

// keep compares outcomes that are whole now.
func (tw *twins) keep(t *rapid.T) {
	rest := tw.promised[:0]
	for _, p := range tw.promised {
		if p.got == tw.steps.Unsettled() {
			rest = append(rest, p)
		} else if !same(*p.got, p.want) {
			t.Fatalf("%+v in steps, %+v whole", *p.got, p.want)
		}
	}
	tw.promised = rest
}

// act does something to both.
func (tw *twins) act(t *rapid.T) {
	tw.now += int64(rapid.IntRange(1, 20_000).Draw(t, "wait"))
	switch k := rapid.IntRange(0, 19).Draw(t, "event"); {
	case k < 10:
		l := tw.log(t)
		seqs := rapid.SliceOfN(rapid.Uint64Range(1, uint64(len(l.slots))), 1, 4).Draw(t, "seqs")
		tw.donor.takeAt(l, tw.now, seqs[0])
		tw.both(t, "slots", func(p *peer) crdt.Outcome {
			d := crdt.Delta{Stream: streamID, Epoch: l.epoch, Anchor: 1}
			for _, seq := range seqs {
				d.Slots = append(d.Slots, l.slots[seq-1])
			}
			if p == tw.steps {
				d.Inspect()
			}
			return p.Apply(&d, tw.now)
		})
	case k < 12:
		if holes := tw.whole.Holes(10); len(holes) > 0 {
			lost := []crdt.Span{rapid.SampledFrom(holes).Draw(t, "hole")}
			tw.both(t, "a loss", func(p *peer) crdt.Outcome { return p.Declare(lost, tw.now) })
		}
	case k < 14:
		l := tw.log(t)
		for range rapid.IntRange(1, 6).Draw(t, "more") {
			tw.donor.takeAt(l, tw.now, rapid.Uint64Range(1, uint64(len(l.slots))).Draw(t, "seq"))
		}
		if snap := tw.donor.cutAll(t); snap != nil {
			tw.join(t, snap)
		}
	case k < 16:
		tw.cut(t)
	case k == 16:
		tw.both(t, "a tick", func(p *peer) crdt.Outcome { p.Tick(tw.now); return crdt.Outcome{} })
	case k == 18:
		tw.promised = nil // nobody waits for what is forgotten
		tw.whole.Forget()
		tw.steps.Forget()
	default:
		anchor := rapid.Uint64Range(1, 3).Draw(t, "anchor")
		l := tw.log(t)
		seq := rapid.Uint64Range(anchor, uint64(len(l.slots))).Draw(t, "seq")
		tw.both(t, "another anchor", func(p *peer) crdt.Outcome {
			return p.Apply(&crdt.Delta{Stream: streamID, Epoch: l.epoch, Anchor: anchor, Slots: l.slots[seq-1 : seq]}, tw.now)
		})
	}
}

// join joins a snapshot into both, with slots that come meanwhile.
func (tw *twins) join(t *rapid.T, snap *crdt.Snapshot) {
	joins := map[*peer]*crdt.Joining{}
	tw.both(t, "the begin of a join", func(p *peer) crdt.Outcome {
		j, err := p.BeginJoin(snap, tw.now)
		if err != nil {
			t.Fatal(err)
		}
		joins[p] = j
		return j.Outcome()
	})
	l := tw.log(t)
	for range rapid.IntRange(0, 2).Draw(t, "while joined") {
		seq := rapid.Uint64Range(1, uint64(len(l.slots))).Draw(t, "seq")
		tw.both(t, "a slot while joined", func(p *peer) crdt.Outcome { return p.takeAt(l, tw.now, seq) })
	}
	tw.both(t, "a snapshot", func(p *peer) crdt.Outcome {
		for done := false; !done; {
			var err error
			if done, err = joins[p].Next(tw.now); err != nil {
				t.Fatal(err)
			}
		}
		return joins[p].Outcome()
	})
}

// cut cuts both, with slots that come meanwhile.
func (tw *twins) cut(t *rapid.T) {
	a, b := tw.whole.BeginCut(), tw.steps.BeginCut()
	if a == nil {
		return
	}
	l := tw.log(t)
	for range rapid.IntRange(0, 2).Draw(t, "while cut") {
		seq := rapid.Uint64Range(1, uint64(len(l.slots))).Draw(t, "seq")
		tw.both(t, "a slot while cut", func(p *peer) crdt.Outcome { return p.takeAt(l, tw.now, seq) })
	}
	for done := false; !done; {
		done = a.Next(1000)
		if b.Next(1000) != done {
			t.Fatal("one cut is longer")
		}
	}
	tw.rest = tw.steps.Unsettled() // what waited for the end of the cut
	x, y := a.Snapshot(), b.Snapshot()
	if (x == nil) != (y == nil) || x != nil && (!x.Context.Equal(&y.Context) || x.Base.Facts != y.Base.Facts || !reflect.DeepEqual(x.Above, y.Above)) {
		t.Fatalf("snapshots %+v and %+v", x, y)
	}
}

// compare looks at everything a stream tells.
func (tw *twins) compare(t *rapid.T) {
	if tw.whole.Epoch() != tw.steps.Epoch() {
		t.Fatalf("epoch %d in steps, %d whole", tw.steps.Epoch(), tw.whole.Epoch())
	}
	dump := func(p *peer) string {
		d, c := p.Digest(), crdt.Context{Epoch: p.Epoch(), Anchor: 1}
		d.Base.KeyXOR, d.Base.Linked = 0, 0 // a key learned stays known: it depends on the order
		delta, ok := p.Since(&c, 1<<20)
		seq, ts := p.Last()
		return fmt.Sprintf("%+v void %d, holes %v, since %v %+v, last %d %d", d, p.MaxVoid(), p.Holes(99), ok, delta, seq, ts)
	}
	if a, b := dump(tw.whole), dump(tw.steps); a != b {
		t.Fatalf("in steps\n%s\nwhole\n%s", b, a)
	}
	if !maps.Equal(tw.whole.view.Metas(), tw.steps.view.Metas()) {
		t.Fatalf("readers see %v in steps, %v whole", tw.steps.view.Metas(), tw.whole.view.Metas())
	}
	for floor := range uint64(14) {
		a, ok1 := tw.whole.SumAt(tw.whole.Epoch(), floor)
		b, ok2 := tw.steps.SumAt(tw.whole.Epoch(), floor)
		if ok1 && ok2 && (a.Facts != b.Facts || a.Count != b.Count) {
			t.Fatalf("sum at %d: %+v in steps, %+v whole", floor, b, a)
		}
	}
	tw.keep(t)
}

// TestAFoldInStepsIsTheWholeFold holds that it makes no difference where a fold
// stops, nor what comes meanwhile: slots, losses, clears, snapshots, cuts,
// other epochs and anchors, revivals.
func TestAFoldInStepsIsTheWholeFold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tw := newTwins(t)
		for range rapid.IntRange(5, 40).Draw(t, "steps") {
			tw.act(t)
			for range rapid.IntRange(0, 4).Draw(t, "go on") {
				if tw.steps.Step(rapid.IntRange(1, 5).Draw(t, "blocks")) {
					tw.keep(t)
				}
			}
			if rapid.Bool().Draw(t, "look") {
				tw.compare(t)
			}
		}
		tw.compare(t)
	})
}

// TestPartsAreTheWhole holds that the parts of a slot, wherever they are cut,
// tell every page as the whole does.
func TestPartsAreTheWhole(t *testing.T) {
	type page struct {
		kind             crdt.OpKind
		mode             crdt.Mode
		tier             crdt.Tier
		main, any, below bool
		space, up        uint64 // up: the root, or the handle it hangs below
		group            int32
		handle           uint64
		hashes           string
	}
	rapid.Check(t, func(t *rapid.T) {
		s := drawLog(t, 1, 1, true).slots[0]
		var pages []page
		told := 0
		tell := func(op *crdt.Op) {
			told++
			p := page{
				kind: op.Kind, mode: op.Mode, tier: op.Tier, main: op.Main, any: op.AnySpace,
				space: op.Space, group: op.Group, below: op.HasParent, up: op.Parent + op.Root,
			}
			if op.Inside && (len(pages) == 0 || !op.HasParent || op.Parent != pages[len(pages)-1].handle) {
				t.Fatalf("inside a run below %d", op.Parent)
			}
			for i := range op.Handles.Len() {
				p.handle = op.Handles.At(i)
				p.hashes = string(op.Hashes[8*i*op.PerPage : 8*(i+1)*op.PerPage])
				pages = append(pages, p)
				if op.Kind == crdt.OpStore {
					p.below, p.up = true, p.handle
				}
				told += op.Blocks()
			}
			if op.Kind == crdt.OpClear {
				pages = append(pages, p)
			}
		}
		if err := s.Ops(func(op *crdt.Op) bool { tell(op); return true }); err != nil {
			t.Fatal(err)
		}
		want := pages
		pages = nil
		for at := crdt.Place(0); ; {
			limit := rapid.IntRange(0, 9).Draw(t, "max")
			told = 0
			next, cost, err := s.Part(new(crdt.Op), at, limit, tell)
			if err != nil {
				t.Fatal(err)
			}
			if cost != told || cost > max(limit, 1)+crdt.MaxPerPage { // a page is told whole
				t.Fatalf("%d blocks told, %d counted, %d asked for", told, cost, limit)
			}
			if at = next; at == 0 {
				break
			}
		}
		if !reflect.DeepEqual(pages, want) {
			t.Fatalf("in parts %v\nwhole %v", pages, want)
		}
	})
}
