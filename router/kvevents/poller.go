package kvevents

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/radix"
	"github.com/banyan-llm/banyan/router/kvevents/follow"
)

// maxPollBytes bounds one answer of a polled engine.
const maxPollBytes = 16 << 20

// PollerConfig describes a TensorRT-LLM replica.
type PollerConfig struct {
	URL      string        // base URL of the replica
	Interval time.Duration // between polls; default 100 ms
	Client   *http.Client  // default: 5 s a request
	Header   http.Header   // added to every request; may be nil

	Grid   int
	Hasher *radix.Hasher
	Sink   Sink
	Logger hclog.Logger // nil: silent
}

// Poller reads the events of a TensorRT-LLM replica, all its ranks. Reading
// drains the engine's queue, so a replica has one poller in the whole mesh.
type Poller struct {
	cfg    PollerConfig
	packer *Packer
	ranks  map[int]*pollRank // Run's goroutine only

	mu     sync.Mutex
	status map[int]Status
	err    string
	up     bool
	since  time.Time
}

// pollRank is the stream of one rank.
type pollRank struct {
	stream    crdt.StreamID
	epoch     uint64
	anchor    uint64
	last      uint64 // highest slot seen
	doubt     bool   // a poll failed since: it may be another process by now
	window    int64  // the largest seen: only its blocks describe the whole prefix
	perWindow bool   // event ids count per window
	fit       fitness
	slots     []crdt.Slot
	exhausted []crdt.Span
	missed    []time.Time // answers that began behind a hole, the newest ones
}

// Answers that begin behind a hole, that many within that time, are no bad
// luck: somebody else reads the queue.
const (
	missesToWarn = 5
	missesWithin = time.Minute
)

// rivalled says in plain words what holes again and again mean.
const rivalled = "event ids are missing again and again: another reader empties the engine's queue, " +
	"or its event_buffer_max_size is too small; let one mesh alone read it"

// NewPoller checks a configuration.
func NewPoller(cfg PollerConfig) (*Poller, error) {
	if cfg.Sink == nil || cfg.URL == "" {
		return nil, errors.New("poller: a URL and a sink are needed")
	}
	packer, err := NewPacker(PackConfig{Engine: TRTLLM, Grid: cfg.Grid, Hasher: cfg.Hasher})
	if err != nil {
		return nil, fmt.Errorf("poller: %w", err)
	}
	if cfg.Interval <= 0 {
		cfg.Interval = 100 * time.Millisecond
	}
	if cfg.Client == nil {
		cfg.Client = newPollClient()
	}
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	return &Poller{cfg: cfg, packer: packer, ranks: make(map[int]*pollRank), status: make(map[int]Status)}, nil
}

// newPollClient goes where the configuration says and nowhere else: by no proxy
// of the environment, and not where an engine redirects.
func newPollClient() *http.Client {
	return &http.Client{
		Timeout:       5 * time.Second,
		Transport:     &http.Transport{MaxIdleConnsPerHost: 1, IdleConnTimeout: 4 * time.Second, MaxResponseHeaderBytes: 64 << 10},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Run polls until ctx ends. A replica that does not answer is asked less and
// less often, at most every 32 intervals.
func (p *Poller) Run(ctx context.Context) error {
	failures := 0
	t := time.NewTimer(0)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.C:
		}
		err := p.Poll(ctx)
		p.note(err)
		if err != nil {
			failures = min(failures+1, 5)
		} else {
			failures = 0
		}
		t.Reset(p.cfg.Interval << failures)
	}
}

// Poll asks once and delivers what came. Run calls it; so may a test.
func (p *Poller) Poll(ctx context.Context) error {
	err := p.poll(ctx)
	if err != nil {
		for _, r := range p.ranks {
			r.doubt = true
		}
	}
	return err
}

func (p *Poller) poll(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.cfg.URL+"/kv_cache_events", nil)
	if err != nil {
		return err
	}
	maps.Copy(req.Header, p.cfg.Header)
	res, err := p.cfg.Client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxPollBytes+1))
	switch {
	case err != nil:
		return err
	case res.StatusCode != http.StatusOK:
		return fmt.Errorf("poll events: HTTP status %d", res.StatusCode)
	case len(body) > maxPollBytes:
		return fmt.Errorf("poll events: answer over %d bytes", maxPollBytes)
	}
	return p.take(body, time.Now())
}

// take decodes an answer and delivers it rank by rank.
func (p *Poller) take(body []byte, at time.Time) error {
	events, nameless, err := DecodeTRT(body)
	if err != nil {
		return err
	}
	if nameless > 0 {
		p.cfg.Logger.Warn("events ignored: no id, or an impossible rank", "count", nameless)
	}
	// Of two windows with one id the larger goes first.
	slices.SortStableFunc(events, func(a, b TRTEvent) int {
		return cmp.Or(cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.ID, b.ID), cmp.Compare(b.Window, a.Window))
	})
	for i := range events {
		r := p.rank(events[i].Rank)
		r.window = max(r.window, events[i].Window)
		if i > 0 && events[i-1].Rank == events[i].Rank && events[i-1].ID == events[i].ID && events[i-1].Window != events[i].Window {
			r.perWindow = true
		}
	}
	for i := range events {
		p.event(&events[i], at)
	}
	for rank, r := range p.ranks {
		p.flush(rank, r, at)
	}
	return nil
}

