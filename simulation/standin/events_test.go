package standin

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/banyan-llm/banyan/router/kvevents/zmtp"
)

// listener folds what a subscriber gets.
type listener struct {
	t      testing.TB
	sub    *zmtp.Sub
	seqs   []uint64
	copies map[uint64]int
	tokens map[uint64][]uint32 // block -> its tokens
	parent map[uint64]uint64
	starts int // connections seen
}

func listen(t testing.TB, s *Server, topic string) *listener {
	t.Helper()
	l := &listener{t: t, copies: map[uint64]int{}, tokens: map[uint64][]uint32{}, parent: map[uint64]uint64{}}
	l.sub = zmtp.DialSub(s.EventsAddr(), topic, zmtp.Options{MinBackoff: 5 * time.Millisecond, MaxBackoff: 20 * time.Millisecond})
	t.Cleanup(func() { _ = l.sub.Close() })
	eventually(t, "subscribed", func() bool { return s.current().pub.pub.Subscribers() == 1 })
	return l
}

// until receives batches up to and including seq.
func (l *listener) until(seq uint64) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		if n := len(l.seqs); n > 0 && l.seqs[n-1] == seq {
			return
		}
		m, err := l.sub.Recv(ctx)
		if err != nil {
			l.t.Fatalf("waiting for batch %d after %v: %v", seq, l.seqs, err)
		}
		switch m.Kind {
		case zmtp.Up:
			l.starts++
		case zmtp.Data:
			l.seqs = append(l.seqs, binary.BigEndian.Uint64(m.Frames[1]))
			l.fold(m.Frames[2])
		}
	}
}

// fold applies one payload in map layout.
func (l *listener) fold(payload []byte) {
	l.t.Helper()
	for _, ev := range decoded(l.t, payload).([]any)[1].([]any) {
		e := ev.(map[string]any)
		switch e["type"] {
		case "AllBlocksCleared":
			clear(l.copies)
			continue
		case "BlockRemoved":
			for _, h := range numbers(e["block_hashes"]) {
				if l.copies[h]--; l.copies[h] == 0 {
					delete(l.copies, h)
				}
			}
			continue
		}
		size := int(numbers([]any{e["block_size"]})[0])
		tokens := numbers(e["token_ids"])
		parent := uint64(0)
		if e["parent_block_hash"] != nil {
			parent = numbers([]any{e["parent_block_hash"]})[0]
		}
		for i, h := range numbers(e["block_hashes"]) {
			l.copies[h]++
			l.parent[h] = parent
			l.tokens[h] = nil
			for _, id := range tokens[i*size : (i+1)*size] {
				l.tokens[h] = append(l.tokens[h], uint32(id))
			}
			parent = h
		}
	}
}

// chain is the whole token sequence that a block stands for.
func (l *listener) chain(h uint64) []uint32 {
	if h == 0 {
		return nil
	}
	return append(l.chain(l.parent[h]), l.tokens[h]...)
}

func numbers(list any) []uint64 {
	var out []uint64
	for _, v := range list.([]any) {
		switch n := v.(type) {
		case int64:
			out = append(out, uint64(n))
		case uint64:
			out = append(out, n)
		case string: // how this decoder gives bytes
			out = append(out, binary.BigEndian.Uint64([]byte(n[len(n)-8:])))
		}
	}
	return out
}

// I1, I4, I5: what is announced is what is cached, with the right tokens.
func TestEventsTellTheCache(t *testing.T) {
	for _, cfg := range []Config{
		{Topic: "kv@x@m", Blocks: 40},
		{Topic: "kv@x@m", Blocks: 40, HashBytes: true},
		{Engine: SGLang, Blocks: 40, ReplayFrames: 4},
		{Engine: SGLang, Blocks: 640, Page: 1, ReplayFrames: 4},
	} {
		t.Run(fmt.Sprintf("%s page %d bytes %v", cfg.Engine, cfg.Page, cfg.HashBytes), func(t *testing.T) {
			cfg.Events, cfg.Replay, cfg.Loras = "tcp://127.0.0.1:0", "tcp://127.0.0.1:0", []string{"ad"}
			s := start(t, cfg)
			l := listen(t, s, cfg.Topic)
			for i := range uint64(24) {
				in := chatBody(words(i%5, 30+int(i*7)%60), 20)
				in["return_token_ids"] = true
				if i%4 == 3 { // other prompts: SGLang's removals do not say whose
					in = chatBody(words(100+i, 60), 20)
					in["model"], in["cache_salt"] = "ad", "pepper"
				}
				var got reply
				if code := post(t, s, "/v1/chat/completions", in, &got); code != 200 {
					t.Fatalf("status %d", code)
				}
			}
			l.until(s.State().Batches - 1)
			if truth := s.Cache(); !maps.Equal(l.copies, truth) || len(truth) < 10 {
				t.Errorf("I5: told %v\ncached %v", l.copies, truth)
			}
			for i, seq := range l.seqs {
				if i > 0 && seq != l.seqs[i-1]+1 {
					t.Errorf("I4: batch %d after %d", seq, l.seqs[i-1])
				}
			}
			checkTokens(t, s, l)
		})
	}
}

