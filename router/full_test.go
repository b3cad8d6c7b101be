package router

import (
	"strings"
	"testing"
	"time"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/router/fleet"
	"github.com/banyan-llm/banyan/router/kvevents"
)

// TestAnEngineThatAnnouncesTooMuchIsTold: its events are left alone, status and
// log say so with a cure, and the other replica's stay.
func TestAnEngineThatAnnouncesTooMuchIsTold(t *testing.T) {
	p, _, log := followingPeer(t, func(c *Config) {
		c.Replicas = []fleet.Spec{{Name: "greedy", URL: "http://a:1", Engine: "vllm"}, {Name: "modest", URL: "http://b:1", Engine: "vllm"}}
		c.Limits.StreamFacts = 100_000
	})
	greedy, modest := p.fleet.Get("greedy"), p.fleet.Get("modest")
	p.ingest.Deliver(kvevents.Delivery{Stream: modest.Stream, Epoch: 1000, Anchor: 1, Slots: []crdt.Slot{storedSlot(t, 1, 10)}, ReceivedAt: time.Now()})
	for seq := uint64(1); seq <= 3; seq++ {
		p.ingest.Deliver(kvevents.Delivery{Stream: greedy.Stream, Epoch: 1000, Anchor: 1, Slots: []crdt.Slot{storedSlot(t, seq, 40_000)}, ReceivedAt: time.Now()})
	}
	p.house.ceilings.tellFull()
	if n := facts(p, greedy.Stream); n > 0 || facts(p, modest.Stream) != 10 {
		t.Errorf("%d facts of the one and %d of the other", n, facts(p, modest.Stream))
	}
	if !strings.Contains(log.String(), "limits.stream_facts") || strings.Count(log.String(), "KV events of a replica are ignored") != 1 {
		t.Errorf("the log says %q", log.String())
	}
	d, _ := p.index.Digest(greedy.Stream)
	if s := p.report.replicas.streamStatus(greedy, d); s.State != "unusable" || !strings.Contains(s.Detail, "blocks, more than") {
		t.Errorf("%+v", s)
	}
}

func TestASmallCacheMayAnnounceLess(t *testing.T) {
	p := quietPeer(t, func(c *Config) { c.Limits.StreamFacts = 4 << 20 })
	id := crdt.StreamID("http://a#0")
	for told, most := range map[int64]int{0: 4 << 20, 1000: fewestFacts, 100_000: 800_000, 1 << 40: 4 << 20, 1<<63 - 1: 4 << 20} {
		p.loads.JoinScrapes(map[crdt.StreamID]crdt.Scrape{id: {Version: p.loads.Scrapes()[id].Version + 1, Capacity: told}})
		if got := p.house.ceilings.factsLimit(id); got != most {
			t.Errorf("%d facts for %d tokens, want %d", got, told, most)
		}
	}
}
