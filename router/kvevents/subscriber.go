package kvevents

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sync/semaphore"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/radix"
	"github.com/banyan-llm/banyan/router/kvevents/follow"
	"github.com/banyan-llm/banyan/router/kvevents/zmtp"
)

// Timing of a Subscriber.
const (
	tickEvery     = 250 * time.Millisecond
	againAfter    = 200 * time.Millisecond // before a replay is repeated, jittered
	inboxMessages = 1024                   // live messages waiting for Run
	roomBytes     = 64 << 20               // of messages, where Config names no room
	playedItems   = 256                    // replayed batches ahead of the tracker
	wantedSpans   = 256                    // ranges of slots to be asked for
	deliverSlots  = 64                     // slots gathered into one delivery, if they are there
	deliverBytes  = 1 << 20                // of slots, beyond which no more are gathered
)

// Config describes one stream to a Subscriber.
type Config struct {
	Stream crdt.StreamID
	Engine Engine
	Events string // PUB endpoint to dial; empty if a Hub feeds the stream
	Replay string // replay endpoint; empty: the engine offers none
	Topic  string // topic prefix to subscribe to; empty: everything

	Grid   int
	Hasher *radix.Hasher
	Sink   Sink

	// Start asks the engine when its process started, ms since 1970; 0 if it
	// answers and offers none. After an error it is asked again. nil: never asked.
	Start func(context.Context) (uint64, error)

	ReplayTimeout time.Duration // one attempt; default 2 s
	ZMTP          zmtp.Options
	Logger        hclog.Logger // nil: silent
}

// Subscriber follows one stream: it receives, decodes, packs, tracks and
// delivers. Run does the work; the other methods may be called at any time.
type Subscriber struct {
	cfg   Config
	pack  PackConfig
	inbox chan zmtp.Message
	asked chan struct{} // token: wanted is not empty

	mu     sync.Mutex
	sub    *zmtp.Sub // the dialed connection, once Run began
	wanted crdt.Spans
	status Status
	over   bool // Run has ended: nothing is taken any more

	// Below belongs to Run's goroutine.
	decoder Decoder
	packer  *Packer
	tracker *follow.Tracker
	began   time.Time // the tracker's time 0: setting the wall clock does not move it
	fit     fitness
	strange bool               // an unknown cache group was logged
	conn    uint64             // the connection messages are taken from
	asking  context.CancelFunc // ends the question who is at its other end
	answers chan identity
	asks    sync.WaitGroup
	player  player
	ready   Delivery // gathered, not yet delivered
	bytes   int      // of its slots
	log     hclog.Logger
}

// NewSubscriber checks a configuration.
func NewSubscriber(cfg Config) (*Subscriber, error) {
	if cfg.Sink == nil || cfg.Stream == "" {
		return nil, errors.New("subscriber: a stream and a sink are needed")
	}
	for _, endpoint := range []string{cfg.Events, cfg.Replay} {
		if endpoint == "" {
			continue
		}
		if err := zmtp.ParseEndpoint(endpoint, true); err != nil {
			return nil, fmt.Errorf("subscriber: %w", err)
		}
	}
	pack := PackConfig{Engine: cfg.Engine, Grid: cfg.Grid, Hasher: cfg.Hasher}
	packer, err := NewPacker(pack)
	if err != nil {
		return nil, fmt.Errorf("subscriber: %w", err)
	}
	if cfg.ReplayTimeout <= 0 {
		cfg.ReplayTimeout = 2 * time.Second
	}
	if cfg.ZMTP.Room == nil {
		cfg.ZMTP.Room = semaphore.NewWeighted(roomBytes)
	}
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	return &Subscriber{
		cfg: cfg, pack: pack, packer: packer,
		inbox:   make(chan zmtp.Message, inboxMessages),
		asked:   make(chan struct{}, 1),
		tracker: follow.New(cfg.Replay != ""),
		asking:  func() {},
		answers: make(chan identity),
		began:   time.Now(),
		player: player{
			endpoint: cfg.Replay, timeout: cfg.ReplayTimeout, opt: cfg.ZMTP,
			items: make(chan played, playedItems),
		},
		log:    cfg.Logger.With("stream", string(cfg.Stream)),
		status: Status{Stream: cfg.Stream, Engine: cfg.Engine, State: "connecting", Rank: -1},
	}, nil
}

