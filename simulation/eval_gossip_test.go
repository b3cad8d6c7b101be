package simulation

import (
	"testing"

	"github.com/banyan-llm/banyan/gossip"
	"github.com/banyan-llm/banyan/simulation/replica"
	"github.com/banyan-llm/banyan/simulation/workload"
)

func meshOf(t *testing.T, peers, page int) *traffic {
	t.Helper()
	return newTraffic(&Config{Peers: peers, Replicas: 2, Page: page, DispatchDelay: 0.001, LoadDelay: 0.01})
}

func TestE6LoadsGoAtOnceAndAreCoalesced(t *testing.T) {
	m := meshOf(t, 3, 16)
	one := 1 + 4 + 50 + len(m.names[0]) // flags, count, a register
	m.load(1, 0, 0, true)
	m.talkers[0].sent = 1 // leave the heartbeats before out
	want := 2 * int64(gossip.FrameSize(6, one))
	if got := m.bytes["load"]; got < want {
		t.Fatalf("E6: %d bytes after a dispatch, a frame to both others is %d", got, want)
	}
	before, frames := m.bytes["load"], m.talkers[0].frames
	for i := range 10 {
		m.load(1.0001+float64(i)/20_000, 0, i%2, true)
	}
	if m.bytes["load"] != before {
		t.Error("E6: dispatches within a millisecond of a frame did not wait")
	}
	m.load(1.0011, 0, 0, false)
	both := one + 50 + len(m.names[1])
	if got, want := m.bytes["load"]-before, 2*int64(gossip.FrameSize(frames+1, both)); got != want {
		t.Errorf("E6: ten dispatches to two replicas took %d bytes, one frame with both is %d", got, want)
	}
}

func TestE6SlotsCarryAHandleAndAHashABlock(t *testing.T) {
	m := meshOf(t, 4, 64) // a page of 64 tokens is four blocks of an engine
	m.slot(1, 1, []replica.KVEvent{{Kind: replica.Stored, Keys: make([]uint64, 10)}})
	blocks, slots := int64(10*4), m.bytes["slots"]
	if least, most := 3*16*blocks, 3*(16*blocks+120); slots < least || slots > most {
		t.Errorf("E6: %d bytes for %d blocks to three peers, want %d to %d", slots, blocks, least, most)
	}
	m.slot(1, 1, []replica.KVEvent{{Kind: replica.Removed}})
	if more := m.bytes["slots"] - slots; more < 3*8*4 || more > 3*(8*4+120) {
		t.Errorf("E6: %d bytes for the removal of 4 blocks", more)
	}
	if m.bytes["ack"] == 0 {
		t.Error("E6: slots are not acknowledged")
	}
}

func TestE6OnePeerTalksToNobody(t *testing.T) {
	w := generated(t, "multi_turn", workload.Options{Seed: 1, Requests: 200})
	cfg := Config{Workload: w, LoadDelay: 0.01, DispatchDelay: 0.001, IndexDelay: 0.05, Seed: 1}
	bytes := map[int]int64{}
	for _, peers := range []int{1, 2, 8} {
		cfg.Peers = peers
		rep := evaluate(t, cfg)
		bytes[peers] = rep.GossipBytes
		sum := int64(0)
		for _, n := range rep.Gossip {
			sum += n
		}
		if sum != rep.GossipBytes {
			t.Errorf("E6: %d peers: %d bytes, frames add up to %d", peers, rep.GossipBytes, sum)
		}
	}
	if bytes[1] != 0 || bytes[2] == 0 || bytes[8] < 6*bytes[2] {
		t.Errorf("E6: bytes by peers %v", bytes)
	}
}

// The whole mesh of real peers is the measure: the same traffic there costs as
// many bytes, within a fifth.
func TestE6CountedGossipIsWhatAWholeMeshSends(t *testing.T) {
	w := meshWorkload(t, "multi_turn", 200)
	cfg := Config{Workload: w, Peers: 4, Replicas: 4, LoadDelay: 0.01, DispatchDelay: 0.001, IndexDelay: 0.05, Seed: 1}
	counted := evaluate(t, cfg).GossipBytes
	sent := playMesh(t, cfg, "").GossipBytes
	t.Logf("counted %d bytes, a mesh sends %d", counted, sent)
	if r := float64(counted) / float64(sent); r < 0.9 || r > 1.1 {
		t.Errorf("counted %d bytes, a mesh sends %d", counted, sent)
	}
}