// rank finds or opens a rank's stream.
func (p *Poller) rank(rank int) *pollRank {
	r := p.ranks[rank]
	if r == nil {
		r = &pollRank{stream: crdt.NewStreamID(p.cfg.URL, rank)}
		p.ranks[rank] = r
	}
	return r
}

// event adds one event to its rank's slots. Blocks of smaller attention
// windows do not describe a whole prefix: their events become empty slots, so
// that the numbers have no holes.
func (p *Poller) event(e *TRTEvent, at time.Time) {
	r := p.rank(e.Rank)
	seq := e.ID + 1
	smaller := e.Window < r.window
	if smaller && (r.perWindow || seq <= r.last) {
		r.perWindow = true
		return
	}
	if smaller {
		e.Batch.Events = nil
	}
	p.settle(r, seq, at)
	slot, packed, err := p.packer.Pack(seq, &e.Batch)
	if err != nil {
		r.exhausted = append(r.exhausted, crdt.Span{From: seq, To: seq})
		return
	}
	if seq > r.last+1 && r.last != 0 {
		r.exhausted = append(r.exhausted, crdt.Span{From: r.last + 1, To: seq - 1})
		r.missed = append(r.missed, at)
		r.missed = r.missed[max(0, len(r.missed)-missesToWarn):]
	}
	r.last = seq
	r.fit.add(packed)
	r.slots = append(r.slots, slot)
	p.countEvent(e, r, packed, at)
}

// settle decides which incarnation a slot is of, as package follow does where an
// engine tells no start time: TensorRT-LLM's server has none anywhere (its
// metrics come from a collector over several processes, which leaves the
// process's own out), no event has a time, and there is no replay. So who begins
// to poll, or polls again after a failure, goes on with the known incarnation
// only at the very next number: a new process counts from 0. Anything else is a
// new one, named by the clock of its one poller.
func (p *Poller) settle(r *pollRank, seq uint64, at time.Time) {
	prior, known := p.cfg.Sink.Prior(r.stream)
	switch {
	case r.epoch == 0 && known && prior.LastSeq != 0 && seq == prior.LastSeq+1:
		r.epoch, r.anchor, r.last = prior.Epoch, prior.Anchor, prior.LastSeq
	case r.epoch == 0 || seq <= r.last || r.doubt && seq != r.last+1:
		p.flush(-1, r, at)
		highest := max(prior.Epoch, r.epoch)
		epoch := max(follow.Name(highest, uint64(at.UnixMilli())), highest+1)
		p.cfg.Logger.Info("receiving the KV events of an engine process that the mesh did not know yet", "stream", string(r.stream), "epoch", epoch)
		*r = pollRank{stream: r.stream, epoch: epoch, anchor: seq, window: r.window, perWindow: r.perWindow, missed: r.missed}
	}
	r.doubt = false
}

// flush delivers what a rank gathered.
func (p *Poller) flush(rank int, r *pollRank, at time.Time) {
	if len(r.slots) > 0 && !r.fit.unusable() {
		p.cfg.Sink.Deliver(Delivery{Stream: r.stream, Epoch: r.epoch, Anchor: r.anchor, Slots: r.slots, ReceivedAt: at})
	}
	if len(r.exhausted) > 0 {
		p.cfg.Sink.Exhausted(r.stream, r.epoch, r.exhausted)
	}
	r.slots, r.exhausted = nil, nil
	if rank < 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	st := p.status[rank]
	st.Stream, st.Engine, st.Rank, st.Layout = r.stream, TRTLLM, rank, LayoutJSON
	st.Epoch, st.LastSeq, st.Unusable, st.Warning = r.epoch, r.last, "", ""
	if len(r.missed) == missesToWarn && at.Sub(r.missed[0]) < missesWithin {
		st.Warning = rivalled
	}
	if r.fit.unusable() {
		st.Unusable = p.packer.cfg.Cure(r.fit.size)
	}
	p.status[rank] = st
}

// countEvent counts one event in its rank's status.
func (p *Poller) countEvent(e *TRTEvent, r *pollRank, packed Packed, at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	st := p.status[e.Rank]
	st.Counters.Messages++
	st.Counters.add(&e.Batch, packed)
	if r.fit.unusable() {
		st.Counters.Unapplied++
	}
	st.LastEvent = at
	p.status[e.Rank] = st
}

// note records how the last poll went.
func (p *Poller) note(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if up := err == nil; up != p.up || p.since.IsZero() {
		p.up, p.since = up, time.Now()
	}
	if err != nil {
		p.err = err.Error()
	}
}

// Status returns the streams of all ranks seen, by rank; one nameless entry
// before the first event.
func (p *Poller) Status() []Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.status) == 0 {
		st := Status{Stream: crdt.NewStreamID(p.cfg.URL, 0), Engine: TRTLLM, Rank: -1}
		return []Status{p.dressLocked(st)}
	}
	out := make([]Status, 0, len(p.status))
	for _, st := range p.status {
		out = append(out, p.dressLocked(st))
	}
	slices.SortFunc(out, func(a, b Status) int { return cmp.Compare(a.Rank, b.Rank) })
	return out
}

// dressLocked adds what all ranks share.
func (p *Poller) dressLocked(st Status) Status {
	st.Connected, st.Since, st.LastError = p.up, p.since, p.err
	switch {
	case st.Unusable != "":
		st.State = "unusable"
	case p.up:
		st.State = "polling"
	default:
		st.State = "connecting"
	}
	return st
}
