package router

import (
	"context"
	"errors"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/router/pick"
	"github.com/banyan-llm/banyan/router/policy"
	"github.com/banyan-llm/banyan/router/proxy"
	"github.com/banyan-llm/banyan/router/requests"
)

// booked is a decision of a peer that knows another one, booked and not sent.
type booked struct {
	*deciding
	s   *scratch
	pr  *prompt
	pol policy.Policy
	d   policy.Decision
	t   *ticket
}

// book decides a call that costs .5 s of prefill wherever it goes.
func book(t *testing.T, peers int, policyName string) *booked {
	t.Helper()
	d := newDeciding(t, 3, 64)
	s := scratches.Get().(*scratch)
	pol, _ := policy.New(policyName, policy.DefaultConfig())
	lora, err := d.path.directory.candidates(s, d.call)
	if err != nil {
		t.Fatal(err)
	}
	pr, err := d.path.prompts.readPrompt(context.Background(), d.call, lora, s)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	s.prompt = pr.prompt()
	d.path.picker.Match(&s.prompt, &s.Scratch)
	d.path.picker.Look(&s.Scratch, pick.Ages{Load: 1, Peers: peers}, d.clock.ms(now), s.rand)
	d.path.gather(s, now)
	d.path.picker.Ask(&s.Scratch, &s.prompt, 0)
	b := &booked{deciding: d, s: s, pr: pr, pol: pol, d: s.Decide(pol)}
	b.d.Prefill = .5
	if b.t = d.path.countIn(s, &s.Cands[b.d.Pos], pr, b.d, nil, now); b.t == nil {
		t.Fatal("not booked")
	}
	return b
}

// settle looks at the decision again and fails if nothing came of it.
func (b *booked) settle(t *testing.T, ctx context.Context) error {
	t.Helper()
	next, err := b.path.settle(ctx, b.s, b.call, b.pr, b.pol, &b.d, b.t)
	if err == nil {
		b.t = next
	}
	return err
}

// hears tells the peer what another one holds at a replica.
func (b *booked) hears(version uint64, replica crdt.StreamID, waiting int32, prefill float64) {
	b.loads.JoinLoads(crdt.PeerID{9}, []crdt.LoadEntry{{Replica: replica, Load: crdt.Load{Version: version, Waiting: waiting, Prefill: prefill, Tokens: 9000}}})
}

func (b *booked) waiting(id crdt.StreamID) int32 {
	sum, _, _ := b.loads.Totals(id)
	return sum.Waiting
}

// TestADecisionIsLookedAtAgain: a request that will compute for long is not sent
// before the peer has heard what others sent to the same replica.
func TestADecisionIsLookedAtAgain(t *testing.T) {
	counted := func(b *booked, how pick.Look) int {
		var m dto.Metric
		if err := b.metrics.SecondLooks.WithLabelValues(string(how)).Write(&m); err != nil {
			t.Fatal(err)
		}
		return int(m.Counter.GetValue())
	}
	t.Run("alone", func(t *testing.T) {
		b := book(t, 2, policy.Default)
		was := b.t.replica
		if err := b.settle(t, context.Background()); err != nil || b.t.replica != was || b.t.second.waited < pick.AgainMs*time.Millisecond || b.t.second.from != "" {
			t.Errorf("%v, %+v", err, b.t.second)
		}
		if counted(b, pick.LookAlone) != 1 {
			t.Error("not counted")
		}
		if b.t.at.Sub(b.t.begun) < pick.AgainMs*time.Millisecond {
			t.Error("its replica is held to have had it since it was decided")
		}
	})
	t.Run("another replica is better", func(t *testing.T) {
		b := book(t, 2, policy.Default)
		was := b.t.replica
		b.hears(1, "elsewhere", 1, 1) // its first word
		b.hears(2, was.Stream, 1, .01)
		b.hears(3, was.Stream, 30, 1.5) // each so small that it stays where it is
		if err := b.settle(t, context.Background()); err != nil {
			t.Fatal(err)
		}
		if b.t.replica == was || b.t.second.from != was.Name() || b.s.replicas[b.s.Cands[b.d.Pos].Index] != b.t.replica {
			t.Fatalf("still %s: %+v", was.Name(), b.t.second)
		}
		if counted(b, pick.LookMoved) != 1 || counted(b, pick.LookAlone) != 1 {
			t.Error("not counted")
		}
		if b.waiting(was.Stream) != 30 || b.waiting(b.t.replica.Stream) != 1 || b.t.cost.Replica != b.t.replica.Stream {
			t.Errorf("booked: %d there, %d here", b.waiting(was.Stream), b.waiting(b.t.replica.Stream))
		}
		b.path.Done(&proxy.Target{Token: b.t}, proxy.Result{Status: 200, Duration: time.Millisecond})
		if b.waiting(b.t.replica.Stream) != 0 {
			t.Error("its load stays after its end")
		}
	})
	t.Run("its own replica is still the best", func(t *testing.T) {
		b := book(t, 2, policy.Default)
		was := b.t.replica
		b.hears(1, "elsewhere", 1, 1)
		version := uint64(2)
		for _, r := range b.fleet.List() {
			n := int32(40)
			if r == was {
				n = 1
			}
			b.hears(version, r.Stream, n, float64(n))
			version++
		}
		if err := b.settle(t, context.Background()); err != nil || b.t.replica != was || counted(b, pick.LookStayed) != 1 {
			t.Errorf("%v: at %s", err, b.t.replica.Name())
		}
	})
	t.Run("the client leaves", func(t *testing.T) {
		ctx, leave := context.WithCancel(context.Background())
		leave()
		for range 20 { // on a machine that is busy the wait may be over before it has begun
			b := book(t, 2, policy.Default)
			err := b.settle(t, ctx)
			if err == nil {
				continue
			}
			if !errors.Is(err, context.Canceled) || counted(b, pick.LookLeft) != 1 || b.waiting(b.t.replica.Stream) != 0 {
				t.Errorf("%v: its load stays, or nobody counted it", err)
			}
			return
		}
		t.Error("a client that has left is sent on")
	})
	for name, b := range map[string]*booked{"one peer": book(t, 1, policy.Default), "another policy": book(t, 2, "least_loaded")} {
		b.hears(1, "elsewhere", 1, 1)
		b.hears(2, b.t.replica.Stream, 30, 60)
		if err := b.settle(t, context.Background()); err != nil || b.t.second != (secondLook{}) {
			t.Errorf("%s: %v %+v", name, err, b.t.second)
		}
	}
}

// TestWhyTellsOfSecondLooks: who asks why a request went where it did is told
// that it was held, and where it would have gone.
func TestWhyTellsOfSecondLooks(t *testing.T) {
	b := book(t, 2, policy.Default)
	was := b.t.replica
	b.hears(1, "elsewhere", 1, 1)
	b.hears(2, was.Stream, 30, 1.5)
	book := requests.NewBook(4, 4)
	b.call.ID = "request"
	b.call.Trail = book.Begin("request", time.Now())
	if err := b.settle(t, context.Background()); err != nil {
		t.Fatal(err)
	}
	b.path.remember(b.s, b.call, b.s.Cands, b.s.Scores, &b.d, nil, b.t)
	told := book.Find("request", "p", time.Now())
	if d := told.Decisions[0]; d.Waited < pick.AgainMs || d.From != was.Name() || d.Replica != b.t.replica.Name() {
		t.Errorf("%+v", d)
	}
}