// checkTokens is I1 on the wire: the blocks of a fresh prompt, chained, are
// the prompt's tokens as render has them.
func checkTokens(t *testing.T, s *Server, l *listener) {
	in := chatBody(words(99, 64), 17)
	in["return_token_ids"] = true
	before := maps.Clone(l.tokens)
	var got reply
	post(t, s, "/v1/chat/completions", in, &got)
	l.until(s.State().Batches - 1)
	whole := slices.Clone(got.PromptIDs)
	if len(whole) == 0 {
		t.Fatal("no prompt ids")
	}
	whole = append(whole, got.Choices[0].TokenIDs...)
	deepest := []uint32(nil)
	for h := range l.tokens {
		if _, old := before[h]; !old && len(l.chain(h)) > len(deepest) {
			deepest = l.chain(h)
		}
	}
	want := (len(whole) - 1) / s.cfg.Page * s.cfg.Page
	if len(deepest) != want || !slices.Equal(deepest, whole[:len(deepest)]) {
		t.Errorf("I1: blocks hold %d tokens of %d, want %d, equal %v", len(deepest), len(whole), want,
			len(deepest) <= len(whole) && slices.Equal(deepest, whole[:len(deepest)]))
	}
}

// ask replays from seq.
func ask(t testing.TB, s *Server, from uint64) (seqs []uint64, frames int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	d, err := zmtp.DialDealer(ctx, s.ReplayAddr(), zmtp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := d.Send(nil, binary.BigEndian.AppendUint64(nil, from)); err != nil {
		t.Fatal(err)
	}
	for {
		got, _, err := d.Recv(ctx)
		if err != nil {
			t.Fatal(err)
		}
		seq := binary.BigEndian.Uint64(got[len(got)-2])
		if seq == math.MaxUint64 {
			if len(got[0]) != 0 || len(got[len(got)-1]) != 0 {
				t.Errorf("end marker %q", got)
			}
			return seqs, len(got)
		}
		seqs = append(seqs, seq)
	}
}

// I4: dropped batches are in the replay, burnt ones nowhere, and the buffer
// is bounded.
func TestReplayFillsWhatWasDropped(t *testing.T) {
	s := start(t, Config{Events: "tcp://127.0.0.1:0", Replay: "tcp://127.0.0.1:0", BufferSteps: 8})
	l := listen(t, s, "")
	one := func(i uint64) { post(t, s, "/v1/chat/completions", chatBody(words(i, 20), 1), nil) }
	one(0)
	s.Set(Fault{DropNext: ptr(2)})
	one(1)
	one(2)
	one(3)
	s.Set(Fault{BurnNext: ptr(1)})
	one(4)
	one(5)
	l.until(5)
	if !slices.Equal(l.seqs, []uint64{0, 3, 5}) {
		t.Errorf("live batches %v", l.seqs)
	}
	if seqs, frames := ask(t, s, 1); !slices.Equal(seqs, []uint64{1, 2, 3, 5}) || frames != 4 {
		t.Errorf("replay from 1: %v in %d frames", seqs, frames)
	}
	for i := range uint64(10) {
		one(100 + i)
	}
	if seqs, _ := ask(t, s, 0); !slices.Equal(seqs, []uint64{8, 9, 10, 11, 12, 13, 14, 15}) {
		t.Errorf("replay of a full buffer: %v", seqs)
	}
	fresh := start(t, Config{Engine: SGLang, Replay: "tcp://127.0.0.1:0"})
	if all := fresh.current().pub.since(0); len(all) != 1 || !bytes.Contains(all[0].payload, []byte(allCleared)) {
		t.Errorf("SGLang starts with %v", all)
	}
	old := start(t, Config{Replay: "tcp://127.0.0.1:0", ReplayFrames: 4})
	post(t, old, "/v1/chat/completions", chatBody(words(1, 20), 1), nil)
	if seqs, frames := ask(t, old, 0); !slices.Equal(seqs, []uint64{0}) || frames != 3 {
		t.Errorf("four-frame replay: %v in %d frames", seqs, frames)
	}
}

func TestRestartIsANewProcess(t *testing.T) {
	s := start(t, Config{Events: "tcp://127.0.0.1:0", Replay: "tcp://127.0.0.1:0", Profile: "demo"})
	l := listen(t, s, "")
	in := chatBody(words(1, 40), 1)
	post(t, s, "/v1/chat/completions", in, nil)
	l.until(0)
	long := chatBody("long", 20000)
	cut := make(chan error, 1)
	go func() {
		res, err := send(context.Background(), t, s, "/v1/chat/completions", long)
		if err == nil {
			res.Body.Close()
		}
		cut <- err
	}()
	eventually(t, "long request runs", func() bool { return s.State().Stats.Running == 1 })
	events, replay := s.EventsAddr(), s.ReplayAddr()
	if code := post(t, s, "/standin/restart?down=5ms", nil, nil); code != 200 {
		t.Fatalf("restart answers %d", code)
	}
	if err := <-cut; err == nil {
		t.Error("a request survived the restart")
	}
	if s.EventsAddr() != events || s.ReplayAddr() != replay || s.State().Restarts != 1 || len(s.Cache()) != 0 {
		t.Errorf("after the restart: %+v", s.State())
	}
	eventually(t, "subscribed again", func() bool { return s.current().pub.pub.Subscribers() == 1 })
	l.seqs, l.copies = nil, map[uint64]int{}
	var got reply
	post(t, s, "/v1/chat/completions", in, &got)
	l.until(0)
	if got.cached() != 0 || l.starts != 2 || !maps.Equal(l.copies, s.Cache()) {
		t.Errorf("%d tokens cached, %d connections, told %v", got.cached(), l.starts, l.copies)
	}
}

func TestPublisherDialsWhenTold(t *testing.T) {
	sub, err := zmtp.ListenSub("tcp://127.0.0.1:0", "kv@", zmtp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	s := start(t, Config{Events: "tcp://" + sub.Addr().String(), EventsDial: true, Topic: "kv@r0@m"})
	eventually(t, "subscribed", func() bool { return s.current().pub.pub.Subscribers() == 1 })
	post(t, s, "/v1/chat/completions", chatBody(words(1, 20), 1), nil)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		m, err := sub.Recv(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if m.Kind == zmtp.Data {
			if string(m.Frames[0]) != "kv@r0@m" {
				t.Errorf("topic %q", m.Frames[0])
			}
			break
		}
	}
	if s.EventsAddr() != "" {
		t.Errorf("a dialing publisher has address %s", s.EventsAddr())
	}
}

// A client that leaves in the middle of a step: its blocks are announced all
// the same, with their tokens.
func TestEventsOfALeavingClient(t *testing.T) {
	s := start(t, Config{Profile: "q32", Events: "tcp://127.0.0.1:0"})
	l := listen(t, s, "")
	ctx, leave := context.WithCancel(context.Background())
	go func() {
		if res, err := send(ctx, t, s, "/v1/chat/completions", chatBody(words(1, 4000), 100)); err == nil {
			res.Body.Close()
		}
	}()
	eventually(t, "the request runs", func() bool { return s.State().Stats.Running == 1 })
	leave()
	eventually(t, "its pages are free", func() bool { return s.State().Stats.Used == 0 })
	l.until(s.State().Batches - 1)
	if truth := s.Cache(); !maps.Equal(l.copies, truth) || len(truth) < 4000/16 {
		t.Errorf("told %d blocks, cached %d", len(l.copies), len(truth))
	}
	for h, tokens := range l.tokens {
		if len(tokens) != 16 {
			t.Errorf("block %x has %d tokens", h, len(tokens))
		}
	}
}

// TensorRT-LLM: polled, drained, numbered.
func TestPolledEventsDrain(t *testing.T) {
	s := start(t, Config{Engine: TRTLLM, Page: 32, Blocks: 8})
	type element struct {
		ID   uint64 `json:"event_id"`
		Data struct {
			Type   string
			Parent *uint64 `json:"parent_hash"`
			Blocks []struct {
				Hash   uint64 `json:"block_hash"`
				Tokens []struct {
					ID uint32 `json:"token_id"`
				}
			}
			Hashes []uint64 `json:"block_hashes"`
		}
	}
	held := map[uint64]int{}
	next := uint64(0)
	poll := func() (n int) {
		var list []json.RawMessage
		post(t, s, "/kv_cache_events", nil, &list)
		for _, raw := range list {
			var e element
			if err := json.Unmarshal(raw, &e); err != nil {
				t.Fatal(err)
			}
			if e.ID != next {
				t.Errorf("event %d, want %d", e.ID, next)
			}
			next++
			for _, b := range e.Data.Blocks {
				if len(b.Tokens) != 32 {
					t.Errorf("block of %d tokens", len(b.Tokens))
				}
				held[b.Hash] = 1
			}
			for _, h := range e.Data.Hashes {
				delete(held, h)
			}
		}
		return len(list)
	}
	for i := range uint64(6) {
		post(t, s, "/v1/chat/completions", chatBody(words(i, 100), 4), nil)
	}
	if poll() < 7 || poll() != 0 || !maps.Equal(held, s.Cache()) {
		t.Errorf("told %v\ncached %v", held, s.Cache())
	}
	post(t, s, "/standin/reset", nil, nil)
	if poll(); len(held) != 0 || len(s.Cache()) != 0 {
		t.Errorf("after a reset: told %v, cached %v", held, s.Cache())
	}
	var metrics string
	if get(t, s, "/prometheus/metrics", &metrics); !bytes.Contains([]byte(metrics), []byte("trtllm_kv_cache_max_blocks{")) {
		t.Errorf("metrics %s", metrics)
	}
}
