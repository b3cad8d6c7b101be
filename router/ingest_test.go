package router

import (
	"strings"
	"testing"
	"time"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/router/fleet"
	"github.com/banyan-llm/banyan/router/ingest"
	"github.com/banyan-llm/banyan/router/kvevents"
	"github.com/banyan-llm/banyan/router/metrics"
)

// What an engine cached before it restarted is not believed from the moment that
// it tells another start, before its first batch.
func TestARestartHidesWhatWasCachedAtOnce(t *testing.T) {
	p := quietPeer(t, nil)
	id := crdt.StreamID("http://127.0.0.1:1#0")
	var b crdt.Builder
	b.Store(crdt.Op{Main: true, PerPage: 1, Root: 1}, []uint64{11}, []uint64{11})
	slot, err := b.Slot(1, 1)
	if err != nil {
		t.Fatal(err)
	}
	p.ingest.Deliver(kvevents.Delivery{Stream: id, Epoch: 100, Anchor: 1, Slots: []crdt.Slot{slot}, ReceivedAt: time.Now()})
	if d, _ := p.index.Digest(id); d.Base.Count != 1 {
		t.Fatalf("before: %+v", d)
	}
	p.ingest.Deliver(kvevents.Delivery{Stream: id, Epoch: 200, ReceivedAt: time.Now()})
	if d, _ := p.index.Digest(id); d.Base.Count != 0 || d.Context.Epoch != 200 {
		t.Errorf("after: %+v", d)
	}
}

// A stream that cannot even be begun is tried four times a second: each try is
// counted, and its reason is one line.
func TestAStreamThatCannotBeFollowedIsToldOnce(t *testing.T) {
	log := &logText{}
	p := loggingPeer(t, log, func(c *Config) {
		c.Replicas = []fleet.Spec{{Name: "r0", URL: "http://127.0.0.1:1", Engine: "vllm", Events: "tcp://127.0.0.1:2"}}
	})
	p.ingest.hasher = nil // as good a reason as any
	for range 8 {
		p.ingest.start(t.Context(), p.fleet.List()[0], ingest.Hold{First: true})
	}
	if n := strings.Count(log.String(), "stream not followed"); n != 1 || metrics.Count(p.metrics.FollowFailures) != 8 {
		t.Errorf("%d lines, %d counted:\n%s", n, metrics.Count(p.metrics.FollowFailures), log)
	}
}
