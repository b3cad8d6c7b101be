package kvevents

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/banyan-llm/banyan/crdt"
)

// trtServer answers POST /kv_cache_events with the bodies given, in turn.
func trtServer(t *testing.T, bodies ...string) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || r.URL.Path != "/kv_cache_events" {
			http.NotFound(w, r)
			return
		}
		body := "[]"
		if len(bodies) > 0 {
			body, bodies = bodies[0], bodies[1:]
		}
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(s.Close)
	return s
}

func trtStored(id, window int, parent string, hash int, tokens int) string {
	var toks []string
	for i := range tokens {
		toks = append(toks, fmt.Sprintf(`{"type":"unique_token","token_id":%d,"token_extra_id":0}`, i))
	}
	return fmt.Sprintf(`{"event_id":%d,"window_size":%d,"data":{"type":"stored","parent_hash":%s,"blocks":[
	 {"type":"stored_block","block_hash":%d,"cache_level":0,"tokens":[%s]}]}}`, id, window, parent, hash, strings.Join(toks, ","))
}

func trtCreated(id, window int) string {
	return fmt.Sprintf(`{"event_id":%d,"window_size":%d,"data":{"type":"created","num_blocks_per_cache_level":[1,0]}}`, id, window)
}

func newTestPoller(t *testing.T, url string, sink Sink) *Poller {
	p, err := NewPoller(PollerConfig{URL: url, Grid: 16, Hasher: testHasher, Sink: sink, Interval: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func list(elements ...string) string { return "[" + strings.Join(elements, ",") + "]" }

func TestPollerNumbersGapsAndRestarts(t *testing.T) {
	sink := newRecordSink()
	s := trtServer(t,
		list(trtCreated(0, 100), trtStored(1, 100, "null", 5, 32)),
		list(),
		list(trtStored(4, 100, "5", 6, 32), trtStored(3, 40, "5", 6, 32)), // 2 was lost; 3 is of a smaller window
		"not json",
		list(trtCreated(0, 100), trtStored(1, 100, "null", 5, 32)), // restarted
	)
	p := newTestPoller(t, s.URL, sink)
	stream := crdt.NewStreamID(s.URL, 0)
	poll := func() uint64 {
		p.note(p.Poll(context.Background()))
		prior, _ := sink.Prior(stream)
		return prior.Epoch
	}
	first := poll()
	if first == 0 || sink.have(first) != "1-2" {
		t.Fatalf("epoch %d: %s", first, sink.have(first))
	}
	poll()
	poll()
	if got := sink.have(first); got != "1-2 4-5" || sink.lost() != "3" {
		t.Fatalf("have %s, lost %s", got, sink.lost())
	}
	if n := len(opsOf(t, sink.slots[first][4])); n != 0 {
		t.Fatalf("an event of a smaller window made %d ops", n)
	}
	poll()
	if st := p.Status()[0]; st.State != "connecting" || st.LastError == "" {
		t.Fatalf("after a broken answer: %+v", st)
	}
	second := poll()
	if second <= first || sink.have(second) != "1-2" {
		t.Fatalf("epoch %d after %d: %s", second, first, sink.have(second))
	}
	if st := p.Status()[0]; st.State != "polling" || st.Epoch != second || st.LastSeq != 2 {
		t.Fatalf("%+v", st)
	}
}

// Holes again and again mean that another reader takes its part.
func TestPollerTellsOfARival(t *testing.T) {
	var bodies []string
	for i := range missesToWarn {
		bodies = append(bodies, list(trtStored(3*i, 100, "null", 5, 32)))
	}
	bodies = append(bodies, list(trtStored(3*missesToWarn, 100, "null", 5, 32)))
	p := newTestPoller(t, trtServer(t, bodies...).URL, newRecordSink())
	for i := range bodies {
		if err := p.Poll(t.Context()); err != nil {
			t.Fatal(err)
		}
		if st := p.Status()[0]; (st.Warning != "") != (i >= missesToWarn) {
			t.Errorf("after %d holes: %q", i, st.Warning)
		}
	}
	if err := p.take([]byte(list(trtStored(3*missesToWarn+1, 100, "null", 5, 32))), time.Now().Add(2*missesWithin)); err != nil {
		t.Fatal(err)
	}
	if st := p.Status()[0]; st.Warning != "" {
		t.Errorf("long after: %q", st.Warning)
	}
}

func TestPollerFollowsNoRedirect(t *testing.T) {
	reached := false
	victim := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	defer victim.Close()
	s := httptest.NewServer(http.RedirectHandler(victim.URL, http.StatusTemporaryRedirect))
	defer s.Close()
	if err := newTestPoller(t, s.URL, newRecordSink()).Poll(t.Context()); err == nil || reached {
		t.Errorf("error %v, reached %v", err, reached)
	}
}

// TestPollerTakesOver: who takes a replica over goes on where the mesh is only at
// the very next event. Behind a hole it may be another process, whose blocks
// would stand beside those of the one before.
func TestPollerTakesOver(t *testing.T) {
	for id, same := range map[int]bool{9: true, 11: false, 3: false, 0: false} {
		sink := newRecordSink()
		if sink.prior = (Prior{Epoch: 50, Anchor: 1, LastSeq: 9}); id == 0 {
			sink.prior.LastSeq = 0 // only its name is known: this may be the first event of any process
		}
		p := newTestPoller(t, trtServer(t, list(trtStored(id, 100, "5", 6, 32))).URL, sink)
		if err := p.Poll(context.Background()); err != nil {
			t.Fatal(err)
		}
		epoch := p.Status()[0].Epoch
		if (epoch == 50) != same || epoch < 50 || sink.have(epoch) != strconv.Itoa(id+1) || sink.lost() != "" {
			t.Errorf("event %d: epoch %d, have %s, lost %s", id, epoch, sink.have(epoch), sink.lost())
		}
	}
}

// TestPollerAfterAFailure: the same between two polls of which one failed.
func TestPollerAfterAFailure(t *testing.T) {
	for id, same := range map[int]bool{2: true, 3: false} {
		sink := newRecordSink()
		p := newTestPoller(t, trtServer(t, list(trtCreated(0, 100), trtStored(1, 100, "null", 5, 32)), "not json", list(trtStored(id, 100, "5", 6, 32))).URL, sink)
		var epochs []uint64
		for range 3 {
			p.note(p.Poll(context.Background()))
			epochs = append(epochs, p.Status()[0].Epoch)
		}
		if (epochs[2] == epochs[0]) != same || epochs[2] < epochs[0] {
			t.Errorf("event %d: epochs %v", id, epochs)
		}
	}
}

func TestPollerIDsPerWindow(t *testing.T) {
	sink := newRecordSink()
	p := newTestPoller(t, trtServer(t,
		list(trtCreated(0, 40), trtCreated(0, 100), trtStored(1, 40, "null", 9, 32), trtStored(1, 100, "null", 5, 32)),
		list(trtStored(2, 40, "null", 9, 32), trtStored(2, 100, "5", 6, 32))).URL, sink)
	for range 2 {
		if err := p.Poll(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	prior, _ := sink.Prior("")
	if sink.have(prior.Epoch) != "1-3" || len(sink.slots) != 1 {
		t.Fatalf("have %s in %d epochs", sink.have(prior.Epoch), len(sink.slots))
	}
	if op := opsOf(t, sink.slots[prior.Epoch][3])[0]; op.Handles.At(0) != 6 {
		t.Fatalf("the smaller window won: %+v", op)
	}
}

func TestPollerRun(t *testing.T) {
	sink := newRecordSink()
	p := newTestPoller(t, trtServer(t, list(trtCreated(0, 100)), list(), list(trtStored(1, 100, "null", 5, 64))).URL, sink)
	runUntilEnd(t, p.Run)
	waitFor(t, func() string {
		prior, _ := sink.Prior("")
		return sink.have(prior.Epoch)
	}, "1-2")
}

func TestPollerHTTPErrors(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	p := newTestPoller(t, s.URL, newRecordSink())
	if err := p.Poll(context.Background()); err == nil || !strings.Contains(err.Error(), "404") {
		t.Fatalf("got %v", err)
	}
}

func TestDecodeTRTForms(t *testing.T) {
	body := list(
		`{"event_id":1,"window_size":9,"attention_dp_rank":2,"data":{"type":"removed","block_hashes":[3,-1,"00000000000000000000000000000007"]}}`,
		`{"event_id":2,"window_size":9,"data":{"type":"updated","block_hash":17,"cache_level":{"type":"event_diff","new_value":1,"old_value":0},"priority":null}}`,
		`{"event_id":3,"window_size":9,"data":{"type":"updated","block_hash":17,"cache_level":null,"priority":{"type":"event_diff","new_value":1,"old_value":0}}}`,
		`{"event_id":4,"window_size":9,"data":{"type":"stored","parent_hash":null,"blocks":[{"block_hash":1,"tokens":[{"token_id":1}],"cache_level":7}]}}`,
		`{"event_id":5,"window_size":9,"data":{"type":"exploded"}}`,
		`{"window_size":9,"data":{"type":"created"}}`,
		`{"event_id":7,"attention_dp_rank":1024,"data":{"type":"created"}}`,
		`{"event_id":6,"window_size":9,"data":{"type":"stored","parent_hash":null,"blocks":[
		  {"block_hash":1,"tokens":[{"token_id":1,"token_extra_id":0}],"cache_level":0},
		  {"block_hash":2,"tokens":[{"token_id":1,"token_extra_id":8}],"cache_level":0},
		  {"block_hash":3,"tokens":[{"token_id":1}],"cache_level":1,"cache_salt":"s"}]}}`,
	)
	events, nameless, err := DecodeTRT([]byte(body))
	if err != nil || nameless != 2 || len(events) != 6 {
		t.Fatalf("%d events, %d nameless, %v", len(events), nameless, err)
	}
	if e := events[0].Batch.Events[0]; events[0].Rank != 2 || e.Hashes[1] != 1<<64-1 || e.Hashes[2] != 7 {
		t.Errorf("removed %+v", e)
	}
	if up := events[1].Batch.Events; len(up) != 2 || up[0].Type != Stored || up[0].Medium != "CPU" || up[1].Type != Removed || up[1].Medium != "GPU" {
		t.Errorf("updated %+v", up)
	}
	if len(events[2].Batch.Events) != 0 || events[2].Batch.Dropped != 0 {
		t.Errorf("a change of priority says nothing: %+v", events[2])
	}
	for _, i := range []int{3, 4} {
		if events[i].Batch.Dropped != 1 || len(events[i].Batch.Events) != 0 {
			t.Errorf("%+v must be dropped", events[i])
		}
	}
	runs := events[5].Batch.Events
	if len(runs) != 2 || len(runs[0].Hashes) != 2 || len(runs[0].Extra[0]) != 0 || len(runs[0].Extra[1]) == 0 ||
		!runs[1].HasParent || runs[1].Parent != 2 || runs[1].Salt != "s" {
		t.Errorf("runs %+v", runs)
	}
	if _, _, err := DecodeTRT([]byte(`{"detail":"off"}`)); err == nil {
		t.Error("an object is no list of events")
	}
}