// Run follows the stream until ctx ends. It may be called once.
func (s *Subscriber) Run(ctx context.Context) error {
	defer s.discard()
	var live sync.WaitGroup
	if s.cfg.Events != "" {
		sub := zmtp.DialSub(s.cfg.Events, s.cfg.Topic, s.cfg.ZMTP)
		s.mu.Lock()
		s.sub = sub
		s.mu.Unlock()
		defer func() { // in this order: Close takes what nobody receives any more
			live.Wait()
			_ = sub.Close()
		}()
		live.Go(func() { s.receive(ctx, sub) })
	}
	defer s.player.stop()
	defer s.asks.Wait()
	defer func() { s.asking() }()
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case m := <-s.inbox:
			s.message(ctx, m)
		case p := <-s.player.items:
			s.played(ctx, p)
		case <-s.asked:
			s.step(ctx, follow.Wanted{Spans: s.takeWanted()}, time.Now())
		case a := <-s.answers:
			s.answered(ctx, a)
		case now := <-tick.C:
			s.step(ctx, follow.Tick{}, now)
		}
		s.drain(ctx)
		s.deliver()
	}
}

// drain handles what is waiting without letting a delivery grow too large.
func (s *Subscriber) drain(ctx context.Context) {
	for range deliverSlots - 1 {
		if s.bytes > deliverBytes {
			return
		}
		select {
		case m := <-s.inbox:
			s.message(ctx, m)
		case p := <-s.player.items:
			s.played(ctx, p)
		default:
			return
		}
	}
}

// gather adds slots to the delivery being made up.
func (s *Subscriber) gather(out *follow.Output, at time.Time) {
	if s.ready.Epoch != out.Epoch {
		s.deliver()
	}
	if len(s.ready.Slots) == 0 {
		s.ready = Delivery{Stream: s.cfg.Stream, Epoch: out.Epoch, ReceivedAt: at}
	}
	s.ready.Anchor = out.Anchor
	s.ready.Slots = append(s.ready.Slots, out.Deliver...)
	for i := range out.Deliver {
		s.bytes += len(out.Deliver[i].Body)
	}
}

// deliver hands over what was gathered.
func (s *Subscriber) deliver() {
	if len(s.ready.Slots) > 0 {
		s.cfg.Sink.Deliver(s.ready)
	}
	s.ready, s.bytes = Delivery{}, 0
}

// receive passes messages of a dialed connection on. A full inbox slows the
// engine's socket down instead of dropping.
func (s *Subscriber) receive(ctx context.Context, sub *zmtp.Sub) {
	for {
		m, err := sub.Recv(ctx)
		if err != nil {
			return
		}
		select {
		case s.inbox <- m:
		case <-ctx.Done():
			m.Held.Release()
			return
		}
	}
}

// Feed hands over a message received by a Hub, with what it holds of the room. It
// never blocks: what the inbox does not take is dropped and counted, and comes
// back as a gap.
func (s *Subscriber) Feed(m zmtp.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.over {
		select {
		case s.inbox <- m:
			return
		default:
		}
	}
	m.Held.Release()
	s.status.Counters.Overflow++
}

// discard gives back the room of what waits when Run ends, and refuses the rest.
func (s *Subscriber) discard() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	for {
		select {
		case m := <-s.inbox:
			m.Held.Release()
		case p := <-s.player.items:
			p.held.Release()
		default:
			return
		}
	}
}

// Fetch asks the engine's replay for slots that no peer has. It returns at
// once; what comes is delivered, what cannot be had is reported as Exhausted.
func (s *Subscriber) Fetch(want []crdt.Span) {
	s.mu.Lock()
	s.wanted = s.wanted.Union(want)
	s.wanted = s.wanted[:min(len(s.wanted), wantedSpans)]
	s.mu.Unlock()
	select {
	case s.asked <- struct{}{}:
	default:
	}
}

// takeWanted empties the list of wanted slots.
func (s *Subscriber) takeWanted() []crdt.Span {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.wanted
	s.wanted = nil
	return w
}

// message handles one message or notice of the live stream. Messages of an
// older connection than the newest are of a process that may be gone.
func (s *Subscriber) message(ctx context.Context, m zmtp.Message) {
	defer m.Held.Release()
	switch {
	case m.Conn < s.conn:
		if m.Kind == zmtp.Data {
			s.count(func(c *Counters) { c.Late++ })
		}
		return
	case m.Kind == zmtp.Down && m.Conn > s.conn:
		return // of another engine, or one that said nothing
	case m.Kind == zmtp.Down:
		s.asking()
		s.step(ctx, follow.Disconnected{}, m.At)
		return
	case m.Kind == zmtp.Up || m.Conn > s.conn:
		s.conn, s.fit = m.Conn, fitness{}
		s.mu.Lock()
		s.status.Warning = "" // it may be another engine now
		s.mu.Unlock()
		s.step(ctx, follow.Connected{}, m.At)
		s.ask(ctx)
	}
	if m.Kind != zmtp.Data {
		return
	}
	f, err := ParseLive(m.Frames)
	if err != nil {
		s.count(func(c *Counters) { c.Messages++; c.BadMessages++ })
		return
	}
	slot, ok := s.slot(f, m.At)
	s.count(func(c *Counters) { c.Messages++ })
	switch {
	case s.fit.unusable():
		s.count(func(c *Counters) { c.Unapplied++ })
		s.publish()
	case ok:
		s.step(ctx, follow.Live{Slot: slot}, m.At)
	default:
		s.step(ctx, follow.Undecodable{Seq: f.Seq + 1}, m.At)
	}
}

