package kvevents

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/banyan-llm/banyan/crdt"
)

// encodeKind writes a batch of one full block of 16 tokens whose cache group is
// of a kind.
func encodeKind(kind string) []byte {
	p := new(pack).array(3).float(1).array(1)
	p.mapping(8).str("type").str("BlockStored").str("block_hashes").nums(7).str("parent_block_hash").null()
	p.str("token_ids").nums(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
	p.str("block_size").num(16).str("medium").str("GPU").str("group_idx").num(1)
	p.str("kv_cache_spec_kind").str(kind)
	return p.null().b
}

// TestKindsOfCacheGroups holds what becomes of the blocks of each kind of
// vLLM 0.32's KVCacheSpecKind, and that a kind nobody knows is told.
func TestKindsOfCacheGroups(t *testing.T) {
	for kind, want := range map[string]struct{ main, unknown bool }{
		"full_attention":          {main: true},
		"mla_attention":           {main: true},
		"sink_full_attention":     {main: true}, // StreamingLLM's sinks are extra tokens; the prefix is whole
		"sliding_window":          {},
		"sliding_window_mla":      {},
		"mamba":                   {},
		"chunked_local_attention": {},
		"encoder_only_attention":  {},
		"cross_attention":         {},
		"unknown":                 {unknown: true},
		"holographic":             {unknown: true},
	} {
		s, n := packOne(t, VLLM, 16, encodeKind(kind))
		ops := opsOf(t, s)
		if kind == "mamba" { // a checkpoint of what can be reused
			if len(ops) != 1 || ops[0].PerPage != 0 || ops[0].Root != crdt.Checkpoint(1, 1) || ops[0].Space == 0 {
				t.Errorf("%s: %+v", kind, ops)
			}
			continue
		}
		if len(ops) != 1 || ops[0].Main != want.main || want.main != (ops[0].PerPage == 1) {
			t.Errorf("%s: %+v, want main %v", kind, ops, want.main)
		}
		if told := n.UnknownKinds == 1 && n.UnknownKind == kind; told != want.unknown {
			t.Errorf("%s: told as unknown: %+v, want %v", kind, n, want.unknown)
		}
	}
}

func TestSubscriberTellsOfAnUnknownCacheGroup(t *testing.T) {
	e := startEngine(t, true)
	s := followEngine(t, e, newRecordSink(), false)
	e.ready(t)
	for i, kind := range []string{"full_attention", "holographic"} {
		e.pub.Send([]byte("kv@"), binary.BigEndian.AppendUint64(nil, uint64(i)), encodeKind(kind))
	}
	waitFor(t, func() string { return fmt.Sprint(s.Status().Counters.Events) }, "2")
	st := s.Status()
	if !strings.Contains(st.Warning, "does not know") || strings.Contains(st.Warning, "holographic") || st.Counters.UnknownKinds != 1 || st.Unusable != "" {
		t.Fatalf("%+v", st)
	}
}
