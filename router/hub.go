package router

import (
	"fmt"
	"time"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/router/fleet"
	"github.com/banyan-llm/banyan/router/kvevents"
)

// dialsUs is the state of a stream whose engine dials ingest.listen. Who has
// dialed is not known before a message names its replica, and an idle engine
// sends none: silence is no trouble.
func (g *follower) dialsUs(r *fleet.Replica, st *kvevents.Status) (state, detail string) {
	if !st.LastEvent.IsZero() {
		return "ok", "its engine dials ingest.listen"
	}
	if _, heard := g.index.Prior(r.Stream); heard {
		return "ok", "its engine dials another peer"
	}
	return "idle", fmt.Sprintf("no event came yet: its engine is to dial ingest.listen of any peer, with the topic kv@%s@MODEL", hostOf(r.Spec.URL))
}

// heard reports whether this peer hears the events of a stream, as far as can be
// known: of an engine that dials us nothing is known before it sends.
func (f *following) heard(st *kvevents.Status) (heard, known bool) {
	if f.feed.how == fedHub {
		return true, !st.LastEvent.IsZero()
	}
	return st.Connected && st.Unusable == "", true
}

// hears is heard, of a stream by its name.
func (g *follower) hears(id crdt.StreamID, st *kvevents.Status) (heard, known bool) {
	g.mu.Lock()
	f := g.follow[id]
	g.mu.Unlock()
	if f == nil {
		return false, false
	}
	return f.heard(st)
}

// strangeFor is how long messages that named no replica are a problem.
const strangeFor = time.Minute

// strangers are the messages, of late, that name no replica, and the topic of
// the last one: engines dial us under names that nobody goes by.
func (g *follower) strangers(now time.Time) (n uint64, topic string) {
	if g.hub == nil {
		return 0, ""
	}
	n, topic, at := g.hub.Strange()
	if now.Sub(at) > strangeFor {
		return 0, ""
	}
	return n, topic
}