// played handles one item of the replay in flight.
func (s *Subscriber) played(ctx context.Context, p played) {
	defer p.held.Release()
	if p.run != s.player.run {
		return // of a replay that was abandoned
	}
	if p.done {
		if !p.complete {
			s.log.Debug("replay broke off", "error", p.err)
		}
		s.step(ctx, follow.ReplayEnded{Complete: p.complete}, p.at)
		return
	}
	slot, ok := s.slot(p.frame, p.at)
	s.count(func(c *Counters) { c.ReplayBatches++ })
	switch {
	case s.fit.unusable():
	case ok:
		s.step(ctx, follow.Replayed{Slot: slot}, p.at)
	default:
		s.step(ctx, follow.Undecodable{Seq: p.frame.Seq + 1}, p.at)
	}
}

// slot decodes and packs one batch; false if its slot is lost.
func (s *Subscriber) slot(f Frame, at time.Time) (crdt.Slot, bool) {
	b, err := s.decoder.Decode(f.Payload)
	var slot crdt.Slot
	var p Packed
	if err == nil {
		slot, p, err = s.packer.Pack(f.Seq+1, b)
	}
	if err != nil {
		s.count(func(c *Counters) { c.Undecodable++ })
		s.log.Warn("event batch ignored: it cannot be decoded, so its cached blocks are not known", "seq", f.Seq, "error", err)
		return slot, false
	}
	s.fit.add(p)
	if p.UnknownKind != "" && !s.strange {
		s.strange = true
		s.log.Warn("blocks ignored: this version does not know the kind of their cache group; upgrade banyan")
	}
	s.mu.Lock()
	if p.UnknownKind != "" {
		s.status.Warning = "its cache has a group of a kind that this version of banyan does not know: the blocks of that group are left out"
	}
	s.status.Counters.add(b, p)
	s.status.LastEvent, s.status.Layout, s.status.Rank = at, b.Layout, b.Rank
	s.mu.Unlock()
	return slot, true
}

// step feeds the tracker and does what it says.
func (s *Subscriber) step(ctx context.Context, ev follow.Event, at time.Time) {
	before := s.tracker.Phase()
	prior, _ := s.cfg.Sink.Prior(s.cfg.Stream)
	out := s.tracker.Step(time.Since(s.began).Milliseconds(), prior, ev)
	if out.Opened {
		s.deliver()
		s.log.Info("receiving the KV events of an engine process that the mesh did not know yet", "epoch", out.Epoch)
		if len(out.Deliver) == 0 { // what it cached before is gone already
			s.cfg.Sink.Deliver(Delivery{Stream: s.cfg.Stream, Epoch: out.Epoch, ReceivedAt: at})
		}
	}
	if len(out.Deliver) > 0 {
		s.gather(&out, at)
	}
	if len(out.Exhausted) > 0 {
		s.deliver()
		s.log.Debug("the engine cannot replay these event batches", "epoch", out.Epoch, "spans", out.Exhausted)
		s.cfg.Sink.Exhausted(s.cfg.Stream, out.Epoch, out.Exhausted)
	}
	if out.StopReplay || out.Replay != nil {
		s.player.stop()
	}
	if out.Replay != nil {
		s.player.start(ctx, *out.Replay)
	}
	if out.HangUp {
		s.hangUp()
	}
	if before != follow.Quarantined && s.tracker.Phase() == follow.Quarantined {
		s.log.Error("the engine at this address changed three times in a minute: its events are ignored for a minute; if two engines share the address, give each its own")
	}
	s.publish()
}

// count changes the counters under the lock.
func (s *Subscriber) count(fn func(*Counters)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fn(&s.status.Counters)
}

// publish copies Run's own state to where Status reads it.
func (s *Subscriber) publish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status.State = s.tracker.Phase().String()
	switch {
	case !s.fit.unusable():
		s.status.Unusable = ""
	case s.status.Unusable == "":
		s.status.Unusable = s.pack.Cure(s.fit.size)
	}
	s.status.Start = follow.StartOf(s.tracker.Epoch())
	s.status.Epoch, s.status.LastSeq = s.tracker.Epoch(), s.tracker.LastSeq()
	s.status.Tracker = s.tracker.Stats()
}

// Status returns a copy of the stream's state.
func (s *Subscriber) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.status
	if s.sub != nil {
		conn := s.sub.State()
		st.Connected, st.Since = conn.Up, conn.Since
		st.Reconnects, st.LastError = conn.Reconnects(), conn.LastError
		if !conn.Up {
			st.State = "connecting"
		}
	}
	if st.Unusable != "" {
		st.State = "unusable"
	}
	return st
}
