package standin

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/radix"
	"github.com/banyan-llm/banyan/router/kvevents"
	"github.com/banyan-llm/banyan/router/kvevents/zmtp"
)

// follower folds what the router's own subscriber delivers.
type follower struct {
	mu    sync.Mutex
	slots map[uint64]crdt.Slot // they come in any order after a gap

	copies map[uint64]int
	hashes map[uint64][]uint64 // handle -> token hashes
	roots  map[uint64]bool
	stores int
}

func (f *follower) Prior(crdt.StreamID) (kvevents.Prior, bool) { return kvevents.Prior{}, false }

func (f *follower) Exhausted(crdt.StreamID, uint64, []crdt.Span) {}

func (f *follower) Deliver(d kvevents.Delivery) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range d.Slots {
		f.slots[d.Slots[i].Seq] = d.Slots[i]
	}
}

// fold applies slots 1 to last in order; false if one is missing.
func (f *follower) fold(last uint64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.copies, f.hashes, f.roots = map[uint64]int{}, map[uint64][]uint64{}, map[uint64]bool{}
	for seq := uint64(1); seq <= last; seq++ {
		slot, ok := f.slots[seq]
		if !ok {
			return false
		}
		_ = slot.Ops(f.apply)
	}
	return true
}

func (f *follower) apply(op *crdt.Op) bool {
	if op.Kind == crdt.OpClear {
		clear(f.copies)
	}
	for i := range op.Handles.Len() {
		h := op.Handles.At(i)
		switch op.Kind {
		case crdt.OpRemove:
			if f.copies[h]--; f.copies[h] <= 0 || op.Mode == crdt.Flagged {
				delete(f.copies, h)
			}
		case crdt.OpStore:
			f.stores++
			if f.copies[h]++; op.Mode == crdt.Flagged {
				f.copies[h] = 1
			}
			f.hashes[h] = nil
			for j := range op.PerPage {
				f.hashes[h] = append(f.hashes[h], op.Hashes.At(i*op.PerPage+j))
			}
			if !op.HasParent {
				f.roots[op.Root] = true
			}
		}
	}
	return true
}

// The router's own code reads the stand-in's stream: the fold is the cache,
// with the token hashes of the tokens that were used, over a gap and in every
// wire form.
func TestRouterFollowsTheStream(t *testing.T) {
	for _, cfg := range []Config{
		{Blocks: 60, Layout: LayoutMap},
		{Blocks: 60, Layout: LayoutArray, HashBytes: true, ReplayFrames: 4},
		{Blocks: 20, Page: 64},
		{Engine: SGLang, Blocks: 60, ReplayFrames: 4},
		{Engine: SGLang, Blocks: 60, Layout: LayoutArray, ReplayFrames: 4},
	} {
		t.Run(fmt.Sprintf("%s %s page %d", cfg.Engine, cfg.Layout, cfg.Page), func(t *testing.T) {
			cfg.Events, cfg.Replay, cfg.Loras = "tcp://127.0.0.1:0", "tcp://127.0.0.1:0", []string{"ad"}
			s := start(t, cfg)
			hasher := radix.NewHasher([]byte("secret"))
			f := &follower{slots: map[uint64]crdt.Slot{}}
			sub := follow(t, s, hasher, f)
			for i := range uint64(20) {
				in := chatBody(words(i%6, 40+int(i*7)%80), 20)
				if i%4 == 3 { // other prompts: SGLang's removals do not say whose
					in = chatBody(words(100+i, 90), 20)
					in["cache_salt"] = "pepper"
				}
				if i%4 == 3 && cfg.Engine != SGLang { // whose events name no adapter
					in["model"] = "ad"
				}
				if i == 7 {
					s.Set(Fault{DropNext: ptr(2)})
				}
				post(t, s, "/v1/chat/completions", in, nil)
			}
			last := s.State().Batches
			eventually(t, "every batch is delivered", func() bool { return f.fold(last) || fetch(sub, f, last) })
			if !maps.Equal(f.copies, s.Cache()) {
				t.Errorf("I5: folded %v\ncached %v", f.copies, s.Cache())
			}
			lora := "ad"
			if cfg.Engine == SGLang {
				lora = ""
			}
			if plain, salted := kvevents.Root(hasher, "", ""), kvevents.Root(hasher, lora, "pepper"); !f.roots[uint64(plain)] || !f.roots[uint64(salted)] || len(f.roots) != 2 {
				t.Errorf("roots %v, want %d and %d", f.roots, plain, salted)
			}
			checkHashes(t, s, hasher, f)
		})
	}
}

// follow runs the router's subscriber on a stand-in until the test ends.
func follow(t *testing.T, s *Server, hasher *radix.Hasher, f *follower) *kvevents.Subscriber {
	engine, err := kvevents.ParseEngine(s.cfg.Engine)
	if err != nil {
		t.Fatal(err)
	}
	sub, err := kvevents.NewSubscriber(kvevents.Config{
		Stream: crdt.NewStreamID(s.URL(), 0), Engine: engine, Events: s.EventsAddr(), Replay: s.ReplayAddr(),
		Grid: 16, Hasher: hasher, Sink: f,
		ZMTP: zmtp.Options{MinBackoff: 5 * time.Millisecond},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = sub.Run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-done })
	eventually(t, "subscribed", func() bool { return s.current().pub.pub.Subscribers() == 1 })
	return sub
}

// fetch asks for what is missing, as the mesh does when no peer has it.
func fetch(sub *kvevents.Subscriber, f *follower, last uint64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for seq := uint64(1); seq <= last; seq++ {
		if _, ok := f.slots[seq]; !ok {
			sub.Fetch([]crdt.Span{{From: seq, To: seq}})
		}
	}
	return false
}

// checkHashes compares the cached blocks of the last prompts with the hashes
// of the tokens that render gives for them.
func checkHashes(t *testing.T, s *Server, hasher *radix.Hasher, f *follower) {
	known := map[uint64]bool{}
	for _, hashes := range f.hashes {
		for _, h := range hashes {
			known[h] = true
		}
	}
	for i := range uint64(3) { // asked without a salt
		in := chatBody(words(i, 40+int(i*7)%80), 20)
		var render struct {
			Tokens []uint32 `json:"tokens"`
		}
		post(t, s, "/tokenize", in, &render)
		whole := render.Tokens[:len(render.Tokens)/s.cfg.Page*s.cfg.Page]
		for j, h := range hasher.AppendHashes(nil, 16, whole) {
			if !known[uint64(h)] {
				t.Errorf("I1: block %d of prompt %d was never announced", j, i)
			}
		}
	}
	if len(known) == 0 || f.stores == 0 {
		t.Error("nothing was compared")
	}
}
