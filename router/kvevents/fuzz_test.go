package kvevents

import (
	"runtime"
	"strings"
	"testing"

	"github.com/banyan-llm/banyan/crdt"
)

// FuzzDecode: no input panics, nothing is allocated far beyond the input, and
// what is accepted packs into a valid slot.
func FuzzDecode(f *testing.F) {
	for _, v := range readVectors(f, "testdata/vectors.jsonl") {
		if frames := v.bytesOf(f); len(frames) > 0 && len(frames[len(frames)-1]) < 1<<12 {
			f.Add(frames[len(frames)-1])
		}
	}
	f.Add([]byte{0x92, 0xcb, 0, 0, 0, 0, 0, 0, 0, 0, 0xdd, 0xff, 0xff, 0xff, 0xff})
	packers := []*Packer{mustPacker(f, VLLM, 4), mustPacker(f, SGLang, 1), mustPacker(f, TRTLLM, 16)}
	f.Fuzz(func(t *testing.T, payload []byte) {
		var d Decoder
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		b, err := d.Decode(payload)
		runtime.ReadMemStats(&after)
		if grown := after.TotalAlloc - before.TotalAlloc; grown > 1<<16+400*uint64(len(payload)) {
			t.Fatalf("I2: %d bytes allocated for %d", grown, len(payload))
		}
		if err != nil {
			return
		}
		for _, p := range packers {
			checkPacked(t, p, b)
		}
	})
}

// checkPacked packs a batch and reads the slot back.
func checkPacked(t *testing.T, p *Packer, b *Batch) {
	s, n, err := p.Pack(1, b)
	if err != nil {
		return // over 8 MiB
	}
	pages := 0
	if err := s.Ops(func(op *crdt.Op) bool {
		if op.Kind == crdt.OpStore {
			pages += op.Handles.Len()
		}
		return true
	}); err != nil {
		t.Fatalf("packed slot does not unpack: %v", err)
	}
	if pages != n.Stored {
		t.Fatalf("%d pages in the slot, %d counted", pages, n.Stored)
	}
}

// FuzzJSON covers pushed batches and TensorRT-LLM's list.
func FuzzJSON(f *testing.F) {
	f.Add([]byte(pushedJSON))
	f.Add([]byte(list(trtCreated(0, 9), trtStored(1, 9, "null", 4, 2))))
	f.Add([]byte(strings.Repeat("[", 40)))
	p := mustPacker(f, TRTLLM, 2)
	f.Fuzz(func(t *testing.T, body []byte) {
		var d Decoder
		if out, err := d.DecodeHTTP(body, "json"); err == nil {
			checkPacked(t, p, out.Batch)
		}
		_, _ = d.DecodeHTTP(body, "")
		events, _, err := DecodeTRT(body)
		if err != nil {
			return
		}
		for i := range events {
			checkPacked(t, p, &events[i].Batch)
		}
	})
}

// FuzzFrames covers the framing of live and replay messages.
func FuzzFrames(f *testing.F) {
	f.Add([]byte(""), []byte("t"), []byte("\x00\x00\x00\x00\x00\x00\x00\x01"), []byte("p"), 4)
	f.Fuzz(func(t *testing.T, a, b, c, d []byte, n int) {
		frames := [][]byte{a, b, c, d}[:max(0, min(n, 4))]
		if fr, err := ParseLive(frames); err == nil && fr.Seq > maxSeq {
			t.Fatal("sequence out of range accepted")
		}
		if fr, err := ParseReplay(frames); err == nil && !fr.End && fr.Seq > maxSeq {
			t.Fatal("sequence out of range accepted")
		}
		_, _ = ParseReplayRequest(frames)
	})
}
